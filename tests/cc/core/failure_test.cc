// What can go wrong reaches every rank, with the names of those concerned.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/cluster.h"
#include "test.h"

namespace tfring::test {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MismatchedShapesFailEverywhere) {
  for (bool shared_memory : {true, false}) {
    Cluster cluster(shared_memory ? OnOneHost(4) : OnHosts(4));
    cluster.Run([](Engine& engine, int rank) {
      std::vector<float> values(8, 1.0f);
      const int64_t count = rank == 2 ? 7 : 8;
      const Status status =
          RunRequest(engine, AllreduceRequest("grads", DType::kFloat32, ReduceOp::kSum,
                                              values.data(), values.data(), count));
      EXPECT_TRUE(status.code() == Code::kMismatch);
      EXPECT_TRUE(Contains(status.message(), "\"grads\""));
      EXPECT_TRUE(Contains(status.message(), "rank 0, 1, 3: allreduce float32 [8]"));
      EXPECT_TRUE(Contains(status.message(), "rank 2: allreduce float32 [7]"));
      // Nothing is lost but that operation and its output: the next of the same name works.
      values.assign(8, 1.0f);
      const Status next =
          RunRequest(engine, AllreduceRequest("grads", DType::kFloat32, ReduceOp::kSum,
                                              values.data(), values.data(), 8));
      EXPECT_EQ(next.message(), std::string());
      EXPECT_EQ(values[0], 4.0f);
    });
  }
}

TEST(MismatchAfterManyGoodSteps) {
  Cluster cluster(OnOneHost(3));
  cluster.Run([](Engine& engine, int rank) {
    std::vector<double> values(64);
    for (int step = 0; step < 10; ++step) {
      EXPECT_EQ(RunRequest(engine, AllreduceRequest("x", DType::kFloat64, ReduceOp::kSum,
                                                    values.data(), values.data(), 64))
                    .message(),
                std::string());
    }
    const ReduceOp op = rank == 1 ? ReduceOp::kMax : ReduceOp::kSum;
    const Status status = RunRequest(
        engine, AllreduceRequest("x", DType::kFloat64, op, values.data(), values.data(), 64));
    EXPECT_TRUE(status.code() == Code::kMismatch);
    EXPECT_TRUE(Contains(status.message(), "rank 1: allreduce float64 [64], max"));
  });
}

TEST(MismatchedRootsKindsAndTypes) {
  Cluster cluster(OnOneHost(2));
  cluster.Run([](Engine& engine, int rank) {
    std::vector<int32_t> values(4, rank);
    const Status roots = RunRequest(
        engine, BroadcastRequest("root", DType::kInt32, 1 - rank, values.data(), values.data(), 4));
    EXPECT_TRUE(roots.code() == Code::kMismatch);
    EXPECT_TRUE(Contains(roots.message(), "root 1"));
    Request request = rank == 0 ? BarrierRequest("kind")
                                : AllreduceRequest("kind", DType::kInt32, ReduceOp::kSum,
                                                   values.data(), values.data(), 4);
    const Status kinds = RunRequest(engine, request);
    EXPECT_TRUE(kinds.code() == Code::kMismatch);
    EXPECT_TRUE(Contains(kinds.message(), "rank 0: barrier"));
    const Status types =
        RunRequest(engine, AllreduceRequest("type", rank == 0 ? DType::kInt32 : DType::kFloat32,
                                            ReduceOp::kSum, values.data(), values.data(), 4));
    EXPECT_TRUE(types.code() == Code::kMismatch);
  });
}

TEST(DifferentOptionsForAlgorithmsAreAMismatch) {
  ClusterOptions cluster_options = OnOneHost(3);
  cluster_options.adjust = [](EngineOptions& options) {
    if (options.rank == 1) options.algorithms.family = AllreduceFamily::kDoubling;
  };
  Cluster cluster(cluster_options);
  cluster.Run([](Engine& engine, int) {
    float value = 1;
    const Status status = RunRequest(
        engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &value, &value, 1));
    EXPECT_TRUE(status.code() == Code::kMismatch);
    EXPECT_TRUE(Contains(status.message(), "rank 1: allreduce float32 [1], sum, by doubling"));
  });
}

TEST(MismatchWithALateRankFailsItWhenItSubmits) {
  Cluster cluster(OnOneHost(3));
  cluster.Run([](Engine& engine, int rank) {
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    float values[4] = {};
    const Status status = RunRequest(engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum,
                                                              values, values, rank == 0 ? 3 : 4));
    EXPECT_TRUE(status.code() == Code::kMismatch);
    if (rank != 2) {
      EXPECT_TRUE(Contains(status.message(), "rank 2: not submitted yet"));
    }
  });
}

