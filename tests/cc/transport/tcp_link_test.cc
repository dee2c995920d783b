// A TCP link against a raw socket: partial frames, Release, and bytes that are no frames.
#include "transport/tcp/tcp_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/socket.h"
#include "test.h"
#include "transport/ranks.h"

namespace tfring {
namespace test {
namespace {

// The link's socket is a unix one: it is a stream like any other.
struct Wire {
  Wire() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    link = std::make_unique<TcpLink>(1, Fd(fds[0]));
    far = Fd(fds[1]);
    poller = std::move(Poller::Make().value());
    EXPECT_OK(link->Attach(poller.get(), 0));
  }
  ~Wire() { link.reset(); }

  // As a Mesh does it.
  bool Poll(FrameSink& sink) {
    for (const Poller::Event& event : poller->Wait(std::chrono::milliseconds(0))) {
      link->OnEvents(event.events);
    }
    return link->Poll(sink);
  }

  void Put(const std::string& bytes) {
    EXPECT_EQ(send(far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // All that has come out at the far end by now.
  std::string Take() {
    std::string all;
    char bytes[65536];
    ssize_t got = 0;
    while ((got = recv(far.get(), bytes, sizeof(bytes), 0)) > 0) {
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }

  std::unique_ptr<Poller> poller;
  std::unique_ptr<TcpLink> link;
  Fd far;
};

std::string Frame(const FrameHeader& header, const std::string& payload) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + payload;
}

std::string Pattern(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

ConstBytes Whole(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(TcpLinkPutsFramesTogetherFromAnyPieces) {
  std::string stream;
  std::vector<std::string> payloads;
  for (const size_t size : {0, 1, 5000, 0, 0, 24, 23, 25}) {
    payloads.push_back(Pattern(size, static_cast<unsigned>(size)));
    stream += Frame(DataHeader(size), payloads.back());
  }
  for (const size_t piece : {1, 7, 24, 1000, 100000}) {
    Wire wire;
    Recorder recorder;
    for (size_t at = 0; at < stream.size(); at += piece) {
      wire.Put(stream.substr(at, piece));
      while (wire.Poll(recorder)) {
      }
    }
    ASSERT_EQ(recorder.frames.size(), payloads.size()) << "in pieces of " << piece;
    for (size_t i = 0; i < payloads.size(); ++i) {
      EXPECT_TRUE(recorder.frames[i].payload == payloads[i]);
    }
    EXPECT_TRUE(recorder.closed.empty());
  }
}

// Fills the socket until a data frame has got stuck half-way.
void SendUntilStuck(Wire& wire, const std::string& payload, uint64_t* completed, uint64_t* sent) {
  const ConstBytes piece = Whole(payload);
  while (wire.link->CanSend(payload.size())) {
    wire.link->Send(DataHeader(payload.size()), &piece, 1, completed);
    ++*sent;
  }
  EXPECT_EQ(*completed + 1, *sent);
}

TEST(TcpLinkSendsTheRestLater) {
  Wire wire;
  Recorder recorder;
  uint64_t completed = 0;
  uint64_t sent = 0;
  const std::string payload = Pattern(kMaxFrameBytes, 1);
  SendUntilStuck(wire, payload, &completed, &sent);
  wire.link->SendControl(ControlHeader(3), "end");
  EXPECT_FALSE(wire.link->flushed());
  std::string all = wire.Take();
  while (!wire.link->flushed()) {
    wire.Poll(recorder);
    all += wire.Take();
  }
  EXPECT_EQ(completed, sent);
  EXPECT_TRUE(wire.link->CanSend(payload.size()));
  std::string expected;
  for (uint64_t i = 0; i < sent; ++i) expected += Frame(DataHeader(payload.size()), payload);
  expected += Frame(ControlHeader(3), "end");
  EXPECT_TRUE(all == expected);
}

TEST(TcpLinkReleaseKeepsWhatHasNotLeft) {
  Wire wire;
  Recorder recorder;
  uint64_t completed = 0;
  uint64_t sent = 0;
  const std::string payload = Pattern(kMaxFrameBytes, 2);
  std::string memory = payload;
  SendUntilStuck(wire, memory, &completed, &sent);
  const uint64_t before = completed;
  wire.link->Release(&completed);
  std::fill(memory.begin(), memory.end(), '?');
  std::string all = wire.Take();
  while (!wire.link->flushed()) {
    wire.Poll(recorder);
    all += wire.Take();
  }
  EXPECT_EQ(completed, before) << "nobody counts any more";
  std::string expected;
  for (uint64_t i = 0; i < sent; ++i) expected += Frame(DataHeader(payload.size()), payload);
  EXPECT_TRUE(all == expected);
}

TEST(TcpLinkSendsFramesOfThousandsOfPieces) {
  Wire wire;
  Recorder recorder;
  const std::string payload = Pattern(20000, 3);
  std::vector<ConstBytes> pieces;
  for (size_t i = 0; i < payload.size(); ++i) {
    pieces.push_back({reinterpret_cast<const uint8_t*>(payload.data()) + i, 1});
    if (i % 100 == 0) pieces.push_back({nullptr, 0});
  }
  uint64_t completed = 0;
  wire.link->Send(DataHeader(payload.size()), pieces.data(), pieces.size(), &completed);
  std::string all = wire.Take();
  while (!wire.link->flushed()) {
    wire.Poll(recorder);
    all += wire.Take();
  }
  EXPECT_EQ(completed, 1u);
  EXPECT_TRUE(all == Frame(DataHeader(payload.size()), payload));
}

// A connection over the loopback device; unix sockets know no low-water mark.
struct TcpWire : Wire {
  TcpWire() {
    Fd listener = std::move(ListenTcp("127.0.0.1", 0).value());
    const Deadline deadline(Duration(10000));
    Fd near =
        std::move(ConnectTcp("127.0.0.1", LocalPort(listener.get()).value(), deadline).value());
    EXPECT_OK(WaitForEvent(listener.get(), POLLIN, deadline));
    far = std::move(Accept(listener.get()).value());
    link = std::make_unique<TcpLink>(1, std::move(near));
    EXPECT_OK(link->Attach(poller.get(), 0));
  }
};

TEST(TcpLinkIsNotWokenForEveryPacketOfALargePayload) {
  TcpWire wire;
  Recorder recorder;
  const std::string payload = Pattern(200000, 6);
  const std::string frame = Frame(DataHeader(payload.size()), payload);
  const auto wait = [&] { return wire.poller->Wait(std::chrono::milliseconds(50)).count; };
  wire.Put(frame.substr(0, 1000));
  while (recorder.frames.empty() && wait() > 0) wire.Poll(recorder);
  wire.Put(frame.substr(1000, 1000));
  EXPECT_EQ(wait(), 0) << "for a few bytes more";
  wire.Put(frame.substr(2000));
  // And a small one right behind it.
  wire.Put(Frame(ControlHeader(3), "end"));
  while (recorder.frames.size() < 2) {
    ASSERT_TRUE(wire.poller->Wait(std::chrono::milliseconds(10000)).count > 0);
    while (wire.Poll(recorder)) {
    }
  }
  EXPECT_TRUE(recorder.frames[0].payload == payload);
  EXPECT_EQ(recorder.frames[1].payload, "end");
  wire.Put(Frame(ControlHeader(1), "x"));
  EXPECT_TRUE(wire.poller->Wait(std::chrono::milliseconds(10000)).count > 0);
}

TEST(TcpLinkDeliversWhatCameBeforeTheEnd) {
  Wire wire;
  Recorder recorder;
  wire.Put(Frame(DataHeader(4), "last") + Frame(DataHeader(100), "cut"));
  wire.far.Reset();
  while (recorder.closed.empty()) wire.Poll(recorder);
  ASSERT_EQ(recorder.frames.size(), 1u);
  EXPECT_EQ(recorder.frames[0].payload, "last");
  EXPECT_CODE(recorder.closed[0].second, Code::kPeerLost);
  EXPECT_TRUE(wire.link->closed());
  EXPECT_FALSE(wire.Poll(recorder)) << "once";
}

TEST(TcpLinkDropsAndCountsWhatNobodyTakes) {
  Wire wire;
  Recorder recorder;
  uint64_t completed = 0;
  uint64_t sent = 0;
  const std::string payload = Pattern(kMaxFrameBytes, 4);
  SendUntilStuck(wire, payload, &completed, &sent);
  wire.far.Reset();
  while (recorder.closed.empty()) wire.Poll(recorder);
  EXPECT_EQ(completed, sent);
  ASSERT_TRUE(wire.link->CanSend(payload.size()));
  const ConstBytes piece = Whole(payload);
  wire.link->Send(DataHeader(payload.size()), &piece, 1, &completed);
  EXPECT_EQ(completed, sent + 1);
  wire.link->SendControl(ControlHeader(1), "x");
  EXPECT_EQ(recorder.closed.size(), 1u);
}

TEST(TcpLinkClosesOnHeadersThatAreNone) {
  std::vector<FrameHeader> bad(4, DataHeader(0));
  bad[0].type = 0;
  bad[1].type = kLastFrameType + 1;
  bad[2].bytes = kMaxFrameBytes + 1;
  bad[3].bytes = ~uint32_t{0};
  for (const FrameHeader& header : bad) {
    Wire wire;
    Recorder recorder;
    wire.Put(Frame(DataHeader(2), "ok") + Frame(header, "whatever"));
    while (recorder.closed.empty()) wire.Poll(recorder);
    EXPECT_EQ(recorder.frames.size(), 1u);
    EXPECT_CODE(recorder.closed[0].second, Code::kIo);
    EXPECT_CONTAINS(recorder.closed[0].second.message(), "protocol violation");
  }
}

TEST(TcpLinkSurvivesRandomBytes) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    Wire wire;
    Recorder recorder;
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 3 == 0 ? random() : random() % 4);
    wire.Put(bytes);
    wire.far.Reset();
    while (recorder.closed.empty()) wire.Poll(recorder);
    EXPECT_EQ(recorder.closed.size(), 1u);
  }
}

}  // namespace
}  // namespace test
}  // namespace tfring
