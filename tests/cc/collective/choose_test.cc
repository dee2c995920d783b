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

HostMap Hosts(int hosts, int ranks_each) {
  std::vector<int> host_of;
  for (int rank = 0; rank < hosts * ranks_each; ++rank) host_of.push_back(rank / ranks_each);
  return HostMap(host_of);
}

struct ChoiceCase {
  DType dtype;
  size_t bytes;
  HostMap hosts;
  AllreduceAlgorithm expected;
};

// Unprintable, so named by its number in this table.
std::vector<ChoiceCase> ChoiceCases() {
  using A = AllreduceAlgorithm;
  return {
      {DType::kFloat32, 100, Hosts(1, 1), A::kCopy},
      {DType::kFloat32, 1 << 30, Hosts(1, 1), A::kCopy},
      {DType::kFloat32, 4 * kKiB, Hosts(1, 2), A::kExchange},
      {DType::kFloat16, 4 * kKiB, Hosts(1, 2), A::kExchange},
      {DType::kFloat32, 4 * kKiB, Hosts(2, 1), A::kExchange},
      {DType::kFloat32, 1 << 20, Hosts(1, 2), A::kDirect},
      {DType::kFloat32, 1 << 20, Hosts(1, 4), A::kDirect},
      {DType::kFloat32, 64 << 20, Hosts(1, 2), A::kDirect},
      {DType::kFloat32, 64 << 20, Hosts(1, 8), A::kDirect},
      {DType::kBFloat16, 64 << 20, Hosts(1, 8), A::kDirect},
      {DType::kFloat32, 64 << 20, Hosts(4, 1), A::kRing},
      {DType::kFloat32, 1 << 30, Hosts(7, 1), A::kRing},
      {DType::kBFloat16, 1 << 30, Hosts(7, 1), A::kHierarchicalDirect},
      {DType::kFloat32, 4 * kKiB, Hosts(64, 1), A::kRecursiveDoubling},
      {DType::kInt8, 4 * kKiB, Hosts(4096, 1), A::kRecursiveDoubling},
      {DType::kFloat32, 4 * kKiB, Hosts(64, 8), A::kLeadersDoubling},
      {DType::kFloat32, 4 * kKiB, Hosts(2, 2), A::kLeadersExchange},
      {DType::kBFloat16, 64 << 20, Hosts(2, 2), A::kHierarchicalDirect},
      {DType::kFloat32, 64 << 20, Hosts(4, 8), A::kHierarchicalRing},
  };
}

TEST_EACH(AllreduceAlgorithmIsChosenAsDocumented, ChoiceCases()) {
  EXPECT_EQ(ChooseAllreduceAlgorithm({param.dtype, param.bytes, param.hosts}), param.expected)
      << param.bytes << " bytes, " << param.hosts.size() << " ranks on " << param.hosts.hosts();
}

TEST(AnAlgorithmCanBeAskedFor) {
  using A = AllreduceAlgorithm;
  AlgorithmOptions options;
  const auto choose = [&](AllreduceFamily family, DType dtype, const HostMap& hosts) {
    options.family = family;
    return ChooseAllreduceAlgorithm({dtype, 100, hosts}, options);
  };
  EXPECT_EQ(choose(AllreduceFamily::kRing, DType::kFloat32, Hosts(3, 1)), A::kRing);
  EXPECT_EQ(choose(AllreduceFamily::kRing, DType::kFloat32, Hosts(3, 2)), A::kHierarchicalRing);
  EXPECT_EQ(choose(AllreduceFamily::kDirect, DType::kFloat32, Hosts(1, 2)), A::kDirect);
  EXPECT_EQ(choose(AllreduceFamily::kDoubling, DType::kInt8, Hosts(1, 2)), A::kRecursiveDoubling);
  EXPECT_EQ(choose(AllreduceFamily::kExchange, DType::kInt8, Hosts(2, 2)), A::kLeadersExchange);
  // It can't run: the fastest that can.
  EXPECT_EQ(choose(AllreduceFamily::kRing, DType::kFloat16, Hosts(3, 1)),
            choose(AllreduceFamily::kAny, DType::kFloat16, Hosts(3, 1)));
}

