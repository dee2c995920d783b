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
      {DType::kFloat32, 16 * kKiB, Hosts(1, 2), A::kExchange},
      {DType::kFloat32, 16 * kKiB, Hosts(8, 1), A::kExchange},
      {DType::kFloat16, 16 * kKiB, Hosts(8, 1), A::kExchange},
      {DType::kFloat32, 16 * kKiB, Hosts(1, 9), A::kRecursiveDoubling},
      {DType::kInt8, 16 * kKiB, Hosts(9, 1), A::kRecursiveDoubling},
      {DType::kFloat16, 16 * kKiB, Hosts(1, 9), A::kDirect},
      {DType::kFloat32, 16 * kKiB + 4, Hosts(1, 2), A::kDirect},
      {DType::kFloat32, 1 << 30, Hosts(1, 33), A::kDirect},
      {DType::kFloat32, 100 * kKiB, Hosts(2, 1), A::kHierarchicalDirect},
      {DType::kFloat32, 64 * kKiB, Hosts(2, 1), A::kExchange},
      {DType::kBFloat16, 64 * kKiB, Hosts(2, 3), A::kLeadersExchange},
      {DType::kFloat32, 64 * kKiB, Hosts(3, 1), A::kHierarchicalDirect},
      {DType::kFloat32, 128 * kKiB, Hosts(2, 1), A::kRing},
      {DType::kFloat32, 1 << 30, Hosts(7, 1), A::kRing},
      {DType::kBFloat16, 1 << 30, Hosts(7, 1), A::kHierarchicalDirect},
      {DType::kFloat32, 16 * kKiB, Hosts(8, 2), A::kLeadersExchange},
      {DType::kFloat16, 16 * kKiB, Hosts(2, 8), A::kLeadersExchange},
      {DType::kFloat32, 16 * kKiB, Hosts(9, 2), A::kLeadersDoubling},
      {DType::kFloat16, 16 * kKiB, Hosts(9, 2), A::kHierarchicalDirect},
      {DType::kFloat32, 100 * kKiB, Hosts(2, 2), A::kHierarchicalDirect},
      {DType::kFloat32, 256 * kKiB, Hosts(2, 2), A::kHierarchicalRing},
      {DType::kBFloat16, 1 << 30, Hosts(2, 2), A::kHierarchicalDirect},
  };
}

TEST_EACH(AllreduceAlgorithmIsChosenAsDocumented, ChoiceCases()) {
  EXPECT_EQ(ChooseAllreduceAlgorithm({param.dtype, param.bytes, param.hosts}), param.expected)
      << param.bytes << " bytes, " << param.hosts.size() << " ranks on " << param.hosts.hosts();
}

TEST(ThresholdsCanBeOverridden) {
  AlgorithmThresholds thresholds;
  thresholds.small_allreduce_bytes = 200;
  thresholds.small_between_two_hosts_bytes = 100;
  thresholds.max_exchange_ranks = 2;
  thresholds.min_ring_part_bytes = 1000;
  const HostMap two = Hosts(2, 1);
  const HostMap three = Hosts(3, 1);
  const auto choose = [&](size_t bytes, const HostMap& hosts) {
    return ChooseAllreduceAlgorithm({DType::kFloat32, bytes, hosts}, thresholds);
  };
  EXPECT_EQ(choose(100, two), AllreduceAlgorithm::kExchange);
  EXPECT_EQ(choose(100, three), AllreduceAlgorithm::kRecursiveDoubling);
  EXPECT_EQ(choose(104, two), AllreduceAlgorithm::kHierarchicalDirect);
  EXPECT_EQ(choose(2000, two), AllreduceAlgorithm::kRing);
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
