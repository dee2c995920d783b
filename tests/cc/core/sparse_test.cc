// Jobs of more ranks than have connections from the start.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/cluster.h"
#include "test.h"
#include "transport/overlay.h"

namespace tfring::test {
namespace {

constexpr int kSize = 33;
constexpr int kVictim = 20;
constexpr int kStranger = 9;  // at distance 11, no neighbour of the victim

Status Allreduce(Engine& engine, const std::string& name, std::vector<float>& values) {
  return RunRequest(engine, AllreduceRequest(name, DType::kFloat32, ReduceOp::kSum, values.data(),
                                             values.data(), static_cast<int64_t>(values.size())));
}

TEST(ManyRanksReduceGatherBroadcastAndLeave) {
  for (const int ranks_per_host : {1, 4, kSize}) {
    ClusterOptions options = OnOneHost(kSize);
    options.ranks_per_host = ranks_per_host;
    Cluster cluster(options);
    cluster.Run([](Engine& engine, int rank) {
      for (const size_t count : {size_t{3}, size_t{5000}, size_t{100000}}) {
        const std::string name = "x" + std::to_string(count);
        for (int step = 0; step < 3; ++step) {
          std::vector<float> values(count, static_cast<float>(rank));
          EXPECT_OK(Allreduce(engine, name, values));
          EXPECT_EQ(values.front(), kSize * (kSize - 1) / 2.0f);
          EXPECT_EQ(values.back(), kSize * (kSize - 1) / 2.0f);
        }
      }
      EXPECT_OK(RunRequest(engine, BarrierRequest("b")));
      int64_t value = rank == 5 ? 42 : 0;
      EXPECT_OK(RunRequest(engine, BroadcastRequest("c", DType::kInt64, 5, &value, &value, 1)));
      EXPECT_EQ(value, int64_t{42});
      std::vector<uint8_t> gathered;
      std::vector<int64_t> first_dims;
      const int32_t own = rank;
      EXPECT_OK(RunRequest(
          engine, AllgatherRequest("g", DType::kInt32, &own, {1}, &gathered, &first_dims)));
      EXPECT_EQ(gathered.size(), kSize * sizeof(int32_t));
      engine.ShutDown();
    });
  }
}

TEST(ManyRanksNoticeAMismatchAnywhere) {
  Cluster cluster(OnOneHost(kSize));
  cluster.Run([](Engine& engine, int rank) {
    std::vector<float> values(rank == kVictim ? 3 : 4);
    const Status status = Allreduce(engine, "x", values);
    EXPECT_CODE(status, Code::kMismatch);
    EXPECT_CONTAINS(status.message(), "rank 20: allreduce float32 [3]");
    values.assign(4, 1.0f);
    EXPECT_OK(Allreduce(engine, "x", values));
    EXPECT_EQ(values[0], float{kSize});
  });
}

TEST(ManyRanksNameOneThatLeavesEarly) {
  ASSERT_FALSE(AreNeighbours(kVictim, kStranger, kSize));
  Cluster cluster(OnOneHost(kSize));
  std::atomic<int> failed{0};
  cluster.Run([&](Engine& engine, int rank) {
    EXPECT_OK(RunRequest(engine, BarrierRequest("b")));
    if (rank == kVictim) {
      engine.ShutDown();
      return;
    }
    const Status status = RunRequest(engine, BarrierRequest("b"));
    EXPECT_CODE(status, Code::kPeerLost);
    EXPECT_CONTAINS(status.message(), "rank 20 has shut down");
    EXPECT_TRUE(engine.health().ok());
    ++failed;
  });
  EXPECT_EQ(failed.load(), kSize - 1);
}

// Between two ranks that have no connection: the one that waits learns of the other's leaving
// by way of third ranks.
TEST(ARankIsMissedByOneThatHasNoConnectionToIt) {
  Cluster cluster(OnOneHost(kSize));
  cluster.Run([&](Engine& engine, int rank) {
    const bool member = rank == kVictim || rank == kStranger;
    if (!member) return;
    auto set = engine.AddProcessSet({kStranger, kVictim});
    ASSERT_OK(set);
    if (rank == kVictim) {
      engine.ShutDown();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    float value = 1;
    Request request = BroadcastRequest("x", DType::kFloat32, kVictim, &value, &value, 1);
    request.process_set = set.value();
    const Status status = RunRequest(engine, std::move(request));
    EXPECT_CODE(status, Code::kPeerLost);
    EXPECT_CONTAINS(status.message(), "rank 20 has shut down");
  });
}

// All leave at once, as at the end of a program.
TEST(ManyRanksMayLeaveRightAfterABarrier) {
  for (int round = 0; round < 10; ++round) {
    ClusterOptions options = OnOneHost(kSize);
    options.ranks_per_host = round % 2 == 0 ? kSize : 2;
    Cluster cluster(options);
    cluster.Run([](Engine& engine, int) {
      EXPECT_OK(RunRequest(engine, BarrierRequest("end")));
      engine.ShutDown();
    });
  }
}

// One rank is a bare mesh, which answers nothing and then goes.
struct Bereaved {
  HashStore store;
  std::vector<Counters> counters{kSize};
  std::vector<std::unique_ptr<Engine>> engines{kSize};
  std::unique_ptr<Mesh> mute;

  Bereaved(bool shared_memory, Duration heartbeat_timeout) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kSize; ++rank) {
      threads.emplace_back([this, rank, shared_memory, heartbeat_timeout] {
        const std::string host = shared_memory ? "host" : "host" + std::to_string(rank);
        if (rank == kVictim) {
          MeshOptions options;
          options.rank = rank;
          options.size = kSize;
          options.host_id = host;
          options.secret = "secret";
          mute = std::move(Mesh::Connect(options, store).value());
          return;
        }
        EngineOptions options;
        options.rank = rank;
        options.size = kSize;
        options.local_size = kSize;
        options.host_id = host;
        options.secret = "secret";
        options.log_level = LogLevel::kError;
        options.heartbeat_timeout = heartbeat_timeout;
        engines[rank] = std::move(Engine::Create(options, &store, counters[rank]).value());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // All ranks hear of the loss, those included that had nothing to do with that rank.
  void ExpectLost(const std::string& reason, const std::function<void()>& trigger) {
    std::vector<std::unique_ptr<Pending>> pending;
    for (int rank = 0; rank < kSize; ++rank) {
      if (rank == kVictim) continue;
      pending.push_back(std::make_unique<Pending>(*engines[rank], BarrierRequest("b")));
    }
    trigger();
    for (auto& operation : pending) {
      const Status status = operation->Wait();
      EXPECT_CODE(status, Code::kPeerLost);
      EXPECT_CONTAINS(status.message(), "lost rank 20");
      EXPECT_CONTAINS(status.message(), reason);
    }
    for (const auto& engine : engines) {
      if (engine != nullptr) EXPECT_CODE(engine->health(), Code::kPeerLost);
    }
  }
};

TEST(ManyRanksHearOfALossAtOnce) {
  for (const bool shared_memory : {true, false}) {
    Bereaved job(shared_memory, Duration(0));
    job.ExpectLost("", [&] { job.mute.reset(); });
  }
}

TEST(ManyRanksHearOfASilentRank) {
  Bereaved job(true, Duration(2000));
  job.ExpectLost("no sign of life for 2", [] {});
}

}  // namespace
}  // namespace tfring::test
