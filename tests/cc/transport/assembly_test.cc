// Connecting a mesh among strangers, impostors and missing ranks.
#include "transport/assembly.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
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

PeerAddress AddressOf(Store& store, int rank) {
  auto bytes = store.Get("gen0/mesh/" + std::to_string(rank), kLong);
  EXPECT_OK(bytes);
  auto address = PeerAddress::Decode(bytes.value());
  EXPECT_OK(address);
  return address.value();
}

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

TEST_EACH(AssemblyMeetsInATcpStore, MeshCases()) {
  auto server = StoreServer::Start("127.0.0.1", 0, "secret");
  ASSERT_OK(server);
  RunRanks(param.size, [&](int rank) {
    auto store = TcpStore::Connect("127.0.0.1", server.value()->port(), "secret", kLong);
    ASSERT_OK(store);
    ConnectAndGreet(OptionsOf(param, rank), *store.value());
  });
}

TEST_EACH(AssemblySpeaksIpv6, MeshCases({3})) {
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
TEST_EACH(AssemblyCanBeRepeated, MeshCases({3})) {
  HashStore store;
  RunRanks(param.size, [&](int rank) {
    for (int64_t round = 0; round < 30; ++round) {
      MeshOptions options = OptionsOf(param, rank);
      options.generation = round / 2;
      ConnectAndGreet(options, store);
    }
  });
}

TEST_EACH(AssemblyLeavesNothingInTheStore, MeshCases({3})) {
  HashStore store;
  RunRanks(param.size, [&](int rank) { ConnectAndGreet(OptionsOf(param, rank), store); });
  for (int rank = 0; rank < param.size; ++rank) {
    EXPECT_CODE(store.Get("gen0/mesh/" + std::to_string(rank), Duration(0)), Code::kTimeout);
  }
}

TEST_EACH(AssemblyIsNotHeldUpByStrangers, MeshCases({3})) {
  HashStore store;
  RunRanks(param.size, [&](int rank) {
    if (rank == param.size - 1) {
      // Before the last rank comes, strangers are at every door of the others.
      std::vector<Fd> silent;
      for (int peer = 0; peer < rank; ++peer) {
        const PeerAddress address = AddressOf(store, peer);
        for (const bool local : {false, true}) {
          for (int i = 0; i < 100; ++i) silent.push_back(Dial(address, local));
          SendText(Dial(address, local), "GET / HTTP/1.0\r\n\r\n");
          SendText(Dial(address, local), std::string(100000, 'T'));
          SendText(Dial(address, local), "TFRG" + std::string(200, '\1'));
        }
      }
      ConnectAndGreet(OptionsOf(param, rank), store);
      return;
    }
    ConnectAndGreet(OptionsOf(param, rank), store);
  });
}

TEST_EACH(AssemblyRefusesImpostors, MeshCases({2})) {
  HashStore store;
  RunRanks(param.size, [&](int rank) {
    if (rank == 1) {
      const PeerAddress address = AddressOf(store, 0);
      Identity generation = Caller(1, 2);
      generation.generation = 1;
      Identity target = Caller(1, 2);
      target.target = 1;
      for (const bool local : {false, true}) {
        EXPECT_CODE(Introduce(Dial(address, local), "guess", Caller(1, 2)), Code::kUnauthenticated);
        for (const Identity& wrong :
             {generation, target, Caller(1, 3), Caller(2, 2), Caller(0, 2), Caller(-1, 2)}) {
          EXPECT_CODE(Introduce(Dial(address, local), "the secret", wrong), Code::kInvalidArgument);
        }
      }
    }
    ConnectAndGreet(OptionsOf(param, rank), store);
  });
}

TEST_EACH(AssemblyFailsAtOnceWithAWrongSecret, MeshCases({2})) {
  HashStore store;
  RunRanks(param.size, [&](int rank) {
    MeshOptions options = OptionsOf(param, rank);
    if (rank == 1) {
      options.secret = "another";
      const auto mesh = Mesh::Connect(options, store);
      EXPECT_CODE(mesh, Code::kUnauthenticated);
      EXPECT_CONTAINS(mesh.status().message(), "rank 1: connecting to rank 0");
      options.secret = "the secret";  // so that rank 0 need not wait for its timeout
    }
    ConnectAndGreet(options, store);
  });
}

TEST_EACH(AssemblyRefusesASecondProcessWithARank, MeshCases({3})) {
  HashStore store;
  std::atomic<bool> refused{false};
  RunRanks(param.size, [&](int thread) {
    if (thread == 2) {
      // Rank 1 has been let in by rank 0 once its own address is there.
      AddressOf(store, 1);
      const auto mesh = Mesh::Connect(OptionsOf(param, 1), store);
      EXPECT_CODE(mesh, Code::kInvalidArgument);
      EXPECT_CONTAINS(mesh.status().message(), "another process is rank 1 already");
      refused.store(true);
    }
    ConnectAndGreet(OptionsOf(param, thread), store);
  });
  EXPECT_TRUE(refused.load());
}

TEST_EACH(AssemblyTakesARankThatStartsAgain, MeshCases({3})) {
  HashStore store;
  RunRanks(param.size, [&](int rank) {
    if (rank == 1) {
      // Its first process has been let in by rank 0, and dies.
      const PeerAddress address = AddressOf(store, 0);
      const bool local = param.transport != Transport::kTcp;
      const Fd fd = Dial(address, local);
      EXPECT_OK(Introduce(fd, "the secret", Caller(1, 3)));
    }
    ConnectAndGreet(OptionsOf(param, rank), store);
  });
}

TEST_EACH(AssemblyNamesTheRanksThatAreMissing, MeshCases({4})) {
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

TEST(AssemblyNamesTheAddressThatDoesNotAnswer) {
  HashStore store;
  auto listener = ListenTcp("127.0.0.1", 0);
  ASSERT_OK(listener);
  PeerAddress address;
  address.host_id = "elsewhere";
  address.address = "127.0.0.1";
  address.port = static_cast<uint16_t>(LocalPort(listener.value().get()).value());
  listener.value().Reset();
  EXPECT_OK(store.Set("gen0/mesh/0", address.Encode()));
  MeshOptions options = OptionsOf({Transport::kTcp, 2}, 1);
  options.timeout = Duration(300);
  const auto mesh = Mesh::Connect(options, store);
  EXPECT_CODE(mesh, Code::kTimeout);
  EXPECT_CONTAINS(mesh.status().message(), "rank 0 (");
}

TEST(AssemblyRefusesANumberThatIsNoRank) {
  HashStore store;
  for (const auto& [rank, size] : {std::pair(2, 2), std::pair(-1, 2), std::pair(0, 0)}) {
    MeshOptions options;
    options.rank = rank;
    options.size = size;
    EXPECT_CODE(Mesh::Connect(options, store), Code::kInvalidArgument);
  }
}

TEST(AssemblyFailsWhenTheStoreIsGone) {
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
