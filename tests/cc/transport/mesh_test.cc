// Waiting, waking, leaving and dying.
#include "transport/mesh.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "rendezvous/store_server.h"
#include "rendezvous/tcp_store.h"
#include "test.h"
#include "transport/ranks.h"

namespace tfring {
namespace test {
namespace {

constexpr Duration kLong{60000};

void Say(Mesh& mesh, int peer, uint32_t number) {
  mesh.link(peer).SendControl(ControlHeader(5, number), "hello");
}

TEST(MeshOfOneRankNeedsNobody) {
  const Meshes meshes = ConnectAll({Transport::kShm, 1});
  ASSERT_TRUE(meshes[0] != nullptr);
  Recorder recorder;
  EXPECT_FALSE(meshes[0]->Poll(recorder));
  meshes[0]->Wait(Duration(1));
  meshes[0]->Close(kLong);
}

// Each rank answers only when spoken to, so every step needs a wake-up that is not lost.
TEST_EACH(MeshWakesForEveryFrame, MeshCases({2, 3})) {
  constexpr uint32_t kRounds = 2000;
  Meshes meshes = ConnectAll(param);
  RunRanks(param.size, [&](int rank) {
    Mesh& mesh = *meshes[static_cast<size_t>(rank)];
    const int next = (rank + 1) % param.size;
    Recorder recorder;
    if (rank == 0) Say(mesh, next, 0);
    for (uint32_t round = 0; round < kRounds; ++round) {
      PollUntil(mesh, recorder, [&] { return recorder.frames.size() > round; });
      EXPECT_EQ(recorder.frames[round].header.occurrence, round);
      if (rank != 0) {
        Say(mesh, next, round);
      } else if (round + 1 < kRounds) {
        Say(mesh, next, round + 1);
      }
    }
    mesh.Close(kLong);
  });
}

// A sender that was refused sleeps until the receiver has made room.
TEST_EACH(MeshWakesForRoom, MeshCases({2})) {
  constexpr uint64_t kFrames = 400;
  Meshes meshes = ConnectAll(param, [](MeshOptions& options) { options.ring_bytes = 1; });
  RunRanks(2, [&](int rank) {
    Mesh& mesh = *meshes[static_cast<size_t>(rank)];
    Recorder recorder;
    if (rank == 1) {
      uint64_t bytes = 0;
      PollUntil(mesh, recorder, [&] {
        for (const Received& frame : recorder.frames) bytes += frame.payload.size();
        recorder.frames.clear();
        return bytes == kFrames * kMaxFrameBytes;
      });
      mesh.Close(kLong);
      return;
    }
    const std::string payload(kMaxFrameBytes, 'x');
    const ConstBytes piece{reinterpret_cast<const uint8_t*>(payload.data()), payload.size()};
    uint64_t sent = 0;
    uint64_t completed = 0;
    PollUntil(mesh, recorder, [&] {
      while (sent < kFrames && mesh.link(1).CanSend(payload.size())) {
        mesh.link(1).Send(DataHeader(payload.size()), &piece, 1, &completed);
        ++sent;
      }
      return completed == kFrames;
    });
    mesh.Close(kLong);
  });
}

TEST_EACH(MeshQueuesControlFramesWithoutBound, MeshCases({2})) {
  constexpr uint32_t kFrames = 3000;
  Meshes meshes = ConnectAll(param, [](MeshOptions& options) { options.ring_bytes = 1; });
  const std::string payload(5000, 'x');
  for (uint32_t i = 0; i < kFrames; ++i) {
    meshes[0]->link(1).SendControl(ControlHeader(payload.size(), i), payload);
  }
  EXPECT_FALSE(meshes[0]->link(1).CanSend(1)) << "data must not overtake them";
  RunRanks(2, [&](int rank) {
    Mesh& mesh = *meshes[static_cast<size_t>(rank)];
    Recorder recorder;
    if (rank == 1) {
      PollUntil(mesh, recorder, [&] { return recorder.frames.size() == kFrames; });
      for (uint32_t i = 0; i < kFrames; ++i) {
        EXPECT_EQ(recorder.frames[i].header.occurrence, i);
      }
    }
    mesh.Close(kLong);  // flushes
  });
}

TEST_EACH(MeshWakesForWake, MeshCases({2})) {
  Meshes meshes = ConnectAll(param);
  Mesh& mesh = *meshes[0];
  Recorder recorder;
  while (mesh.Poll(recorder)) {
  }
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> woken{false};
    std::thread waker([&] {
      woken.store(true);
      mesh.Wake();
    });
    while (!woken.load()) mesh.Wait(kLong);
    waker.join();
  }
  // A Wake beforehand ends the next Wait.
  mesh.Wake();
  mesh.Wait(kLong);
}

TEST_EACH(MeshWaitEndsWhenTheTimeIsUp, MeshCases({2})) {
  Meshes meshes = ConnectAll(param);
  Recorder recorder;
  while (meshes[0]->Poll(recorder)) {
  }
  meshes[0]->Wait(Duration(5));
  EXPECT_TRUE(recorder.frames.empty());
}

// Neither an idle rank nor one that is refused turns around all the time.
TEST_EACH(MeshSleepsWhenNothingCanMove, MeshCases({2, 3})) {
  Meshes meshes = ConnectAll(param);
  const std::string payload(kMaxFrameBytes, 'x');
  const ConstBytes piece{reinterpret_cast<const uint8_t*>(payload.data()), payload.size()};
  uint64_t completed = 0;
  Recorder recorder;
  for (const bool refused : {false, true}) {
    int turns = 0;
    for (const Deadline deadline(Duration(100)); !deadline.passed(); ++turns) {
      while (refused && meshes[0]->link(1).CanSend(payload.size())) {
        meshes[0]->link(1).Send(DataHeader(payload.size()), &piece, 1, &completed);
      }
      if (!meshes[0]->Poll(recorder)) meshes[0]->Wait(deadline.remaining());
    }
    EXPECT_LT(turns, 100);
  }
}

// Close sends what was taken, however late the peer looks.
TEST_EACH(MeshCloseSendsWhatWasTaken, MeshCases({2, 4})) {
  Meshes meshes = ConnectAll(param);
  std::atomic<int> closed{0};
  RunRanks(param.size, [&](int rank) {
    Mesh& mesh = *meshes[static_cast<size_t>(rank)];
    if (rank > 0) {
      for (uint32_t i = 0; i < 100; ++i) Say(mesh, 0, i);
      mesh.Close(kLong);
      EXPECT_TRUE(mesh.link(0).closed());
      ++closed;
      return;
    }
    Recorder recorder;
    const auto peers = static_cast<size_t>(param.size - 1);
    PollUntil(mesh, recorder, [&] { return recorder.closed.size() == peers; });
    EXPECT_EQ(recorder.frames.size(), peers * 100);
    mesh.Close(kLong);
  });
}

TEST_EACH(MeshCloseDoesNotWaitLongerThanItMay, MeshCases({2})) {
  Meshes meshes = ConnectAll(param);
  const std::string payload(5000, 'x');
  for (uint32_t i = 0; i < 3000; ++i) {
    meshes[0]->link(1).SendControl(ControlHeader(payload.size(), i), payload);
  }
  meshes[0]->Close(Duration(20));  // rank 1 takes nothing
  EXPECT_TRUE(meshes[0]->link(1).closed());
}

TEST_EACH(MeshTellsAllOthersOfARankThatVanishes, MeshCases({2, 4})) {
  Meshes meshes = ConnectAll(param);
  const int victim = param.size / 2;
  RunRanks(param.size, [&](int rank) {
    if (rank == victim) {
      meshes[static_cast<size_t>(rank)].reset();
      return;
    }
    Mesh& mesh = *meshes[static_cast<size_t>(rank)];
    Recorder recorder;
    PollUntil(mesh, recorder, [&] { return !recorder.closed.empty(); });
    EXPECT_EQ(recorder.closed[0].first, victim);
    EXPECT_CODE(recorder.closed[0].second, Code::kPeerLost);
    EXPECT_TRUE(mesh.link(victim).closed());
    // What is sent to it now goes nowhere, and is counted.
    uint64_t completed = 0;
    const uint8_t byte = 0;
    const ConstBytes piece{&byte, 1};
    ASSERT_TRUE(mesh.link(victim).CanSend(1));
    mesh.link(victim).Send(DataHeader(1), &piece, 1, &completed);
    EXPECT_EQ(completed, 1u);
  });
}

// A forked child (of a data loader, say) has copies of all sockets.
TEST_EACH(MeshEndsItsLinksEvenWhenAChildHoldsThem, MeshCases({2})) {
  Meshes meshes = ConnectAll(param);
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  meshes[1].reset();
  Recorder recorder;
  PollUntil(*meshes[0], recorder, [&] { return !recorder.closed.empty(); });
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

// A rank that is a process of its own: it connects, and then sends until it is killed.
[[noreturn]] void BeVictim(const MeshOptions& options, int port) {
  auto store = TcpStore::Connect("127.0.0.1", port, "secret", kLong);
  if (!store.ok()) _exit(1);
  auto mesh = Mesh::Connect(options, *store.value());
  if (!mesh.ok()) _exit(1);
  Recorder recorder;
  const std::string payload(100000, 'x');
  const ConstBytes piece{reinterpret_cast<const uint8_t*>(payload.data()), payload.size()};
  uint64_t completed = 0;
  while (true) {
    for (int peer = 1; peer < options.size; ++peer) {
      if (!mesh.value()->link(peer).CanSend(payload.size())) continue;
      mesh.value()->link(peer).Send(DataHeader(payload.size()), &piece, 1, &completed);
    }
    if (!mesh.value()->Poll(recorder)) mesh.value()->Wait(Duration(100));
  }
}

TEST_EACH(MeshNoticesAKilledProcess, MeshCases({2, 3})) {
  // Rank 0 is the one that needs no thread to connect: the child of a process with threads
  // has none of them, and ThreadSanitizer lets it start none. It learns the port by a pipe.
  const int victim = 0;
  int ports[2];
  ASSERT_EQ(pipe(ports), 0);
  const pid_t child = fork();
  if (child == 0) {
    int port = 0;
    if (read(ports[0], &port, sizeof(port)) != sizeof(port)) _exit(1);
    BeVictim(OptionsOf(param, victim), port);
  }
  auto server = StoreServer::Start("127.0.0.1", 0, "secret");
  ASSERT_OK(server);
  const int port = server.value()->port();
  ASSERT_EQ(write(ports[1], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  std::atomic<int> receiving{0};
  Meshes meshes(static_cast<size_t>(param.size));
  RunRanks(param.size - 1, [&](int thread) {
    const int rank = thread + 1;
    auto store = TcpStore::Connect("127.0.0.1", port, "secret", kLong);
    ASSERT_OK(store);
    auto mesh = Mesh::Connect(OptionsOf(param, rank), *store.value());
    ASSERT_OK(mesh);
    meshes[static_cast<size_t>(rank)] = std::move(mesh.value());
    Mesh& own = *meshes[static_cast<size_t>(rank)];
    Recorder recorder;
    PollUntil(own, recorder, [&] { return !recorder.frames.empty(); });
    if (++receiving == param.size - 1) kill(child, SIGKILL);
    PollUntil(own, recorder, [&] {
      recorder.frames.clear();
      return !recorder.closed.empty();
    });
    EXPECT_EQ(recorder.closed[0].first, victim);
    EXPECT_CODE(recorder.closed[0].second, Code::kPeerLost);
  });
  kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: status " << status;
  close(ports[0]);
  close(ports[1]);
}

}  // namespace
}  // namespace test
}  // namespace tfring
