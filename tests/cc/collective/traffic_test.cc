// What the algorithms cost, and that their programs are right for buffers beyond 4 GiB.
#include <algorithm>
#include <numeric>
#include <ostream>
#include <utility>
#include <vector>

#include "collective/broadcast.h"
#include "collective/direct.h"
#include "collective/exchange.h"
#include "collective/hierarchical.h"
#include "collective/leaders.h"
#include "collective/program_checks.h"
#include "collective/recursive_doubling.h"
#include "collective/ring.h"
#include "collective/topology.h"
#include "test.h"

namespace tfring::test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kHugeBytes = 5 * 1024 * kMiB + 12;

std::vector<int> Sizes() { return {2, 3, 4, 5, 7, 8, 16, 33}; }

// Huge buffers have tens of thousands of segments: few ranks, then.
std::vector<size_t> BufferSizes(int size) {
  return size <= 3 ? std::vector<size_t>{3 * kMiB + 4, kHugeBytes}
                   : std::vector<size_t>{3 * kMiB + 4};
}

std::vector<int> RankOrder(int size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

template <class Make>
std::vector<Program> AllRanks(int size, Make make) {
  std::vector<Program> programs;
  for (int rank = 0; rank < size; ++rank) programs.push_back(make(rank));
  return programs;
}

// 2 (n - 1) / n times the buffer, give or take the unequal parts.
void ExpectOptimalTraffic(const std::vector<Program>& programs, size_t bytes) {
  const size_t n = programs.size();
  for (const Program& program : programs) {
    const size_t sent = SentBytes(program);
    const size_t optimal = 2 * (n - 1) * (bytes / n);
    EXPECT_LE(sent, optimal + 4 * n * kAlignment);
    EXPECT_GE(sent + 4 * n * kAlignment, optimal);
  }
}

void ExpectGoodPrograms(const std::vector<Program>& programs, size_t bytes) {
  EXPECT_EQ(CheckPrograms(programs, bytes), "");
  for (const Program& program : programs) EXPECT_EQ(CheckResultsCover(program, bytes), "");
}

TEST_EACH(DirectAllreduceSendsNoMoreThanItMust, Sizes()) {
  for (size_t bytes : BufferSizes(param)) {
    for (bool wide : {false, true}) {
      const auto programs =
          AllRanks(param, [&](int rank) { return DirectAllreduce(rank, param, bytes, wide); });
      ExpectOptimalTraffic(programs, bytes);
      ExpectGoodPrograms(programs, bytes);
    }
  }
}

TEST_EACH(DirectAllreduceLoadsAllLinksAlike, Sizes()) {
  const size_t bytes = 64 * kMiB;
  const Program program = DirectAllreduce(0, param, bytes, false);
  std::vector<size_t> to(param, 0);
  for (const Send& send : program.sends) to[send.peer] += send.bytes;
  for (int peer = 1; peer < param; ++peer) {
    EXPECT_LE(to[peer], 2 * LargestPart(bytes, param));
    EXPECT_GE(to[peer] + 2 * kAlignment, 2 * LargestPart(bytes, param));
  }
}

TEST_EACH(DirectAllreduceNeedsFewAccumulators, Sizes()) {
  const Program program = DirectAllreduce(0, param, kHugeBytes, /*wide=*/true);
  EXPECT_LE(program.accumulator_bytes, (kSegmentsAhead + 1) * kMaxFrameBytes);
}

TEST_EACH(RingAllreduceSendsNoMoreThanItMust, Sizes()) {
  for (size_t bytes : BufferSizes(param)) {
    const auto programs =
        AllRanks(param, [&](int rank) { return RingAllreduce(rank, RankOrder(param), bytes); });
    ExpectOptimalTraffic(programs, bytes);
    ExpectGoodPrograms(programs, bytes);
    for (const Program& program : programs) {
      for (const Send& send : program.sends) EXPECT_LE(send.bytes, kMaxFrameBytes);
    }
  }
}

HostMap HostsOf(int hosts, int ranks_each) {
  std::vector<int> host_of;
  for (int rank = 0; rank < hosts * ranks_each; ++rank) host_of.push_back(rank / ranks_each);
  return HostMap(host_of);
}

// Bytes, and messages, from the ranks of a host to those of others.
std::pair<size_t, size_t> Crossing(const std::vector<Program>& programs, const HostMap& hosts,
                                   int host) {
  std::pair<size_t, size_t> crossing{0, 0};
  for (int rank : hosts.ranks_on(host)) {
    for (const Send& send : programs[rank].sends) {
      if (hosts.host_of(send.peer) == host) continue;
      crossing.first += send.bytes;
      ++crossing.second;
    }
  }
  return crossing;
}

// What crosses a host's connection is what one rank a host would send.
TEST_EACH(HierarchicalAllreduceSendsFromAHostWhatOneRankWould, std::vector<int>{2, 3, 4, 9}) {
  const size_t bytes = 64 * kMiB + 12;
  for (Across across : {Across::kRing, Across::kDirect}) {
    for (const HostMap& hosts : {HostsOf(param, 1), HostsOf(param, 2), HostsOf(param, 4)}) {
      for (bool wide : {false, true}) {
        const auto programs = AllRanks(hosts.size(), [&](int rank) {
          return HierarchicalAllreduce(rank, hosts, bytes, across, wide);
        });
        ExpectGoodPrograms(programs, bytes);
        const auto n = static_cast<size_t>(param);
        for (int host = 0; host < param; ++host) {
          // Parts differ by one segment at most in each column.
          const size_t slack = 2 * hosts.fewest() * kAlignment * 64;
          EXPECT_LE(Crossing(programs, hosts, host).first, 2 * (n - 1) * (bytes / n) + slack);
        }
      }
    }
  }
}

TEST(HierarchicalAllreduceOfAHugeBufferIsRight) {
  const HostMap hosts({0, 0, 1, 1, 1});
  for (Across across : {Across::kRing, Across::kDirect}) {
    const auto programs = AllRanks(hosts.size(), [&](int rank) {
      return HierarchicalAllreduce(rank, hosts, kHugeBytes, across, /*wide=*/true);
    });
    ExpectGoodPrograms(programs, kHugeBytes);
    for (const Program& program : programs) {
      EXPECT_LE(program.accumulator_bytes, 8 * kMaxFrameBytes);
      for (const Send& send : program.sends) EXPECT_LE(send.bytes, kMaxFrameBytes);
    }
  }
}

TEST(LeadersSendOneMessageFromHostToHost) {
  for (const HostMap& hosts : {HostsOf(2, 2), HostsOf(4, 3), HostMap({0, 1, 1, 2, 0, 0})}) {
    const auto programs = AllRanks(hosts.size(), [&](int rank) {
      return LeadersAllreduce(rank, hosts, 1000, AmongLeaders::kExchange);
    });
    for (int host = 0; host < hosts.hosts(); ++host) {
      EXPECT_EQ(Crossing(programs, hosts, host).second, static_cast<size_t>(hosts.hosts() - 1));
    }
  }
  const HostMap many = HostsOf(16, 4);
  const auto programs = AllRanks(many.size(), [&](int rank) {
    return LeadersAllreduce(rank, many, 1000, AmongLeaders::kRecursiveDoubling);
  });
  for (int host = 0; host < 16; ++host) EXPECT_EQ(Crossing(programs, many, host).second, 4u);
}

TEST_EACH(ExchangeSendsToEveryRankOnce, Sizes()) {
  const auto programs =
      AllRanks(param, [&](int rank) { return ExchangeAllreduce(rank, param, 1000); });
  for (const Program& program : programs) {
    EXPECT_EQ(program.sends.size(), static_cast<size_t>(param - 1));
    EXPECT_EQ(SentBytes(program), static_cast<size_t>(param - 1) * 1000);
  }
}

TEST_EACH(RecursiveDoublingSendsALogarithmOfTimes, Sizes()) {
  const auto programs =
      AllRanks(param, [&](int rank) { return RecursiveDoublingAllreduce(rank, param, 1000); });
  for (const Program& program : programs) {
    EXPECT_LE(program.sends.size(), static_cast<size_t>(CeilLog2(param) + 1));
  }
}

TEST_EACH(BroadcastTreesAreRightForHugeBuffers, std::vector<int>{2, 3, 5}) {
  for (Tree tree : {Tree::kBinomial, Tree::kChain}) {
    const auto programs = AllRanks(param, [&](int rank) {
      return TreeBroadcast(tree, rank, param, /*root=*/param - 1, kHugeBytes);
    });
    EXPECT_EQ(CheckPrograms(programs, kHugeBytes), "");
    for (int rank = 0; rank < param; ++rank) {
      const size_t own = rank == param - 1 ? kHugeBytes : 0;
      EXPECT_EQ(CheckResultsCover(programs[rank], kHugeBytes, 0, own), "");
      if (tree == Tree::kChain) EXPECT_LE(SentBytes(programs[rank]), kHugeBytes);
    }
    const size_t times = tree == Tree::kChain ? 1 : static_cast<size_t>(CeilLog2(param));
    EXPECT_EQ(SentBytes(programs[param - 1]), times * kHugeBytes);
  }
}

TEST_EACH(RingAllgatherSendsEveryBlockButOne, Sizes()) {
  std::vector<size_t> blocks;
  for (int rank = 0; rank < param; ++rank) blocks.push_back(kMiB * (rank % 3) + 4);
  const size_t total = std::accumulate(blocks.begin(), blocks.end(), size_t{0});
  for (int rank = 0; rank < param; ++rank) {
    // It passes on all but the block of its successor.
    const Program program = RingAllgather(rank, RankOrder(param), blocks);
    EXPECT_EQ(SentBytes(program), total - blocks[Wrap(rank + 1, param)]);
  }
}

}  // namespace
}  // namespace tfring::test
