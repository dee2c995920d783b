// Allreduce through whole engines: right values, and the same bits on every rank.
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "codec/reduce.h"
#include "core/cluster.h"
#include "test.h"

namespace tfring::test {
namespace {

std::vector<float> Values(int rank, size_t count) {
  // Small whole numbers: sums are exact in any order, so the expected value is too.
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int>((i * 7 + rank * 13) % 101) - 50);
  }
  return values;
}

std::vector<float> Sum(int size, size_t count) {
  std::vector<float> sum(count, 0.0f);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<float> values = Values(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

void CheckSizes(int size, bool shared_memory) {
  ClusterOptions options;
  options.size = size;
  options.shared_memory = shared_memory;
  Cluster cluster(options);
  for (size_t count : {size_t{0}, size_t{1}, static_cast<size_t>(size - 1),
                       static_cast<size_t>(size), static_cast<size_t>(size + 1), size_t{1000},
                       size_t{4099}, size_t{100003}, size_t{1500001}}) {
    const std::vector<float> expected = Sum(size, count);
    cluster.Run([&](Engine& engine, int rank) {
      const std::vector<float> input = Values(rank, count);
      std::vector<float> output(count);
      const std::string name = "x" + std::to_string(count);
      const Status status =
          RunRequest(engine, AllreduceRequest(name, DType::kFloat32, ReduceOp::kSum, input.data(),
                                              output.data(), static_cast<int64_t>(count)));
      EXPECT_EQ(status.message(), std::string());
      EXPECT_TRUE(output == expected);
      std::vector<float> in_place = input;
      const Status again = RunRequest(
          engine, AllreduceRequest(name, DType::kFloat32, ReduceOp::kAverage, in_place.data(),
                                   in_place.data(), static_cast<int64_t>(count)));
      EXPECT_EQ(again.message(), std::string());
      for (size_t i = 0; i < count; ++i) {
        const float average = static_cast<float>(static_cast<double>(expected[i]) * (1.0 / size));
        if (in_place[i] != average) {
          EXPECT_EQ(in_place[i], average);
          break;
        }
      }
    });
  }
}

TEST(AllreduceOverSharedMemory) {
  for (int size : {1, 2, 3, 4, 7}) CheckSizes(size, true);
}

TEST(AllreduceOverTcp) {
  for (int size : {2, 3, 4, 7}) CheckSizes(size, false);
}

struct Layers {
  int size;
  int ranks_per_host;  // the last host may have fewer

  friend std::ostream& operator<<(std::ostream& out, const Layers& layers) {
    return out << layers.size << "_by_" << layers.ranks_per_host;
  }
};

// Small, middle and large buffers take different algorithms.
TEST_EACH(AllreduceAcrossHostsOfSeveralRanks, (std::vector<Layers>{{4, 2}, {5, 2}, {7, 3}})) {
  ClusterOptions options;
  options.size = param.size;
  options.ranks_per_host = param.ranks_per_host;
  Cluster cluster(options);
  for (size_t count : {size_t{1}, size_t{1000}, size_t{20001}, size_t{300007}}) {
    const std::vector<float> expected = Sum(param.size, count);
    cluster.Run([&](Engine& engine, int rank) {
      std::vector<float> values = Values(rank, count);
      const Status status = RunRequest(
          engine, AllreduceRequest("x" + std::to_string(count), DType::kFloat32, ReduceOp::kSum,
                                   values.data(), values.data(), static_cast<int64_t>(count)));
      EXPECT_EQ(status.message(), std::string());
      EXPECT_TRUE(values == expected);
    });
  }
}

TEST(HalfTypesAcrossHostsOfSeveralRanksAreEqualOnAllRanks) {
  ClusterOptions options;
  options.size = 5;
  options.ranks_per_host = 2;
  Cluster cluster(options);
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (int64_t count : {int64_t{1000}, int64_t{700001}}) {
      std::vector<std::vector<uint16_t>> values(options.size);
      cluster.Run([&](Engine& engine, int rank) {
        // Patterns of all magnitudes but NaN and infinity.
        for (int64_t i = 0; i < count; ++i) {
          values[rank].push_back(static_cast<uint16_t>((i * 7919 + rank * 104729) & 0xb7ff));
        }
        const std::string name = std::to_string(count) + NameOf(dtype);
        const Status status =
            RunRequest(engine, AllreduceRequest(name, dtype, ReduceOp::kSum, values[rank].data(),
                                                values[rank].data(), count));
        EXPECT_EQ(status.message(), std::string());
      });
      for (const auto& one : values) EXPECT_TRUE(one == values[0]);
    }
  }
}

TEST(FusedTensorsOfUnequalSizes) {
  Cluster cluster(OnOneHost(3));
  const std::vector<size_t> counts = {3, 0, 70001, 1, 5000, 200003};
  cluster.Run([&](Engine& engine, int rank) {
    Request request;
    request.name = "bucket";
    request.kind = Kind::kAllreduce;
    request.dtype = DType::kFloat32;
    std::vector<std::vector<float>> inputs;
    std::vector<std::vector<float>> outputs;
    for (size_t count : counts) {
      inputs.push_back(Values(rank, count));
      outputs.emplace_back(count);
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      request.tensors.push_back({reinterpret_cast<const uint8_t*>(inputs[i].data()),
                                 reinterpret_cast<uint8_t*>(outputs[i].data()),
                                 {static_cast<int64_t>(counts[i])}});
    }
    EXPECT_EQ(RunRequest(engine, request).message(), std::string());
    for (size_t i = 0; i < counts.size(); ++i) EXPECT_TRUE(outputs[i] == Sum(3, counts[i]));
  });
}

// Results that depend on the order of addition must still be the same bits everywhere, and
// the same in every run.
TEST(RanksEndBitIdentical) {
  for (bool shared_memory : {true, false}) {
    for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      for (size_t count : {size_t{501}, size_t{90001}}) {
        const int size = 5;
        ClusterOptions options;
        options.size = size;
        options.shared_memory = shared_memory;
        Cluster cluster(options);
        std::vector<std::vector<uint8_t>> results(size);
        std::vector<std::vector<uint8_t>> repeated(size);
        for (auto* runs : {&results, &repeated}) {
          cluster.Run([&, runs](Engine& engine, int rank) {
            std::mt19937 random(rank + 1);
            std::vector<float> wide(count);
            for (float& value : wide) value = static_cast<float>(random() % 65536) / 777.0f;
            std::vector<uint8_t>& bytes = (*runs)[rank];
            bytes.resize(count * SizeOf(dtype));
            if (IsHalf(dtype)) {
              Narrow(dtype, bytes.data(), wide.data(), 1, count);
            } else if (dtype == DType::kFloat32) {
              std::memcpy(bytes.data(), wide.data(), bytes.size());
            } else {
              for (size_t i = 0; i < count; ++i) {
                const double value = wide[i] / 3.0;
                std::memcpy(bytes.data() + i * sizeof(double), &value, sizeof(double));
              }
            }
            const Status status =
                RunRequest(engine, AllreduceRequest("x", dtype, ReduceOp::kAverage, bytes.data(),
                                                    bytes.data(), static_cast<int64_t>(count)));
            EXPECT_EQ(status.message(), std::string());
          });
        }
        for (int rank = 0; rank < size; ++rank) EXPECT_TRUE(results[rank] == results[0]);
        EXPECT_TRUE(repeated == results);
      }
    }
  }
}

