// Coming together among strangers, impostors and missing ranks.
#include "transport/meeting.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/socket.h"
#include "rendezvous/handshake.h"
#include "rendezvous/hash_store.h"
#include "rendezvous/store_server.h"
#include "rendezvous/tcp_store.h"
#include "test.h"
#include "transport/peer_address.h"
#include "transport/ranks.h"

namespace tfring {
namespace test {
namespace {

constexpr Duration kLong{60000};

Fd Dial(const PeerAddress& address, bool local) {
  auto fd = local ? StartConnectUnix(address.unix_name)
                  : ConnectTcp(address.address, address.port, Deadline(kLong));
  EXPECT_OK(fd);
  return std::move(fd.value());
}

void SendText(const Fd& fd, const std::string& text) {
  const ssize_t sent = send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
  static_cast<void>(sent);  // the other end may have hung up already
}

// Shakes hands as that rank until it is let in or thrown out.
Status Introduce(const Fd& fd, const std::string& secret, const Identity& identity) {
  auto handshake = Handshake::Initiate(Purpose::kLink, secret, identity);
  if (!handshake.ok()) return handshake.status();
  while (true) {
    TFR_RETURN_IF_ERROR(handshake.value().Advance(fd.get()));
    if (handshake.value().done()) return Status::Ok();
    TFR_RETURN_IF_ERROR(WaitForEvent(fd.get(), POLLIN, Deadline(kLong)));
  }
}

Identity Caller(int rank, int size) {
  Identity identity;
  identity.rank = rank;
  identity.size = size;
  return identity;
}

// Greets everybody once; says whether all ranks are really there.
void ExpectConnected(Mesh& mesh) {
  Recorder recorder;
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (peer != mesh.rank()) mesh.link(peer).SendControl(ControlHeader(2), "hi");
  }
  const auto peers = static_cast<size_t>(mesh.size() - 1);
  PollUntil(mesh, recorder, [&] { return recorder.frames.size() == peers; });
  mesh.Close(kLong);
}

void ConnectAndGreet(const MeshOptions& options, Store& store) {
  auto mesh = Mesh::Connect(options, store);
  ASSERT_OK(mesh);
  ExpectConnected(*mesh.value());
}

TEST_EACH(MeetingMeetsInATcpStore, MeshCases()) {
  auto server = StoreServer::Start("127.0.0.1", 0, "secret");
  ASSERT_OK(server);
  RunRanks(param.size, [&](int rank) {
    auto store = TcpStore::Connect("127.0.0.1", server.value()->port(), "secret", kLong);
    ASSERT_OK(store);
    ConnectAndGreet(OptionsOf(param, rank), *store.value());
  });
}

TEST_EACH(MeetingSpeaksIpv6, MeshCases({3})) {
  auto server = StoreServer::Start("::1", 0, "secret");
  if (!server.ok()) {
    EXPECT_CONTAINS(server.status().message(), "[::1]:0");  // this host has no IPv6
    return;
  }
  RunRanks(param.size, [&](int rank) {
    auto store = TcpStore::Connect("::1", server.value()->port(), "secret", kLong);
    ASSERT_OK(store);
    EXPECT_EQ(store.value()->local_address(), "::1");
    ConnectAndGreet(OptionsOf(param, rank), *store.value());
  });
}

// Again and again in one store, even without a new generation.
TEST_EACH(MeetingCanBeRepeated, MeshCases({3})) {
  HashStore store;
  RunRanks(param.size, [&](int rank) {
    for (int64_t round = 0; round < 30; ++round) {
      MeshOptions options = OptionsOf(param, rank);
      options.generation = round / 2;
      ConnectAndGreet(options, store);
    }
  });
}

// Lets one rank do something between learning the addresses and connecting.
class InterruptedStore : public HashStore {
 public:
  InterruptedStore(int rank, std::function<void(const std::vector<PeerAddress>&)> interrupt)
      : rank_(rank), interrupt_(std::move(interrupt)) {}

  Result<std::vector<std::string>> Gather(const std::string& key, int rank, int size,
                                          const std::string& value, Duration timeout) override {
    auto values = HashStore::Gather(key, rank, size, value, timeout);
    if (!values.ok() || rank != rank_ || value.empty()) return values;
    std::vector<PeerAddress> addresses;
    for (const std::string& bytes : values.value()) {
      addresses.push_back(PeerAddress::Decode(bytes).value());
    }
    interrupt_(addresses);
    return values;
  }

