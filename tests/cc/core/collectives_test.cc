// Broadcast, allgather and barrier through whole engines.
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "test.h"

namespace tfring::test {
namespace {

TEST(BroadcastFromEveryRoot) {
  for (bool shared_memory : {true, false}) {
    for (int size : {1, 2, 3, 4, 7}) {
      ClusterOptions options;
      options.size = size;
      options.shared_memory = shared_memory;
      Cluster cluster(options);
      for (int root = 0; root < size; ++root) {
        for (size_t count : {size_t{0}, size_t{1}, size_t{999}, size_t{700001}}) {
          cluster.Run([&](Engine& engine, int rank) {
            const std::vector<int32_t> input(count, rank);
            std::vector<int32_t> output(count, -1);
            const std::string name = "b" + std::to_string(root) + "_" + std::to_string(count);
            const Status status =
                RunRequest(engine, BroadcastRequest(name, DType::kInt32, root, input.data(),
                                                    output.data(), static_cast<int64_t>(count)));
            EXPECT_EQ(status.message(), std::string());
            EXPECT_TRUE(output == std::vector<int32_t>(count, root));
          });
        }
      }
    }
  }
}

TEST(AllgatherOfUnequalFirstDimensions) {
  for (bool shared_memory : {true, false}) {
    for (int size : {1, 2, 3, 4, 7}) {
      ClusterOptions options;
      options.size = size;
      options.shared_memory = shared_memory;
      Cluster cluster(options);
      for (int64_t scale : {0, 1, 40, 30011}) {
        cluster.Run([&](Engine& engine, int rank) {
          // Rank 1 contributes nothing.
          const auto rows_of = [&](int r) { return r == 1 ? 0 : (r + 1) * scale; };
          const std::vector<int64_t> dims = {rows_of(rank), 3};
          const std::vector<float> input(rows_of(rank) * 3, static_cast<float>(rank));
          std::vector<uint8_t> output;
          std::vector<int64_t> first_dims;
          const Status status =
              RunRequest(engine, AllgatherRequest("g" + std::to_string(scale), DType::kFloat32,
                                                  input.data(), dims, &output, &first_dims));
          EXPECT_EQ(status.message(), std::string());
          std::vector<float> expected;
          for (int r = 0; r < size; ++r) {
            EXPECT_EQ(first_dims[r], rows_of(r));
            expected.insert(expected.end(), rows_of(r) * 3, static_cast<float>(r));
          }
          EXPECT_EQ(output.size(), expected.size() * sizeof(float));
          EXPECT_TRUE(expected.empty() ||
                      std::memcmp(output.data(), expected.data(), output.size()) == 0);
        });
      }
    }
  }
}

TEST(BarrierHoldsEveryoneBack) {
  for (int size : {1, 2, 3, 4, 7}) {
    Cluster cluster(OnOneHost(size));
    std::atomic<int> arrived{0};
    cluster.Run([&](Engine& engine, int) {
      for (int round = 1; round <= 20; ++round) {
        ++arrived;
        EXPECT_EQ(RunRequest(engine, BarrierRequest("b")).message(), std::string());
        EXPECT_TRUE(arrived.load() >= round * size);
      }
    });
  }
}

TEST(ProcessSetsWorkApart) {
  Cluster cluster(OnOneHost(4));
  cluster.Run([](Engine& engine, int rank) {
    const std::vector<int> members =
        rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3};
    auto id = engine.AddProcessSet(members);
    EXPECT_TRUE(id.ok());
    float value = static_cast<float>(rank);
    Request request = AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &value, &value, 1);
    request.process_set = id.value();
    EXPECT_EQ(RunRequest(engine, request).message(), std::string());
    EXPECT_EQ(value, rank % 2 == 0 ? 2.0f : 4.0f);
    Request foreign = AllreduceRequest("y", DType::kFloat32, ReduceOp::kSum, &value, &value, 1);
    foreign.process_set = 12345;
    EXPECT_TRUE(RunRequest(engine, foreign).code() == Code::kInvalidArgument);
  });
}

}  // namespace
}  // namespace tfring::test
