// Every allreduce algorithm, simulated: right results and the same bits on every rank, in
// place and not, for every schedule.
#include <cstring>
#include <functional>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "codec/reduce.h"
#include "codec/reference.h"
#include "collective/direct.h"
#include "collective/exchange.h"
#include "collective/hierarchical.h"
#include "collective/leaders.h"
#include "collective/program_checks.h"
#include "collective/recursive_doubling.h"
#include "collective/ring.h"
#include "collective/simulator.h"
#include "test.h"

namespace tfring::test {
namespace {

// Small segments give small buffers several of them.
constexpr size_t kTinySegment = 128;

struct Algorithm {
  const char* name;
  std::function<Program(int self, int size, size_t bytes, DType dtype)> program;
  bool rounds_half_types_once;
  int max_size = 33;
};

// Over a network of hosts the order of the ring need not be that of the ranks.
std::vector<int> OddRanksFirst(int size) {
  std::vector<int> order;
  for (int rank = 1; rank < size; rank += 2) order.push_back(rank);
  for (int rank = 0; rank < size; rank += 2) order.push_back(rank);
  return order;
}

// Two hosts at least. Pairs; and hosts of 3, 1, 2, 3, ... ranks, numbered across the hosts.
HostMap Pairs(int size) {
  std::vector<int> hosts(size);
  for (int rank = 0; rank < size; ++rank) hosts[rank] = size == 2 ? rank : rank / 2;
  return HostMap(hosts);
}

HostMap UnevenHosts(int size) {
  if (size == 2) return HostMap::OneRankEach(2);
  std::vector<int> hosts(size);
  for (int rank = 0; rank < size; ++rank) {
    const int place = rank % 6;
    hosts[rank] = rank / 6 * 3 + (place < 3 ? 0 : place == 3 ? 1 : 2);
  }
  if (size == 3) hosts[1] = 7;  // between the two ranks of another one
  return HostMap(hosts);
}

// Among hosts. A segment of its own size for small tests.
std::vector<Algorithm> LayeredAlgorithms() {
  const auto hierarchical = [](HostMap (*map)(int), Across across, size_t segment) {
    return [=](int self, int size, size_t bytes, DType dtype) {
      return HierarchicalAllreduce(self, map(size), bytes, across, IsHalf(dtype), segment);
    };
  };
  const auto leaders = [](HostMap (*map)(int), AmongLeaders among) {
    return [=](int self, int size, size_t bytes, DType) {
      return LeadersAllreduce(self, map(size), bytes, among);
    };
  };
  return {
      {"layered_ring", hierarchical(Pairs, Across::kRing, kMaxFrameBytes), false},
      {"layered_ring_segments", hierarchical(Pairs, Across::kRing, kTinySegment), false},
      {"layered_ring_uneven_segments", hierarchical(UnevenHosts, Across::kRing, kTinySegment),
       false},
      {"layered_direct", hierarchical(Pairs, Across::kDirect, kMaxFrameBytes), false},
      {"layered_direct_segments", hierarchical(Pairs, Across::kDirect, kTinySegment), false},
      {"layered_direct_uneven_segments", hierarchical(UnevenHosts, Across::kDirect, kTinySegment),
       false},
      {"one_rank_hosts_direct", hierarchical(HostMap::OneRankEach, Across::kDirect, kTinySegment),
       true},
      {"leaders_exchange", leaders(UnevenHosts, AmongLeaders::kExchange), false, /*max_size=*/16},
      {"leaders_doubling", leaders(UnevenHosts, AmongLeaders::kRecursiveDoubling), false},
      {"leaders_doubling_pairs", leaders(Pairs, AmongLeaders::kRecursiveDoubling), false},
  };
}

std::vector<Algorithm> Algorithms() {
  const auto direct = [](size_t segment) {
    return [segment](int self, int size, size_t bytes, DType dtype) {
      return DirectAllreduce(self, size, bytes, IsHalf(dtype) && size > 2, segment);
    };
  };
  const auto ring = [](size_t segment) {
    return [segment](int self, int size, size_t bytes, DType) {
      return RingAllreduce(self, OddRanksFirst(size), bytes, segment);
    };
  };
  return {
      {"exchange",
       [](int self, int size, size_t bytes, DType) { return ExchangeAllreduce(self, size, bytes); },
       true, /*max_size=*/8},
      {"doubling",
       [](int self, int size, size_t bytes, DType) {
         return RecursiveDoublingAllreduce(self, size, bytes);
       },
       false},
      {"direct", direct(kMaxFrameBytes), true},
      {"direct_segments", direct(kTinySegment), true},
      {"ring", ring(kMaxFrameBytes), false},
      {"ring_segments", ring(kTinySegment), false},
  };
}

struct AllreduceCase {
  Algorithm algorithm;
  int size;

