#include "collective/choose.h"

#include <numeric>

#include "collective/allgather.h"
#include "collective/broadcast.h"
#include "collective/cost.h"
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

AllreduceFamily FamilyOf(AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::kCopy:
      break;
    case AllreduceAlgorithm::kExchange:
    case AllreduceAlgorithm::kLeadersExchange:
      return AllreduceFamily::kExchange;
    case AllreduceAlgorithm::kRecursiveDoubling:
    case AllreduceAlgorithm::kLeadersDoubling:
      return AllreduceFamily::kDoubling;
    case AllreduceAlgorithm::kDirect:
    case AllreduceAlgorithm::kHierarchicalDirect:
      return AllreduceFamily::kDirect;
    case AllreduceAlgorithm::kRing:
    case AllreduceAlgorithm::kHierarchicalRing:
      return AllreduceFamily::kRing;
  }
  return AllreduceFamily::kAny;
}

}  // namespace

bool CanRun(AllreduceAlgorithm algorithm, const AllreduceShape& shape) {
  const HostMap& hosts = shape.hosts;
  if (hosts.size() == 1) return algorithm == AllreduceAlgorithm::kCopy;
  const bool half = IsHalf(shape.dtype);
  switch (algorithm) {
    case AllreduceAlgorithm::kCopy:
      return false;
    case AllreduceAlgorithm::kExchange:
      return !hosts.layered();
    case AllreduceAlgorithm::kRecursiveDoubling:
      return !hosts.layered() && !half;
    case AllreduceAlgorithm::kDirect:
      return hosts.hosts() == 1;
    case AllreduceAlgorithm::kRing:
      return hosts.hosts() == hosts.size() && !half;
    case AllreduceAlgorithm::kLeadersExchange:
      return hosts.layered();
    case AllreduceAlgorithm::kLeadersDoubling:
      return hosts.layered() && !half;
    case AllreduceAlgorithm::kHierarchicalDirect:
      return hosts.hosts() > 1;
    case AllreduceAlgorithm::kHierarchicalRing:
      return hosts.layered() && !half;
  }
  return false;
}

AllreduceAlgorithm ChooseAllreduceAlgorithm(const AllreduceShape& shape,
                                            const AlgorithmOptions& options) {
  AllreduceAlgorithm best = AllreduceAlgorithm::kCopy;
  double least = kNeverSeconds;
  bool asked_for = false;
  for (AllreduceAlgorithm algorithm : kAllreduceAlgorithms) {
    if (!CanRun(algorithm, shape)) continue;
    const bool wanted = FamilyOf(algorithm) == options.family;
    const double seconds = EstimateSeconds(algorithm, shape, options.costs);
    if (wanted > asked_for || (wanted == asked_for && seconds < least)) {
      best = algorithm;
      least = seconds;
      asked_for = wanted;
    }
  }
  return best;
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

Program ChooseAllreduce(const AllreduceShape& shape, int self, const AlgorithmOptions& options) {
  return AllreduceProgram(ChooseAllreduceAlgorithm(shape, options), shape, self);
}

Program ChooseBroadcast(size_t bytes, int self, const HostMap& hosts, int root,
                        const AlgorithmOptions& options) {
  const int size = hosts.size();
  const bool small = bytes / static_cast<size_t>(size) <= options.max_binomial_bytes_per_rank;
  return TreeBroadcast(small ? Tree::kBinomial : Tree::kChain, self, size, root, bytes);
}

Program ChooseAllgather(const std::vector<size_t>& blocks, int self, const HostMap& hosts,
                        const AlgorithmOptions& options) {
  const size_t total = std::accumulate(blocks.begin(), blocks.end(), size_t{0});
  if (hosts.hosts() == 1 || total <= options.small_allgather_bytes) {
    return DirectAllgather(self, blocks);
  }
  return RingAllgather(self, hosts.HostByHost(), blocks);
}

Program ChooseBarrier(int self, int size) { return DisseminationBarrier(self, size); }

}  // namespace tfring
