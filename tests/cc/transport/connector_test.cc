// Connections that are made when they are needed, by either side or by both at once.
#include "transport/connector.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/socket.h"
#include "rendezvous/hash_store.h"
#include "test.h"
#include "transport/overlay.h"
#include "transport/ranks.h"

namespace tfring {
namespace test {
namespace {

constexpr Duration kLong{60000};
constexpr int kSize = 12;  // 3 is no neighbour of 0, nor 5 or 7 of it

void Say(Mesh& mesh, int peer, uint32_t number) {
  mesh.link(peer).SendControl(ControlHeader(5, number), "hello");
}

// Drives all meshes in turn, on this thread.
void PollAll(const Meshes& meshes, std::vector<Recorder>& recorders) {
  for (size_t rank = 0; rank < meshes.size(); ++rank) {
    if (meshes[rank] == nullptr) continue;
    meshes[rank]->Poll(recorders[rank]);
    meshes[rank]->Wait(Duration(0));
  }
}

template <class Condition>
bool PollAllUntil(const Meshes& meshes, std::vector<Recorder>& recorders, Condition condition) {
  for (const Deadline deadline(kLong); !condition();) {
    if (deadline.passed()) return false;
    PollAll(meshes, recorders);
  }
  return true;
}

TEST_EACH(ConnectorConnectsNeighboursOnly, MeshCases({kSize})) {
  const Meshes meshes = ConnectAll(param);
  for (int rank = 0; rank < kSize; ++rank) {
    for (int peer = 0; peer < kSize; ++peer) {
      if (peer == rank) continue;
      EXPECT_EQ(meshes[static_cast<size_t>(rank)]->in_touch(peer),
                AreNeighbours(rank, peer, kSize));
      const bool same_host = OptionsOf(param, rank).host_id == OptionsOf(param, peer).host_id;
      const auto& hosts = meshes[0]->hosts();
      EXPECT_EQ(hosts[static_cast<size_t>(rank)] == hosts[static_cast<size_t>(peer)], same_host);
    }
  }
}

TEST_EACH(ConnectorCallsOnFirstUse, MeshCases({kSize})) {
  const Meshes meshes = ConnectAll(param);
  std::vector<Recorder> recorders(kSize);
  for (const int caller : {0, 3}) {
    const int peer = caller == 0 ? 3 : 8;
    for (Recorder& recorder : recorders) recorder.frames.clear();
    Link& early = meshes[static_cast<size_t>(caller)]->link(peer);
    EXPECT_FALSE(meshes[static_cast<size_t>(caller)]->in_touch(peer));
    EXPECT_FALSE(early.CanSend(1));
    EXPECT_FALSE(early.closed());
    Say(*meshes[static_cast<size_t>(caller)], peer, 1);
    Say(*meshes[static_cast<size_t>(caller)], peer, 2);
    auto& frames = recorders[static_cast<size_t>(peer)].frames;
    ASSERT_TRUE(PollAllUntil(meshes, recorders, [&] { return frames.size() == 2; }));
    EXPECT_EQ(frames[0].peer, caller);
    EXPECT_EQ(frames[0].header.occurrence, 1u);
    EXPECT_EQ(frames[1].header.occurrence, 2u);
    // The object from before the connection leads to it, and the way back is there as well.
    EXPECT_TRUE(early.CanSend(1));
    uint64_t completed = 0;
    const uint8_t byte = 7;
    const ConstBytes piece{&byte, 1};
    early.Send(DataHeader(1), &piece, 1, &completed);
    EXPECT_TRUE(meshes[static_cast<size_t>(peer)]->link(caller).CanSend(1));
    Say(*meshes[static_cast<size_t>(peer)], caller, 3);
    auto& replies = recorders[static_cast<size_t>(caller)].frames;
    ASSERT_TRUE(PollAllUntil(meshes, recorders, [&] {
      return frames.size() == 3 && replies.size() == 1 && completed == 1;
    }));
    const bool same_host = OptionsOf(param, caller).host_id == OptionsOf(param, peer).host_id;
    EXPECT_EQ(early.same_host(), same_host);
    EXPECT_EQ(meshes[static_cast<size_t>(caller)]->link(peer).transport_name(),
              std::string(same_host ? "shm" : "tcp"));
  }
}

// Everybody calls everybody at the same moment, again and again: one connection for each
// pair, and nothing is lost.
TEST_EACH(ConnectorSettlesCrossingCalls, MeshCases({kSize})) {
  for (int round = 0; round < 5; ++round) {
    Meshes meshes = ConnectAll(param);
    RunRanks(kSize, [&](int rank) {
      Mesh& mesh = *meshes[static_cast<size_t>(rank)];
      Recorder recorder;
      for (uint32_t i = 0; i < 3; ++i) {
        for (int peer = 0; peer < kSize; ++peer) {
          if (peer != rank) Say(mesh, peer, i);
        }
      }
      PollUntil(mesh, recorder, [&] { return recorder.frames.size() >= 3 * (kSize - 1); });
      std::vector<uint32_t> next(kSize, 0);
      for (const Received& frame : recorder.frames) {
        EXPECT_EQ(frame.header.occurrence, next[static_cast<size_t>(frame.peer)]++);
      }
      // Who is quicker has closed its end by now.
      for (const auto& [peer, why] : recorder.closed) {
        EXPECT_EQ(why.message().find("no connection could be made"), std::string::npos) << peer;
      }
      mesh.Close(kLong);
    });
  }
}

TEST_EACH(ConnectorConnectsManyRanks, MeshCases({33})) {
  Meshes meshes = ConnectAll(param);
  RunRanks(param.size, [&](int rank) {
    Mesh& mesh = *meshes[static_cast<size_t>(rank)];
    Recorder recorder;
    for (int peer = 0; peer < param.size; ++peer) {
      if (peer != rank) Say(mesh, peer, 0);
    }
    const auto peers = static_cast<size_t>(param.size - 1);
    PollUntil(mesh, recorder, [&] { return recorder.frames.size() == peers; });
    mesh.Close(kLong);
  });
}

TEST_EACH(ConnectorReportsARankThatCannotBeReached, MeshCases({kSize})) {
  Meshes meshes = ConnectAll(param, [](MeshOptions& options) { options.timeout = Duration(1500); });
  std::vector<Recorder> recorders(kSize);
  meshes[3].reset();
  Link& link = meshes[0]->link(3);
  Say(*meshes[0], 3, 0);
  const auto& closed = recorders[0].closed;
  ASSERT_TRUE(PollAllUntil(meshes, recorders, [&] { return !closed.empty(); }));
  EXPECT_EQ(closed[0].first, 3);
  EXPECT_CODE(closed[0].second, Code::kPeerLost);
  EXPECT_CONTAINS(closed[0].second.message(), "no connection could be made");
  EXPECT_CONTAINS(closed[0].second.message(), "refused");
  EXPECT_TRUE(link.closed());
  EXPECT_FALSE(meshes[0]->in_touch(3));
  // What is sent to it now goes nowhere, and is counted.
  uint64_t completed = 0;
  const uint8_t byte = 0;
  const ConstBytes piece{&byte, 1};
  ASSERT_TRUE(link.CanSend(1));
  link.Send(DataHeader(1), &piece, 1, &completed);
  EXPECT_EQ(completed, 1u);
}

TEST_EACH(ConnectorCallsNobodyWhoHasBeenDismissed, MeshCases({kSize})) {
  Meshes meshes = ConnectAll(param);
  std::vector<Recorder> recorders(kSize);
  Say(*meshes[0], 3, 0);
  meshes[0]->Dismiss(3);
  EXPECT_FALSE(meshes[0]->in_touch(3));
  EXPECT_TRUE(meshes[0]->link(3).closed());
  Say(*meshes[0], 3, 1);
  for (int i = 0; i < 100; ++i) PollAll(meshes, recorders);
  EXPECT_TRUE(recorders[3].frames.empty());
  EXPECT_TRUE(recorders[0].closed.empty());
}

// A rank that leaves while another one, which it has let in, is about to connect: what it
// has queued for that one still arrives.
TEST_EACH(ConnectorSendsWhatIsQueuedForWhoeverIsOnTheWay, MeshCases({kSize})) {
  for (int round = 0; round < 20; ++round) {
    Meshes meshes = ConnectAll(param);
    std::vector<Recorder> recorders(kSize);
    Say(*meshes[0], 3, 1);
    bool promised = false;
    ASSERT_TRUE(PollAllUntil(meshes, recorders, [&] {
      promised = meshes[3]->in_touch(0);
      return promised;
    }));
    Say(*meshes[3], 0, 2);
    for (size_t rank = 1; rank < kSize; ++rank) {
      if (rank != 3) meshes[rank].reset();
    }
    std::atomic<bool> leaving{true};
    std::thread leaver([&] {
      meshes[3]->Close(kLong);
      leaving = false;
    });
    PollUntil(*meshes[0], recorders[0], [&] {
      const auto& closed = recorders[0].closed;
      return std::any_of(closed.begin(), closed.end(),
                         [](const auto& entry) { return entry.first == 3; });
    });
    leaver.join();
    EXPECT_FALSE(leaving.load());
    ASSERT_EQ(recorders[0].frames.size(), 1u);
    EXPECT_EQ(recorders[0].frames[0].header.occurrence, 2u);
  }
}

// Keeps the addresses of all.
class CuriousStore : public HashStore {
 public:
  Result<std::vector<std::string>> Gather(const std::string& key, int rank, int size,
                                          const std::string& value, Duration timeout) override {
    auto values = HashStore::Gather(key, rank, size, value, timeout);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (values.ok() && !value.empty()) addresses_ = values.value();
    return values;
  }
  PeerAddress AddressOf(int rank) const {
    return PeerAddress::Decode(addresses_[static_cast<size_t>(rank)]).value();
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> addresses_;
};

// Strangers at the doors while the ranks work: they get a closed connection, and no more.
TEST_EACH(ConnectorIsNotDisturbedByStrangers, MeshCases({kSize})) {
  CuriousStore store;
  Meshes meshes(kSize);
  RunRanks(kSize, [&](int rank) {
    auto mesh = Mesh::Connect(OptionsOf(param, rank), store);
    ASSERT_OK(mesh);
    meshes[static_cast<size_t>(rank)] = std::move(mesh.value());
  });
  std::vector<Recorder> recorders(kSize);
  std::vector<Fd> strangers;
  for (const bool local : {false, true}) {
    const PeerAddress address = store.AddressOf(3);
    for (int i = 0; i < 300; ++i) {
      auto fd = local ? StartConnectUnix(address.unix_name)
                      : ConnectTcp(address.address, address.port, Deadline(kLong));
      if (!fd.ok()) continue;  // the queue is full
      const std::string text = i % 2 == 0 ? "" : "GET / HTTP/1.0\r\n\r\n" + std::string(200, 'x');
      const ssize_t sent = send(fd.value().get(), text.data(), text.size(), MSG_NOSIGNAL);
      static_cast<void>(sent);
      strangers.push_back(std::move(fd.value()));
      if (i % 50 == 0) PollAll(meshes, recorders);
    }
  }
  Say(*meshes[0], 3, 1);
  Say(*meshes[3], 8, 2);
  ASSERT_TRUE(PollAllUntil(meshes, recorders, [&] {
    return recorders[3].frames.size() == 1 && recorders[8].frames.size() == 1;
  }));
  // Those who spoke have been hung up on.
  char byte = 0;
  EXPECT_OK(WaitForEvent(strangers[1].get(), POLLIN, Deadline(kLong)));
  EXPECT_LE(recv(strangers[1].get(), &byte, 1, 0), 0);
  for (const Recorder& recorder : recorders) EXPECT_TRUE(recorder.closed.empty());
}

}  // namespace
}  // namespace test
}  // namespace tfring
