#include "collective/choose.h"

#include <numeric>

#include "collective/allgather.h"
#include "collective/broadcast.h"
#include "collective/direct.h"
#include "collective/exchange.h"
#include "collective/hierarchical.h"
#include "collective/leaders.h"
#include "collective/recursive_doubling.h"
#include "collective/ring.h"

namespace tfring {
namespace {

Program CopyOwnInput(size_t bytes) {
  Program program;
  if (bytes == 0) return program;
  Receive receive;
  receive.bytes = bytes;
  receive.last = true;
  program.receives.push_back(receive);
  return program;
}

}  // namespace

AllreduceAlgorithm ChooseAllreduceAlgorithm(const AllreduceShape& shape,
                                            const AlgorithmThresholds& thresholds) {
  using Algorithm = AllreduceAlgorithm;
  const HostMap& hosts = shape.hosts;
  const bool small = shape.bytes <= (hosts.hosts() == 2 ? thresholds.small_between_two_hosts_bytes
                                                        : thresholds.small_allreduce_bytes);
  const bool half = IsHalf(shape.dtype);
  if (hosts.size() == 1) return Algorithm::kCopy;
  const bool layered = hosts.layered();
  if (small && (layered ? hosts.hosts() : hosts.size()) <= thresholds.max_exchange_ranks) {
    return layered ? Algorithm::kLeadersExchange : Algorithm::kExchange;
  }
  if (small && !half) return layered ? Algorithm::kLeadersDoubling : Algorithm::kRecursiveDoubling;
  if (hosts.hosts() == 1) return Algorithm::kDirect;
  const size_t parts = static_cast<size_t>(hosts.hosts()) * static_cast<size_t>(hosts.fewest());
  const bool short_parts = shape.bytes / parts < thresholds.min_ring_part_bytes;
  if (half || short_parts) return Algorithm::kHierarchicalDirect;
  return layered ? Algorithm::kHierarchicalRing : Algorithm::kRing;
}

Program AllreduceProgram(AllreduceAlgorithm algorithm, const AllreduceShape& shape, int self) {
  const HostMap& hosts = shape.hosts;
  const int size = hosts.size();
  const bool half = IsHalf(shape.dtype);
  switch (algorithm) {
    case AllreduceAlgorithm::kCopy:
      break;
    case AllreduceAlgorithm::kExchange:
      return ExchangeAllreduce(self, size, shape.bytes);
    case AllreduceAlgorithm::kRecursiveDoubling:
      return RecursiveDoublingAllreduce(self, size, shape.bytes);
    case AllreduceAlgorithm::kDirect:
      // Two operands are rounded once anyway.
      return DirectAllreduce(self, size, shape.bytes, half && size > 2);
    case AllreduceAlgorithm::kRing:
      return RingAllreduce(self, hosts.HostByHost(), shape.bytes);
    case AllreduceAlgorithm::kLeadersExchange:
      return LeadersAllreduce(self, hosts, shape.bytes, AmongLeaders::kExchange);
    case AllreduceAlgorithm::kLeadersDoubling:
      return LeadersAllreduce(self, hosts, shape.bytes, AmongLeaders::kRecursiveDoubling);
    case AllreduceAlgorithm::kHierarchicalDirect:
      return HierarchicalAllreduce(self, hosts, shape.bytes, Across::kDirect, half && size > 2);
    case AllreduceAlgorithm::kHierarchicalRing:
      return HierarchicalAllreduce(self, hosts, shape.bytes, Across::kRing, half);
  }
  return CopyOwnInput(shape.bytes);
}

Program ChooseAllreduce(const AllreduceShape& shape, int self,
                        const AlgorithmThresholds& thresholds) {
  return AllreduceProgram(ChooseAllreduceAlgorithm(shape, thresholds), shape, self);
}

Program ChooseBroadcast(size_t bytes, int self, const HostMap& hosts, int root,
                        const AlgorithmThresholds& thresholds) {
  const int size = hosts.size();
  const bool small = bytes / static_cast<size_t>(size) <= thresholds.max_binomial_bytes_per_rank;
  return TreeBroadcast(small ? Tree::kBinomial : Tree::kChain, self, size, root, bytes);
}

Program ChooseAllgather(const std::vector<size_t>& blocks, int self, const HostMap& hosts,
                        const AlgorithmThresholds& thresholds) {
  const size_t total = std::accumulate(blocks.begin(), blocks.end(), size_t{0});
  if (hosts.hosts() == 1 || total <= thresholds.small_allgather_bytes) {
    return DirectAllgather(self, blocks);
  }
  return RingAllgather(self, hosts.HostByHost(), blocks);
}

Program ChooseBarrier(int self, int size) { return DisseminationBarrier(self, size); }

}  // namespace tfring
