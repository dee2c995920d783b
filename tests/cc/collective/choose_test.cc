#include "collective/choose.h"

#include <cstring>
#include <ostream>
#include <vector>

#include "collective/program_checks.h"
#include "collective/simulator.h"
#include "test.h"

namespace tfring::test {
namespace {

constexpr size_t kKiB = 1024;

struct ChoiceCase {
  AllreduceShape shape;
  AllreduceAlgorithm expected;
};

// Unprintable, so named by its number in this table.
std::vector<ChoiceCase> ChoiceCases() {
  using A = AllreduceAlgorithm;
  return {
      {{DType::kFloat32, 100, 1, true}, A::kCopy},
      {{DType::kFloat32, 1 << 30, 1, true}, A::kCopy},
      {{DType::kFloat32, 16 * kKiB, 2, true}, A::kExchange},
      {{DType::kFloat32, 16 * kKiB, 8, false}, A::kExchange},
      {{DType::kFloat16, 16 * kKiB, 8, false}, A::kExchange},
      {{DType::kFloat32, 16 * kKiB, 9, true}, A::kRecursiveDoubling},
      {{DType::kInt8, 16 * kKiB, 9, false}, A::kRecursiveDoubling},
      {{DType::kFloat16, 16 * kKiB, 9, true}, A::kDirect},
      {{DType::kFloat32, 16 * kKiB + 4, 2, true}, A::kDirect},
      {{DType::kFloat32, 1 << 30, 33, true}, A::kDirect},
      {{DType::kFloat32, 100 * kKiB, 2, false}, A::kDirect},
      {{DType::kFloat32, 128 * kKiB, 2, false}, A::kRing},
      {{DType::kFloat32, 1 << 30, 7, false}, A::kRing},
      {{DType::kBFloat16, 1 << 30, 7, false}, A::kDirect},
  };
}

TEST_EACH(AllreduceAlgorithmIsChosenAsDocumented, ChoiceCases()) {
  EXPECT_EQ(ChooseAllreduceAlgorithm(param.shape), param.expected)
      << param.shape.bytes << " bytes, " << param.shape.size << " ranks";
}

TEST(ChosenAllreducesFitTogether) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16}) {
    for (bool one_host : {true, false}) {
      for (int size : {1, 2, 3, 8, 9, 33}) {
        for (size_t bytes : {size_t{0}, size_t{4}, size_t{1000}, size_t{1} << 20}) {
          std::vector<Program> programs;
          for (int rank = 0; rank < size; ++rank) {
            programs.push_back(ChooseAllreduce(dtype, bytes, rank, size, one_host));
            EXPECT_EQ(CheckResultsCover(programs.back(), bytes), "");
          }
          EXPECT_EQ(CheckPrograms(programs, bytes), "") << size << " ranks, " << bytes;
        }
      }
    }
  }
}

TEST(AllreduceOfOneRankScalesItsInput) {
  for (bool in_place : {true, false}) {
    std::vector<float> input = {1, 2, 3};
    std::vector<float> output(3);
    float* result = in_place ? input.data() : output.data();
    const Program program = ChooseAllreduce(DType::kFloat32, 12, 0, 1, true);
    Simulator simulator(
        {program},
        {{reinterpret_cast<uint8_t*>(input.data()), reinterpret_cast<uint8_t*>(result), 12}},
        DType::kFloat32, ReduceOp::kSum, 2);
    EXPECT_EQ(simulator.Run(Schedule::kRandom, 1), "");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(result[i], static_cast<float>(2 * (i + 1)));
  }
}

TEST(ChosenBroadcastsFitTogether) {
  for (int size : {1, 2, 5, 16}) {
    for (size_t bytes : {size_t{0}, 100 * kKiB, size_t{1} << 24}) {
      std::vector<Program> programs;
      for (int rank = 0; rank < size; ++rank) {
        programs.push_back(ChooseBroadcast(bytes, rank, size, size / 2));
      }
      EXPECT_EQ(CheckPrograms(programs, bytes), "");
    }
  }
}

TEST(ChosenAllgathersFitTogether) {
  for (int size : {1, 2, 5, 16}) {
    for (size_t block : {size_t{0}, size_t{1}, 100 * kKiB}) {
      for (bool one_host : {true, false}) {
        const std::vector<size_t> blocks(size, block);
        std::vector<Program> programs;
        for (int rank = 0; rank < size; ++rank) {
          programs.push_back(ChooseAllgather(blocks, rank, one_host));
          EXPECT_EQ(CheckResultsCover(programs.back(), size * block, rank * block, block), "");
        }
        EXPECT_EQ(CheckPrograms(programs, size * block), "");
      }
    }
  }
}

}  // namespace
}  // namespace tfring::test
