// Which algorithm for which operation: the one place that knows.
//
// All ranks of an operation must choose alike, so everything it depends on is equal on all
// of them. Ranks here are indices into the process set.
#pragma once

#include <cstddef>
#include <vector>

#include "base/dtype.h"
#include "collective/barrier.h"
#include "collective/cost_parameters.h"
#include "collective/host_map.h"
#include "collective/program.h"

namespace tfring {

// ---- Allreduce: of those algorithms that can run, the one that the cost model (cost.h) expects
// to be done first.
//
//   one rank                              kCopy
//   one host, or one rank a host          kExchange, kRecursiveDoubling
//   one host                              kDirect
//   several hosts                         kHierarchicalDirect
//   one rank a host                       kRing
//   several ranks on a host, of several   kLeadersExchange, kLeadersDoubling, kHierarchicalRing
//
// One message delay costs more than copying a small buffer a few times. On one host every pair
// of ranks has its own memory, so direct sends are best; over a network a ring crosses each
// connection least, once its 2 (size - 1) delays are small against the transfer. With several
// ranks on a host as little as possible crosses its connection. Half types stay with the
// algorithms that round once, or once in a host and once among hosts: not the ones that double,
// and no ring.
enum class AllreduceAlgorithm {
  kCopy,
  kExchange,
  kRecursiveDoubling,
  kDirect,
  kRing,
  kLeadersExchange,
  kLeadersDoubling,
  kHierarchicalDirect,
  kHierarchicalRing,
};
constexpr AllreduceAlgorithm kAllreduceAlgorithms[] = {
    AllreduceAlgorithm::kCopy,
    AllreduceAlgorithm::kExchange,
    AllreduceAlgorithm::kRecursiveDoubling,
    AllreduceAlgorithm::kDirect,
    AllreduceAlgorithm::kRing,
    AllreduceAlgorithm::kLeadersExchange,
    AllreduceAlgorithm::kLeadersDoubling,
    AllreduceAlgorithm::kHierarchicalDirect,
    AllreduceAlgorithm::kHierarchicalRing,
};

struct AllreduceShape {
  DType dtype = DType::kFloat32;
  size_t bytes = 0;
  const HostMap& hosts;  // of the ranks that take part
};

// What a user can ask for; with several ranks on a host each stands for its variant.
enum class AllreduceFamily { kAny, kExchange, kDoubling, kDirect, kRing };
constexpr AllreduceFamily kAllreduceFamilies[] = {
    AllreduceFamily::kAny,    AllreduceFamily::kExchange, AllreduceFamily::kDoubling,
    AllreduceFamily::kDirect, AllreduceFamily::kRing,
};
constexpr const char* NameOf(AllreduceFamily family) {
  constexpr const char* kNames[] = {"any", "exchange", "doubling", "direct", "ring"};
  return kNames[static_cast<int>(family)];
}

// Equal on all ranks.
struct AlgorithmOptions {
  CostParameters costs;
  AllreduceFamily family = AllreduceFamily::kAny;  // where it has an algorithm that can run
  size_t max_binomial_bytes_per_rank = 128 * 1024;
  size_t small_allgather_bytes = 64 * 1024;
};

// Whether it suits where the ranks are, and rounds half types no more often than promised.
bool CanRun(AllreduceAlgorithm algorithm, const AllreduceShape& shape);

AllreduceAlgorithm ChooseAllreduceAlgorithm(const AllreduceShape& shape,
                                            const AlgorithmOptions& options = {});

Program AllreduceProgram(AllreduceAlgorithm algorithm, const AllreduceShape& shape, int self);

// Both in one.
Program ChooseAllreduce(const AllreduceShape& shape, int self,
                        const AlgorithmOptions& options = {});

// ---- The others
//
//   broadcast   up to 128 KiB a rank: a binomial tree; else a chain
//   allgather   one host, or up to 64 KiB in all: direct; else a ring
//   barrier     dissemination

Program ChooseBroadcast(size_t bytes, int self, const HostMap& hosts, int root,
                        const AlgorithmOptions& options = {});

// `blocks` and the output as in allgather.h.
Program ChooseAllgather(const std::vector<size_t>& blocks, int self, const HostMap& hosts,
                        const AlgorithmOptions& options = {});

// On a buffer of BarrierScratchBytes(size), see barrier.h.
Program ChooseBarrier(int self, int size);

}  // namespace tfring
