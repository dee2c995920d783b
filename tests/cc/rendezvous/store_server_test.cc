// The store's server against those who do not play by the rules, and its errors.
#include "rendezvous/store_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "rendezvous/handshake.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/tcp_store.h"
#include "test.h"

namespace tfring {
namespace test {
namespace {

constexpr Duration kLong{60000};

std::unique_ptr<StoreServer> Start() {
  auto server = StoreServer::Start("127.0.0.1", 0, "secret");
  EXPECT_OK(server);
  return std::move(server.value());
}

Fd Dial(const StoreServer& server) {
  auto fd = ConnectTcp("127.0.0.1", server.port(), Deadline(kLong));
  EXPECT_OK(fd);
  return std::move(fd.value());
}

void SendText(const Fd& fd, const std::string& text) {
  EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

// Whatever comes, until the other end closes.
std::string ReadToTheEnd(const Fd& fd) {
  std::string text;
  while (WaitForEvent(fd.get(), POLLIN, Deadline(kLong)).ok()) {
    char bytes[4096];
    const ssize_t got = recv(fd.get(), bytes, sizeof(bytes), 0);
    if (got <= 0) return text;
    text.append(bytes, static_cast<size_t>(got));
  }
  EXPECT_TRUE(false) << "the server did not close the connection";
  return text;
}

// A connection that has proved the secret.
Fd Authenticated(const StoreServer& server) {
  Fd fd = Dial(server);
  auto handshake = Handshake::Initiate(Purpose::kStore, "secret", Identity());
  EXPECT_OK(handshake);
  while (!handshake.value().done()) {
    EXPECT_OK(handshake.value().Advance(fd.get()));
    if (handshake.value().done()) break;
    EXPECT_OK(WaitForEvent(fd.get(), POLLIN, Deadline(kLong)));
  }
  return fd;
}

void ExpectServes(const StoreServer& server) {
  auto client = TcpStore::Connect("127.0.0.1", server.port(), "secret", kLong);
  ASSERT_OK(client);
  EXPECT_OK(client.value()->Set("key", "value"));
}

TEST(StoreServerRefusesAWrongSecret) {
  const auto server = Start();
  const auto client = TcpStore::Connect("127.0.0.1", server->port(), "guess", kLong);
  EXPECT_CODE(client, Code::kUnauthenticated);
  EXPECT_CONTAINS(client.status().message(), "127.0.0.1:" + std::to_string(server->port()));
  EXPECT_CONTAINS(client.status().message(), "secret");
  ExpectServes(*server);
}

TEST(StoreServerNamesTheAddressThatIsTaken) {
  const auto server = Start();
  const auto second = StoreServer::Start("127.0.0.1", server->port(), "secret");
  EXPECT_CODE(second, Code::kIo);
  EXPECT_CONTAINS(second.status().message(), "127.0.0.1:" + std::to_string(server->port()));
  EXPECT_CONTAINS(second.status().message(), "in use");
}

TEST(StoreServerNamesTheHostItCannotBind) {
  EXPECT_CODE(StoreServer::Start("192.0.2.1", 0, "secret"), Code::kIo);
  const auto server = StoreServer::Start("no-such-host.invalid", 0, "secret");
  EXPECT_FALSE(server.ok());
  EXPECT_CONTAINS(server.status().message(), "no-such-host.invalid");
}

TEST(StoreServerBindsAllInterfaces) {
  auto server = StoreServer::Start("", 0, "secret");
  ASSERT_OK(server);
  auto client = TcpStore::Connect("localhost", server.value()->port(), "secret", kLong);
  ASSERT_OK(client);
  auto four = TcpStore::Connect("127.0.0.1", server.value()->port(), "secret", kLong);
  ASSERT_OK(four);
  EXPECT_EQ(four.value()->local_address(), "127.0.0.1");
}

TEST(StoreClientNamesAServerThatIsNotThere) {
  int port = 0;
  {
    const auto server = Start();
    port = server->port();
  }
  const auto client = TcpStore::Connect("127.0.0.1", port, "secret", Duration(50));
  EXPECT_CODE(client, Code::kIo);
  EXPECT_CONTAINS(client.status().message(), "127.0.0.1:" + std::to_string(port));
  EXPECT_CONTAINS(client.status().message(), "refused");
}

TEST(StoreClientNamesAHostThatDoesNotExist) {
  const auto client = TcpStore::Connect("no-such-host.invalid", 80, "secret", Duration(50));
  EXPECT_CODE(client, Code::kIo);
  EXPECT_CONTAINS(client.status().message(), "no-such-host.invalid:80");
}

TEST(StoreClientWaitsForAServerThatStartsLater) {
  auto listener = ListenTcp("127.0.0.1", 0);
  ASSERT_OK(listener);
  const int port = LocalPort(listener.value().get()).value();
  listener.value().Reset();
  std::thread thread([port] {
    auto client = TcpStore::Connect("127.0.0.1", port, "secret", kLong);
    ASSERT_OK(client);
    EXPECT_OK(client.value()->Set("key", "value"));
  });
  auto server = StoreServer::Start("127.0.0.1", port, "secret");
  EXPECT_OK(server);
  thread.join();
}

TEST(StoreServerHangsUpOnGarbage) {
  const auto server = Start();
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(100000, '\0'), std::string("T"),
        std::string("TFRGxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx") + std::string(52, 'y')}) {
    const Fd fd = Dial(*server);
    SendText(fd, garbage);
    shutdown(fd.get(), SHUT_WR);
    EXPECT_LE(ReadToTheEnd(fd).size(), 40u) << "nothing but a nonce";
  }
  ExpectServes(*server);
}

TEST(StoreServerServesOthersWhileStrangersSayNothing) {
  const auto server = Start();
  std::vector<Fd> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(Dial(*server));
  ExpectServes(*server);
  // The oldest had to go for the later ones.
  ReadToTheEnd(silent.front());
}

TEST(StoreServerHangsUpOnLengthsOutOfBounds) {
  const auto server = Start();
  StoreRequest bad_key;
  bad_key.operation = StoreRequest::kGet;
  bad_key.key_bytes = ~uint32_t{0};
  StoreRequest bad_value;
  bad_value.operation = StoreRequest::kSet;
  bad_value.key_bytes = 1;
  bad_value.number = int64_t{1} << 40;
  StoreRequest negative = bad_value;
  negative.number = -1;
  StoreRequest unknown;
  unknown.operation = 77;
  unknown.key_bytes = 1;
  for (const StoreRequest& request : {bad_key, bad_value, negative, unknown}) {
    const Fd fd = Authenticated(*server);
    SendText(fd, request.Encode());
    EXPECT_EQ(ReadToTheEnd(fd), "");
  }
  ExpectServes(*server);
}

TEST(StoreServerSurvivesRandomRequests) {
  const auto server = Start();
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const Fd fd = Authenticated(*server);
    std::string bytes(1 + random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? random() : random() % 5);
    SendText(fd, bytes);
  }
  ExpectServes(*server);
}

TEST(StoreServerAnswersRequestsSentInOneGo) {
  const auto server = Start();
  const Fd fd = Authenticated(*server);
  StoreRequest add;
  add.operation = StoreRequest::kAdd;
  add.key_bytes = 1;
  add.number = 1;
  SendText(fd, add.Encode() + "k" + add.Encode() + "k");
  const std::string expected =
      StoreResponse{0, 1}.Encode() + "1" + StoreResponse{0, 1}.Encode() + "2";
  std::string got;
  while (got.size() < expected.size()) {
    ASSERT_OK(WaitForEvent(fd.get(), POLLIN, Deadline(kLong)));
    char bytes[64];
    const ssize_t size = recv(fd.get(), bytes, sizeof(bytes), 0);
    ASSERT_TRUE(size > 0);
    got.append(bytes, static_cast<size_t>(size));
  }
  EXPECT_TRUE(got == expected);
}

TEST(StoreClientReportsAServerThatGoes) {
  auto server = Start();
  auto client = TcpStore::Connect("127.0.0.1", server->port(), "secret", kLong);
  ASSERT_OK(client);
  std::thread waiting([&] { EXPECT_CODE(client.value()->Get("key", kLong), Code::kIo); });
  server.reset();
  waiting.join();
  const Status status = client.value()->Set("key", "value");
  EXPECT_CODE(status, Code::kIo);
  EXPECT_CONTAINS(status.message(), "store at 127.0.0.1");
}

TEST(StoreServerForgetsAClientThatLeavesWhileItWaits) {
  const auto server = Start();
  {
    const Fd fd = Authenticated(*server);
    StoreRequest get;
    get.operation = StoreRequest::kGet;
    get.key_bytes = 1;
    get.number = 60000;
    SendText(fd, get.Encode() + "k");
  }
  ExpectServes(*server);
}

}  // namespace
}  // namespace test
}  // namespace tfring