// What ranks know of their hosts is the same for all, however ranks are spread.
TEST(AllRanksChooseAlikeOnUnequalHosts) {
  for (const HostMap& hosts : {HostMap({0, 0, 0, 1}), HostMap({0, 1, 1, 2, 2, 2, 2, 0, 5})}) {
    for (size_t bytes : {size_t{4}, 16 * kKiB, 256 * kKiB, size_t{1} << 24}) {
      const AllreduceShape shape{DType::kFloat32, bytes, hosts};
      const AllreduceAlgorithm chosen = ChooseAllreduceAlgorithm(shape);
      EXPECT_TRUE(CanRun(chosen, shape));
      std::vector<Program> programs;
      for (int rank = 0; rank < hosts.size(); ++rank) {
        programs.push_back(ChooseAllreduce(shape, rank));
        EXPECT_EQ(CheckResultsCover(programs.back(), bytes), "");
      }
      EXPECT_EQ(CheckPrograms(programs, bytes), "") << static_cast<int>(chosen);
    }
  }
}

TEST(HalfTypesAreNeverRoundedAtEveryStep) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const HostMap& hosts : {Hosts(1, 4), Hosts(64, 1), Hosts(16, 4)}) {
      for (size_t bytes = 64; bytes <= size_t{1} << 30; bytes *= 4) {
        const AllreduceAlgorithm chosen = ChooseAllreduceAlgorithm({dtype, bytes, hosts});
        EXPECT_NE(chosen, AllreduceAlgorithm::kRecursiveDoubling);
        EXPECT_NE(chosen, AllreduceAlgorithm::kLeadersDoubling);
        EXPECT_NE(chosen, AllreduceAlgorithm::kRing);
        EXPECT_NE(chosen, AllreduceAlgorithm::kHierarchicalRing);
      }
    }
  }
}

TEST(ChosenAllreducesFitTogether) {
  const HostMap uneven({3, 3, 3, 1, 4, 4, 1, 9});
  for (DType dtype : {DType::kFloat32, DType::kFloat16}) {
    for (const HostMap& hosts : {Hosts(1, 1), Hosts(1, 2), Hosts(1, 9), Hosts(2, 1), Hosts(3, 1),
                                 Hosts(9, 1), Hosts(2, 2), Hosts(3, 4), Hosts(9, 3), uneven}) {
      for (size_t bytes : {size_t{0}, size_t{4}, size_t{1000}, size_t{1} << 20}) {
        std::vector<Program> programs;
        for (int rank = 0; rank < hosts.size(); ++rank) {
          programs.push_back(ChooseAllreduce({dtype, bytes, hosts}, rank));
          EXPECT_EQ(CheckResultsCover(programs.back(), bytes), "");
        }
        EXPECT_EQ(CheckPrograms(programs, bytes), "")
            << hosts.size() << " ranks on " << hosts.hosts() << ", " << bytes;
      }
    }
  }
}

TEST(AllreduceOfOneRankScalesItsInput) {
  for (bool in_place : {true, false}) {
    std::vector<float> input = {1, 2, 3};
    std::vector<float> output(3);
    float* result = in_place ? input.data() : output.data();
    const Program program = ChooseAllreduce({DType::kFloat32, 12, HostMap::OneHost(1)}, 0);
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
        programs.push_back(ChooseBroadcast(bytes, rank, HostMap::OneHost(size), size / 2));
      }
      EXPECT_EQ(CheckPrograms(programs, bytes), "");
    }
  }
}

TEST(ChosenAllgathersFitTogether) {
  for (int size : {1, 2, 5, 16}) {
    for (size_t block : {size_t{0}, size_t{1}, 100 * kKiB}) {
      for (const HostMap& hosts : {HostMap::OneHost(size), HostMap::OneRankEach(size)}) {
        const std::vector<size_t> blocks(size, block);
        std::vector<Program> programs;
        for (int rank = 0; rank < size; ++rank) {
          programs.push_back(ChooseAllgather(blocks, rank, hosts));
          EXPECT_EQ(CheckResultsCover(programs.back(), size * block, rank * block, block), "");
        }
        EXPECT_EQ(CheckPrograms(programs, size * block), "");
      }
    }
  }
}

}  // namespace
}  // namespace tfring::test
