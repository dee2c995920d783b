// Any order of submission, many operations at once.
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "test.h"

namespace tfring::test {
namespace {

// Each rank submits the same operations in an order of its own, all at once.
TEST(RanksSubmitInDifferentOrders) {
  for (bool shared_memory : {true, false}) {
    for (int size : {2, 3, 4}) {
      Cluster cluster(shared_memory ? OnOneHost(size) : OnHosts(size));
      constexpr int kOperations = 200;
      cluster.Run([&](Engine& engine, int rank) {
        std::vector<int> order(kOperations);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), std::mt19937(rank));
        std::vector<std::vector<float>> buffers(kOperations);
        std::vector<std::unique_ptr<Pending>> pending(kOperations);
        for (int index : order) {
          // From one element to 800 KB, so that small and segmented ones mix.
          const size_t count = 1 + static_cast<size_t>(index) * index * 5;
          buffers[index].assign(count, static_cast<float>(index + rank));
          pending[index] = std::make_unique<Pending>(
              engine, AllreduceRequest("op" + std::to_string(index), DType::kFloat32,
                                       ReduceOp::kSum, buffers[index].data(), buffers[index].data(),
                                       static_cast<int64_t>(count)));
        }
        for (int index = 0; index < kOperations; ++index) {
          EXPECT_EQ(pending[index]->Wait().message(), std::string());
          const float expected = static_cast<float>(index * size + size * (size - 1) / 2);
          EXPECT_EQ(buffers[index].front(), expected);
          EXPECT_EQ(buffers[index].back(), expected);
        }
      });
    }
  }
}

// One rank waits for an operation that another submitted last, behind many large ones.
TEST(LargeOperationsDoNotBlockOthers) {
  for (bool shared_memory : {true, false}) {
    Cluster cluster(shared_memory ? OnOneHost(2) : OnHosts(2));
    constexpr int kLarge = 12;
    constexpr size_t kCount = 1 << 20;
    cluster.Run([&](Engine& engine, int rank) {
      std::vector<std::vector<float>> buffers(kLarge, std::vector<float>(kCount, 1.0f));
      std::vector<std::unique_ptr<Pending>> pending;
      const auto submit_large = [&] {
        for (int i = 0; i < kLarge; ++i) {
          pending.push_back(std::make_unique<Pending>(
              engine, AllreduceRequest("large" + std::to_string(i), DType::kFloat32, ReduceOp::kSum,
                                       buffers[i].data(), buffers[i].data(), kCount)));
        }
      };
      float value = 1;
      if (rank == 0) submit_large();
      EXPECT_EQ(RunRequest(engine, AllreduceRequest("late", DType::kFloat32, ReduceOp::kSum, &value,
                                                    &value, 1))
                    .message(),
                std::string());
      EXPECT_EQ(value, 2.0f);
      if (rank == 1) submit_large();
      for (auto& operation : pending) EXPECT_EQ(operation->Wait().message(), std::string());
      for (const auto& buffer : buffers) EXPECT_EQ(buffer.back(), 2.0f);
    });
  }
}

// A name is used again and again, and one rank runs ahead as far as it can.
TEST(RepeatedNamesMatchByOccurrence) {
  Cluster cluster(OnOneHost(3));
  cluster.Run([](Engine& engine, int rank) {
    for (int step = 0; step < 300; ++step) {
      int32_t value = rank == 0 ? step : -1;
      EXPECT_EQ(
          RunRequest(engine, BroadcastRequest("b", DType::kInt32, 0, &value, &value, 1)).message(),
          std::string());
      EXPECT_EQ(value, step);
    }
  });
}

TEST(ShapesMayChangeBetweenOccurrences) {
  Cluster cluster(OnHosts(3));
  cluster.Run([](Engine& engine, int) {
    for (int64_t count : {5, 5, 7, 70000, 7, 7, 5}) {
      std::vector<float> values(count, 1.0f);
      EXPECT_EQ(RunRequest(engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum,
                                                    values.data(), values.data(), count))
                    .message(),
                std::string());
      EXPECT_EQ(values.back(), 3.0f);
    }
  });
}

}  // namespace
}  // namespace tfring::test