  friend std::ostream& operator<<(std::ostream& out, const AllreduceCase& c) {
    return out << c.algorithm.name << "_" << c.size;
  }
};

std::vector<AllreduceCase> Cases() {
  std::vector<AllreduceCase> cases;
  std::vector<Algorithm> algorithms = Algorithms();
  for (const Algorithm& layered : LayeredAlgorithms()) algorithms.push_back(layered);
  for (const Algorithm& algorithm : algorithms) {
    for (int size : {2, 3, 4, 5, 7, 8, 16, 33}) {
      if (size <= algorithm.max_size) cases.push_back({algorithm, size});
    }
  }
  return cases;
}

// Small whole numbers, so that sums are exact in every type and any order.
std::vector<uint8_t> WholeNumbers(DType dtype, size_t count, int rank) {
  std::vector<uint8_t> bytes(count * SizeOf(dtype));
  for (size_t i = 0; i < count; ++i) {
    const int value = dtype == DType::kBool ? static_cast<int>((i + rank) % 3 == 0)
                                            : static_cast<int>((i * 7 + rank * 5) % 7) - 3;
    uint8_t* at = &bytes[i * SizeOf(dtype)];
    const auto store = [at](auto number) { std::memcpy(at, &number, sizeof(number)); };
    switch (dtype) {
      case DType::kFloat16:
      case DType::kBFloat16:
        store(NarrowReference(dtype, static_cast<float>(value)));
        break;
      case DType::kFloat32:
        store(static_cast<float>(value));
        break;
      case DType::kFloat64:
        store(static_cast<double>(value));
        break;
      case DType::kInt32:
        store(static_cast<int32_t>(value));
        break;
      case DType::kInt64:
        store(static_cast<int64_t>(value));
        break;
      default:
        store(static_cast<int8_t>(value));
        break;
    }
  }
  return bytes;
}

struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double factor = 1;
  bool in_place = true;
  Schedule schedule = Schedule::kRandom;
};

// The result of every rank; empty after a failure.
std::vector<std::vector<uint8_t>> Simulate(const AllreduceCase& c, const Reduction& reduction,
                                           const std::vector<std::vector<uint8_t>>& inputs) {
  const size_t bytes = inputs[0].size();
  std::vector<Program> programs;
  for (int rank = 0; rank < c.size; ++rank) {
    programs.push_back(c.algorithm.program(rank, c.size, bytes, reduction.dtype));
    EXPECT_EQ(CheckResultsCover(programs.back(), bytes), "") << bytes << " bytes";
  }
  EXPECT_EQ(CheckPrograms(programs, bytes), "") << bytes << " bytes";
  std::vector<std::vector<uint8_t>> sources = inputs;
  std::vector<std::vector<uint8_t>> outputs(inputs.size(), std::vector<uint8_t>(bytes, 0x5a));
  std::vector<Simulator::Memory> memories;
  for (int rank = 0; rank < c.size; ++rank) {
    uint8_t* output = reduction.in_place ? sources[rank].data() : outputs[rank].data();
    memories.push_back({sources[rank].data(), output, bytes});
  }
  Simulator simulator(std::move(programs), memories, reduction.dtype, reduction.op,
                      reduction.factor);
  const std::string wrong = simulator.Run(reduction.schedule, static_cast<uint32_t>(bytes));
  EXPECT_EQ(wrong, "") << bytes << " bytes, " << reduction.schedule;
  if (!wrong.empty()) return {};
  if (reduction.in_place) return sources;
  EXPECT_TRUE(sources == inputs) << "an input was changed";
  return outputs;
}

void CheckAllreduce(const AllreduceCase& c, const Reduction& reduction, size_t count) {
  std::vector<std::vector<uint8_t>> inputs;
  for (int rank = 0; rank < c.size; ++rank) {
    inputs.push_back(WholeNumbers(reduction.dtype, count, rank));
  }
  std::vector<uint8_t> expected = inputs[0];
  for (int rank = 1; rank < c.size; ++rank) {
    ReduceReference(reduction.dtype, reduction.op, expected.data(), expected.data(),
                    inputs[rank].data(), count);
  }
  if (reduction.factor != 1) {
    ScaleReference(reduction.dtype, expected.data(), expected.data(), reduction.factor, count);
  }
  const auto results = Simulate(c, reduction, inputs);
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const size_t at =
        FirstDifference(reduction.dtype, results[rank].data(), expected.data(), count);
    EXPECT_EQ(at, count) << "rank " << rank << ", " << reduction.schedule << ", "
                         << NameOf(reduction.dtype) << " " << NameOf(reduction.op)
                         << (reduction.in_place ? ", in place" : "");
  }
}