 private:
  const int rank_;
  const std::function<void(const std::vector<PeerAddress>&)> interrupt_;
};

TEST_EACH(MeetingIsNotHeldUpByStrangers, MeshCases({3})) {
  std::vector<Fd> silent;
  InterruptedStore store(2, [&](const std::vector<PeerAddress>& addresses) {
    for (const PeerAddress& address : addresses) {
      for (const bool local : {false, true}) {
        for (int i = 0; i < 100; ++i) silent.push_back(Dial(address, local));
        SendText(Dial(address, local), "GET / HTTP/1.0\r\n\r\n");
        SendText(Dial(address, local), std::string(100000, 'T'));
        SendText(Dial(address, local), "TFRG" + std::string(200, '\1'));
      }
    }
  });
  RunRanks(param.size, [&](int rank) { ConnectAndGreet(OptionsOf(param, rank), store); });
}

TEST_EACH(MeetingRefusesImpostors, MeshCases({2})) {
  InterruptedStore store(1, [](const std::vector<PeerAddress>& addresses) {
    Identity generation = Caller(1, 2);
    generation.generation = 1;
    Identity target = Caller(1, 2);
    target.target = 1;
    for (const bool local : {false, true}) {
      const PeerAddress& address = addresses[0];
      EXPECT_CODE(Introduce(Dial(address, local), "guess", Caller(1, 2)), Code::kUnauthenticated);
      for (const Identity& wrong :
           {generation, target, Caller(1, 3), Caller(2, 2), Caller(0, 2), Caller(-1, 2)}) {
        EXPECT_CODE(Introduce(Dial(address, local), "the secret", wrong), Code::kInvalidArgument);
      }
    }
  });
  RunRanks(param.size, [&](int rank) { ConnectAndGreet(OptionsOf(param, rank), store); });
}

TEST_EACH(MeetingFailsAtOnceWithAWrongSecret, MeshCases({2})) {
  HashStore store;
  RunRanks(param.size, [&](int rank) {
    MeshOptions options = OptionsOf(param, rank);
    if (rank == 1) {
      options.secret = "another";
      const auto mesh = Mesh::Connect(options, store);
      EXPECT_CODE(mesh, Code::kUnauthenticated);
      EXPECT_CONTAINS(mesh.status().message(), "rank 1: connecting to rank 0");
    } else {
      options.timeout = Duration(2000);
      EXPECT_CODE(Mesh::Connect(options, store), Code::kTimeout);
    }
  });
}

TEST_EACH(MeetingRefusesASecondProcessWithARank, MeshCases({3})) {
  HashStore store;
  std::atomic<bool> refused{false};
  RunRanks(param.size, [&](int thread) {
    // Rank 1 waits for rank 2, which tries to be rank 1 at first.
    while (thread == 2 && !refused.load()) {
      MeshOptions options = OptionsOf(param, 1);
      options.timeout = Duration(20);
      const auto mesh = Mesh::Connect(options, store);
      ASSERT_FALSE(mesh.ok());
      if (mesh.status().code() == Code::kTimeout) continue;  // it came first
      EXPECT_CODE(mesh, Code::kInvalidArgument);
      EXPECT_CONTAINS(mesh.status().message(), "another process is rank 1 already");
      refused.store(true);
    }
    while (thread == 1) {  // also when it was refused, since rank 2 was quicker
      auto mesh = Mesh::Connect(OptionsOf(param, 1), store);
      if (!mesh.ok()) continue;
      ExpectConnected(*mesh.value());
      return;
    }
    ConnectAndGreet(OptionsOf(param, thread), store);
  });
  EXPECT_TRUE(refused.load());
}

TEST(MeetingTakesARankThatStartsAgain) {
  auto server = StoreServer::Start("127.0.0.1", 0, "secret");
  ASSERT_OK(server);
  const int port = server.value()->port();
  RunRanks(3, [&](int rank) {
    auto store = TcpStore::Connect("127.0.0.1", port, "secret", kLong);
    ASSERT_OK(store);
    if (rank == 1) {
      // Its first process gives up, or dies, before all are there.
      MeshOptions options = OptionsOf({Transport::kShm, 3}, rank);
      options.timeout = Duration(1);
      EXPECT_FALSE(Mesh::Connect(options, *store.value()).ok());
      store = TcpStore::Connect("127.0.0.1", port, "secret", kLong);
    }
    if (rank == 2) std::this_thread::sleep_for(Duration(200));
    ConnectAndGreet(OptionsOf({Transport::kShm, 3}, rank), *store.value());
  });
}

TEST_EACH(MeetingNamesTheRanksThatAreMissing, MeshCases({4})) {
  HashStore store;
  RunRanks(2, [&](int thread) {
    const int rank = thread * 2;  // 0 and 2
    MeshOptions options = OptionsOf(param, rank);
    options.timeout = Duration(300);
    const auto mesh = Mesh::Connect(options, store);
    EXPECT_CODE(mesh, Code::kTimeout);
    EXPECT_CONTAINS(mesh.status().message(), "rank " + std::to_string(rank) + ": after 0.3 s");
    EXPECT_CONTAINS(mesh.status().message(), "have not connected: rank 1, rank 3;");
  });
}

TEST(MeetingNamesTheAddressThatDoesNotAnswer) {
  HashStore store;
  auto listener = ListenTcp("127.0.0.1", 0);
  ASSERT_OK(listener);
  PeerAddress address;
  address.host_id = "elsewhere";
  address.address = "127.0.0.1";
  address.port = static_cast<uint16_t>(LocalPort(listener.value().get()).value());
  listener.value().Reset();
  RunRanks(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_OK(store.Gather("gen0/addresses", 0, 2, address.Encode(), kLong));
      return;
    }
    MeshOptions options = OptionsOf({Transport::kTcp, 2}, 1);
    options.timeout = Duration(300);
    const auto mesh = Mesh::Connect(options, store);
    EXPECT_CODE(mesh, Code::kTimeout);
    EXPECT_CONTAINS(mesh.status().message(),
                    "rank 1: after 0.3 s there is no connection to rank 0");
    EXPECT_CONTAINS(mesh.status().message(), "127.0.0.1:" + std::to_string(address.port));
  });
}

