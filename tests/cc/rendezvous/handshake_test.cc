#include "rendezvous/handshake.h"

#include <sys/socket.h>

#include <random>
#include <string>
#include <utility>

#include "base/fd.h"
#include "test.h"

namespace tfring {
namespace test {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    a = Fd(fds[0]);
    b = Fd(fds[1]);
  }
  Fd a;
  Fd b;
};

void Put(const Fd& fd, const char* bytes, ssize_t size) {
  EXPECT_EQ(send(fd.get(), bytes, static_cast<size_t>(size), MSG_NOSIGNAL), size);
}

Identity SomeIdentity() {
  Identity identity;
  identity.generation = 5;
  identity.rank = 3;
  identity.size = 7;
  identity.target = 1;
  return identity;
}

struct Outcome {
  Status initiator;
  Status acceptor;
};

// Both sides in turn until neither has anything to do; who fails closes his end.
Outcome Shake(Handshake initiator, Handshake acceptor) {
  Pair pair;
  Outcome outcome;
  for (int i = 0; i < 10; ++i) {
    if (pair.a.valid()) outcome.initiator = initiator.Advance(pair.a.get());
    if (!outcome.initiator.ok()) pair.a.Reset();
    if (pair.b.valid()) outcome.acceptor = acceptor.Advance(pair.b.get());
    if (!outcome.acceptor.ok()) pair.b.Reset();
  }
  EXPECT_EQ(outcome.initiator.ok(), initiator.done() && outcome.initiator.ok());
  return outcome;
}

Outcome ShakeWith(const std::string& secret_a, const std::string& secret_b,
                  Verdict verdict = Verdict::kWelcome) {
  return Shake(Handshake::Initiate(Purpose::kLink, secret_a, SomeIdentity()).value(),
               Handshake::Accept(Purpose::kLink, secret_b, [verdict](const Identity& identity) {
                 EXPECT_EQ(identity.generation, 5);
                 EXPECT_EQ(identity.rank, 3);
                 EXPECT_EQ(identity.size, 7);
                 EXPECT_EQ(identity.target, 1);
                 return verdict;
               }).value());
}

TEST(HandshakeWithOneSecretSucceeds) {
  const Outcome outcome = ShakeWith("secret", "secret");
  EXPECT_OK(outcome.initiator);
  EXPECT_OK(outcome.acceptor);
}

TEST(HandshakeWithDifferentSecretsFailsOnBothSides) {
  const Outcome outcome = ShakeWith("secret", "another");
  EXPECT_CODE(outcome.initiator, Code::kUnauthenticated);
  EXPECT_CODE(outcome.acceptor, Code::kUnauthenticated);
}

TEST(HandshakeTellsTheVerdict) {
  const std::pair<Verdict, std::string> verdicts[] = {{Verdict::kOtherGeneration, "generation 5"},
                                                      {Verdict::kOtherSize, "size 7"},
                                                      {Verdict::kRankTaken, "rank 3 already"},
                                                      {Verdict::kBadRank, "rank 3"}};
  for (const auto& [verdict, text] : verdicts) {
    const Outcome outcome = ShakeWith("secret", "secret", verdict);
    EXPECT_CODE(outcome.initiator, Code::kInvalidArgument);
    EXPECT_CODE(outcome.acceptor, Code::kInvalidArgument);
    EXPECT_CONTAINS(outcome.initiator.message(), text);
  }
}

TEST(HandshakeOfAnotherPurposeFails) {
  const Outcome outcome = Shake(Handshake::Initiate(Purpose::kStore, "secret", Identity()).value(),
                                Handshake::Accept(Purpose::kLink, "secret", [](const Identity&) {
                                  return Verdict::kWelcome;
                                }).value());
  EXPECT_FALSE(outcome.initiator.ok());
  EXPECT_FALSE(outcome.acceptor.ok());
}

// Somebody who answers every message with the message itself proves nothing.
TEST(HandshakeIsNotFooledByAMirror) {
  Pair pair;
  auto initiator = Handshake::Initiate(Purpose::kLink, "secret", SomeIdentity());
  ASSERT_OK(initiator);
  Status status;
  for (int i = 0; i < 5 && status.ok(); ++i) {
    status = initiator.value().Advance(pair.a.get());
    char bytes[256];
    const ssize_t got = recv(pair.b.get(), bytes, sizeof(bytes), 0);
    if (got > 0) Put(pair.b, bytes, got);
  }
  EXPECT_CODE(status, Code::kUnauthenticated);
}

TEST(HandshakeNamesAnotherVersion) {
  Pair pair;
  auto initiator = Handshake::Initiate(Purpose::kLink, "secret", SomeIdentity());
  ASSERT_OK(initiator);
  EXPECT_OK(initiator.value().Advance(pair.a.get()));
  char hello[40];
  ASSERT_EQ(recv(pair.b.get(), hello, sizeof(hello), 0), 40);
  hello[4] = 99;
  ASSERT_EQ(send(pair.b.get(), hello, sizeof(hello), 0), 40);
  const Status status = initiator.value().Advance(pair.a.get());
  EXPECT_CODE(status, Code::kIo);
  EXPECT_CONTAINS(status.message(), "version 99");
}

TEST(HandshakeTakesBytesOneByOne) {
  Pair wire_a;
  Pair wire_b;
  auto initiator = Handshake::Initiate(Purpose::kLink, "secret", SomeIdentity());
  auto acceptor = Handshake::Accept(Purpose::kLink, "secret",
                                    [](const Identity&) { return Verdict::kWelcome; });
  ASSERT_OK(initiator);
  ASSERT_OK(acceptor);
  const auto carry = [](const Fd& from, const Fd& to) {
    char byte;
    if (recv(from.get(), &byte, 1, 0) == 1) Put(to, &byte, 1);
  };
  for (int i = 0; i < 200; ++i) {
    EXPECT_OK(initiator.value().Advance(wire_a.a.get()));
    EXPECT_OK(acceptor.value().Advance(wire_b.a.get()));
    carry(wire_a.b, wire_b.b);
    carry(wire_b.b, wire_a.b);
  }
  EXPECT_TRUE(initiator.value().done());
  EXPECT_TRUE(acceptor.value().done());
}

// Whatever byte is changed on the way, neither side believes the other.
TEST(HandshakeNoticesEveryChangedByte) {
  for (int changed = 0; changed < 40 + 40 + 52 + 33; ++changed) {
    Pair wire_a;
    Pair wire_b;
    auto initiator = Handshake::Initiate(Purpose::kLink, "secret", SomeIdentity());
    auto acceptor = Handshake::Accept(Purpose::kLink, "secret",
                                      [](const Identity&) { return Verdict::kWelcome; });
    Status a;
    Status b;
    int seen = 0;
    const auto carry = [&](const Fd& from, const Fd& to) {
      char bytes[256];
      const ssize_t got = recv(from.get(), bytes, sizeof(bytes), 0);
      for (ssize_t i = 0; i < got; ++i) {
        if (seen++ == changed) bytes[i] = static_cast<char>(bytes[i] ^ 1);
      }
      if (got > 0) Put(to, bytes, got);
    };
    for (int i = 0; i < 6; ++i) {
      if (a.ok()) a = initiator.value().Advance(wire_a.a.get());
      carry(wire_a.b, wire_b.b);
      if (b.ok()) b = acceptor.value().Advance(wire_b.a.get());
      carry(wire_b.b, wire_a.b);
    }
    EXPECT_FALSE(a.ok() && initiator.value().done()) << "byte " << changed;
  }
}

}  // namespace
}  // namespace test
}  // namespace tfring