TEST_EACH(AllreduceIsRightForEveryCountAndSchedule, Cases()) {
  const auto n = static_cast<size_t>(param.size);
  for (size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, n - 1, n, n + 1, size_t{1000}}) {
    for (Schedule schedule : kSchedules) {
      for (bool in_place : {false, true}) {
        // So many ranks make no new kind of schedule.
        if (n > 16 && (!in_place || schedule > Schedule::kSendsLate)) continue;
        CheckAllreduce(param, {DType::kFloat32, ReduceOp::kSum, 1, in_place, schedule}, count);
      }
    }
  }
}

TEST_EACH(AllreduceOfALargeBufferIsRight, Cases()) {
  // Tiny segments of it would be thousands of messages.
  const size_t count =
      std::string(param.algorithm.name).find("segments") == std::string::npos ? 100003 : 5003;
  for (Schedule schedule : {Schedule::kRandom, Schedule::kSendsLate}) {
    CheckAllreduce(param, {DType::kFloat32, ReduceOp::kSum, 0.5, true, schedule}, count);
  }
}

TEST_EACH(AllreduceIsRightForEveryTypeAndOperation, Cases()) {
  if (param.size > 8) return;
  for (int d = 0; d < kDTypeCount; ++d) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(o);
      if (!Supports(dtype, op)) continue;
      // Halves and quarters of whole numbers are exact too.
      const double factor = op == ReduceOp::kAverage ? 0.25 : 1;
      CheckAllreduce(param, {dtype, op, factor, true, Schedule::kSendsLate}, 501);
    }
  }
}

// Values of which the order of additions changes the sum, among them infinite ones and NaN.
TEST_EACH(AllreduceGivesEveryRankTheSameBits, Cases()) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
      std::vector<std::vector<uint8_t>> inputs;
      for (int rank = 0; rank < param.size; ++rank) {
        inputs.push_back(MixedElements(dtype, 997, static_cast<uint32_t>(rank)));
      }
      std::vector<uint8_t> first;
      for (Schedule schedule : {Schedule::kRandom, Schedule::kSlowRank}) {
        for (const auto& result : Simulate(param, {dtype, op, 1.0 / 3, true, schedule}, inputs)) {
          if (first.empty()) first = result;
          EXPECT_TRUE(result == first) << NameOf(dtype) << " " << NameOf(op) << " " << schedule;
        }
      }
    }
  }
}

TEST_EACH(AllreduceRoundsHalfTypesOnce, Cases()) {
  if (!param.algorithm.rounds_half_types_once) return;
  // Each one added to 2048 alone would be lost in rounding.
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<std::vector<uint8_t>> inputs;
    for (int rank = 0; rank < param.size; ++rank) {
      const uint16_t value = NarrowReference(dtype, rank == 0 ? 2048.0f : 1.0f);
      std::vector<uint16_t> halves(100, value);
      const auto* bytes = reinterpret_cast<const uint8_t*>(halves.data());
      inputs.emplace_back(bytes, bytes + 200);
    }
    const uint16_t sum = NarrowReference(dtype, 2047.0f + static_cast<float>(param.size));
    for (const auto& result : Simulate(param, {dtype, ReduceOp::kSum}, inputs)) {
      std::vector<uint16_t> halves(100);
      std::memcpy(halves.data(), result.data(), 200);
      for (uint16_t half : halves) EXPECT_EQ(half, sum);
    }
  }
}

// The sum of two large numbers is infinite, their average is not.
TEST_EACH(AllreduceScalesHalfTypesBeforeRounding, Cases()) {
  if (!param.algorithm.rounds_half_types_once) return;
  const uint16_t large = NarrowReference(DType::kFloat16, 60000.0f);
  const std::vector<uint16_t> halves(100, large);
  const auto* bytes = reinterpret_cast<const uint8_t*>(halves.data());
  const std::vector<std::vector<uint8_t>> inputs(param.size,
                                                 std::vector<uint8_t>(bytes, bytes + 200));
  const Reduction average{DType::kFloat16, ReduceOp::kAverage, 1.0 / param.size};
  for (const auto& result : Simulate(param, average, inputs)) EXPECT_TRUE(result == inputs[0]);
}

}  // namespace
}  // namespace tfring::test