// Rank 2 dies when rank 0 has let it in; nobody need wait for the timeout.
TEST(MeetingEndsWhenARankGoesBeforeAllAreConnected) {
  HashStore store;
  const MeshCase param{Transport::kTcp, 4};
  RunRanks(4, [&](int rank) {
    MeshOptions options = OptionsOf(param, rank);
    if (rank == 0) {
      const auto mesh = Mesh::Connect(options, store);
      EXPECT_CODE(mesh, Code::kPeerLost);
      EXPECT_CONTAINS(mesh.status().message(), "rank 2 has gone before all ranks were connected");
    } else if (rank == 1) {
      options.timeout = Duration(500);
      EXPECT_FALSE(Mesh::Connect(options, store).ok());
    } else {
      auto listeners = Listeners::Open(options, store);
      ASSERT_OK(listeners);
      const std::string own = listeners.value().address.Encode();
      auto values = store.Gather("gen0/addresses", rank, 4, own, kLong);
      ASSERT_OK(values);
      if (rank == 3) return;
      const Fd fd = Dial(PeerAddress::Decode(values.value()[0]).value(), false);
      EXPECT_OK(Introduce(fd, "the secret", Caller(2, 4)));
      SendText(fd, "C");
    }
  });
}

TEST(MeetingRefusesANumberThatIsNoRank) {
  HashStore store;
  for (const auto& [rank, size] : {std::pair(2, 2), std::pair(-1, 2), std::pair(0, 0)}) {
    MeshOptions options;
    options.rank = rank;
    options.size = size;
    EXPECT_CODE(Mesh::Connect(options, store), Code::kInvalidArgument);
  }
}

TEST(MeetingFailsWhenTheStoreIsGone) {
  auto server = StoreServer::Start("127.0.0.1", 0, "secret");
  ASSERT_OK(server);
  auto store = TcpStore::Connect("127.0.0.1", server.value()->port(), "secret", kLong);
  ASSERT_OK(store);
  std::thread rank([&] {
    const auto mesh = Mesh::Connect(OptionsOf({Transport::kTcp, 2}, 1), *store.value());
    EXPECT_CODE(mesh, Code::kIo);
    EXPECT_CONTAINS(mesh.status().message(), "store at 127.0.0.1");
  });
  server.value().reset();
  rank.join();
}

TEST(PeerAddressRefusesWhatItCannotRead) {
  PeerAddress address;
  address.host_id = "host";
  address.address = "::1";
  address.port = 40000;
  address.unix_name = "name";
  const std::string bytes = address.Encode();
  const auto decoded = PeerAddress::Decode(bytes);
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded.value().host_id, "host");
  EXPECT_EQ(decoded.value().address, "::1");
  EXPECT_EQ(decoded.value().port, 40000);
  EXPECT_EQ(decoded.value().unix_name, "name");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(PeerAddress::Decode(bytes.substr(0, size)).ok()) << size << " bytes";
  }
  EXPECT_FALSE(PeerAddress::Decode(bytes + "x").ok());
}

}  // namespace
}  // namespace test
}  // namespace tfring