TEST(ANamePendingTwiceIsRefusedOnAllRanks) {
  Cluster cluster(OnOneHost(2));
  cluster.Run([](Engine& engine, int rank) {
    float first = 1;
    float second = 1;
    if (rank == 0) {
      Pending pending(engine,
                      AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &first, &first, 1));
      const Status status = RunRequest(
          engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &second, &second, 1));
      EXPECT_TRUE(status.code() == Code::kInvalidArgument);
      EXPECT_TRUE(Contains(status.message(), "still pending"));
      EXPECT_EQ(RunRequest(engine, BarrierRequest("go")).message(), std::string());
      EXPECT_EQ(pending.Wait().message(), std::string());
    } else {
      EXPECT_EQ(RunRequest(engine, BarrierRequest("go")).message(), std::string());
      EXPECT_EQ(RunRequest(engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &first,
                                                    &first, 1))
                    .message(),
                std::string());
      const Status status = RunRequest(
          engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &second, &second, 1));
      EXPECT_TRUE(status.code() == Code::kInvalidArgument);
      EXPECT_TRUE(Contains(status.message(), "on rank 0"));
    }
    EXPECT_EQ(first, 2.0f);
  });
}

TEST(ARankThatLeavesEarlyIsNamed) {
  for (bool shared_memory : {true, false}) {
    Cluster cluster(shared_memory ? OnOneHost(3) : OnHosts(3));
    cluster.Run([](Engine& engine, int rank) {
      float value = 1;
      EXPECT_EQ(RunRequest(engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &value,
                                                    &value, 1))
                    .message(),
                std::string());
      if (rank == 1) {
        engine.ShutDown();
        return;
      }
      const Status status = RunRequest(
          engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &value, &value, 1));
      EXPECT_TRUE(status.code() == Code::kPeerLost);
      EXPECT_TRUE(Contains(status.message(), "rank 1 has shut down"));
    });
  }
}

TEST(ShutDownEndsOwnPendingOperations) {
  Cluster cluster(OnOneHost(2));
  float value = 1;
  Pending pending(cluster.engine(0),
                  AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &value, &value, 1));
  cluster.ShutDown(0);
  EXPECT_TRUE(pending.Wait().code() == Code::kShutDown);
  EXPECT_TRUE(RunRequest(cluster.engine(0), BarrierRequest("b")).code() == Code::kShutDown);
}

// What a root has sent before it leaves still arrives.
TEST(DataSentBeforeLeavingArrives) {
  for (bool shared_memory : {true, false}) {
    Cluster cluster(shared_memory ? OnOneHost(2) : OnHosts(2));
    cluster.Run([](Engine& engine, int rank) {
      int64_t value = rank == 0 ? 42 : 0;
      EXPECT_EQ(
          RunRequest(engine, BroadcastRequest("b", DType::kInt64, 0, &value, &value, 1)).message(),
          std::string());
      value = rank == 0 ? 43 : 0;
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      EXPECT_EQ(
          RunRequest(engine, BroadcastRequest("b", DType::kInt64, 0, &value, &value, 1)).message(),
          std::string());
      EXPECT_EQ(value, int64_t{43});
      if (rank == 0) engine.ShutDown();
    });
  }
}

// The others may not have used all that the first to leave had sent: a part may wait for the
// word of a third rank.
TEST(LeavingRightAfterABarrierHarmsNobody) {
  for (int round = 0; round < 150; ++round) {
    Cluster cluster(OnOneHost(3));
    cluster.Run([](Engine& engine, int) {
      const Status status = RunRequest(engine, BarrierRequest("end"));
      EXPECT_EQ(status.message(), std::string());
      engine.ShutDown();
    });
  }
}

TEST(StalledOperationFailsEverywhereAndNamesTheMissing) {
  ClusterOptions options = OnOneHost(3);
  options.adjust = [](EngineOptions& engine) {
    engine.stall_warning = Duration(200);
    engine.stall_shutdown = Duration(600);
  };
  Cluster cluster(options);
  cluster.Run([](Engine& engine, int rank) {
    float value = 1;
    if (rank == 1) {
      // It comes when the others have given up, and is told so.
      std::this_thread::sleep_for(std::chrono::seconds(4));
    }
    const Status status = RunRequest(
        engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &value, &value, 1));
    EXPECT_TRUE(status.code() == Code::kStalled);
    EXPECT_TRUE(Contains(status.message(), "not submitted by rank 1"));
    EXPECT_TRUE(engine.health().ok());
  });
}

}  // namespace
}  // namespace tfring::test