// Rounding once at the end, not at each operand: 2049 is not a float16.
TEST(HalfTypesAccumulateInFloat32) {
  for (bool shared_memory : {true, false}) {
    for (size_t count : {size_t{10}, size_t{100000}}) {
      ClusterOptions options;
      options.size = 4;
      options.shared_memory = shared_memory;
      Cluster cluster(options);
      cluster.Run([&](Engine& engine, int rank) {
        const std::vector<float> wide(count, rank == 0 ? 2048.0f : 1.0f);
        std::vector<uint16_t> values(count);
        Narrow(DType::kFloat16, values.data(), wide.data(), 1, count);
        const Status status =
            RunRequest(engine, AllreduceRequest("x", DType::kFloat16, ReduceOp::kSum, values.data(),
                                                values.data(), static_cast<int64_t>(count)));
        EXPECT_EQ(status.message(), std::string());
        std::vector<float> result(count);
        Widen(DType::kFloat16, result.data(), values.data(), count);
        EXPECT_EQ(result.front(), 2052.0f);  // 2048 + 3 = 2051, a tie, rounds to even
        EXPECT_EQ(result.back(), 2052.0f);
      });
    }
  }
}

TEST(PrescaleAndPostscale) {
  Cluster cluster(OnOneHost(3));
  cluster.Run([](Engine& engine, int) {
    for (size_t count : {size_t{9}, size_t{100000}}) {
      const std::vector<float> input(count, 2.0f);
      std::vector<float> output(count);
      Request request =
          AllreduceRequest("x" + std::to_string(count), DType::kFloat32, ReduceOp::kSum,
                           input.data(), output.data(), static_cast<int64_t>(count));
      request.prescale = 0.5;
      request.postscale = 10;
      EXPECT_EQ(RunRequest(engine, request).message(), std::string());
      EXPECT_EQ(output.front(), 30.0f);
      EXPECT_EQ(output.back(), 30.0f);
      EXPECT_EQ(input.front(), 2.0f);
    }
  });
}

TEST(IntegersAndBool) {
  Cluster cluster(OnOneHost(3));
  cluster.Run([](Engine& engine, int rank) {
    std::vector<int64_t> wide = {rank + 1, -rank, int64_t{1} << 60};
    EXPECT_EQ(RunRequest(engine, AllreduceRequest("i64", DType::kInt64, ReduceOp::kProduct,
                                                  wide.data(), wide.data(), 2))
                  .message(),
              std::string());
    EXPECT_EQ(wide[0], int64_t{6});
    EXPECT_EQ(wide[1], int64_t{0});
    std::vector<int8_t> narrow = {static_cast<int8_t>(rank), static_cast<int8_t>(-rank)};
    EXPECT_EQ(RunRequest(engine, AllreduceRequest("i8", DType::kInt8, ReduceOp::kMin, narrow.data(),
                                                  narrow.data(), 2))
                  .message(),
              std::string());
    EXPECT_EQ(int{narrow[0]}, 0);
    EXPECT_EQ(int{narrow[1]}, -2);
    std::vector<uint8_t> flags = {static_cast<uint8_t>(rank == 1), 1};
    EXPECT_EQ(RunRequest(engine, AllreduceRequest("or", DType::kBool, ReduceOp::kMax, flags.data(),
                                                  flags.data(), 2))
                  .message(),
              std::string());
    EXPECT_EQ(int{flags[0]}, 1);
    const Status average = RunRequest(
        engine,
        AllreduceRequest("no", DType::kBool, ReduceOp::kAverage, flags.data(), flags.data(), 2));
    EXPECT_TRUE(average.code() == Code::kInvalidArgument);
  });
}

}  // namespace
}  // namespace tfring::test
