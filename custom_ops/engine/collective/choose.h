// Which algorithm for which operation: the one place that knows.
//
// All ranks of an operation must choose alike, so everything it depends on is equal on all
// of them. Ranks here are indices into the process set.
#pragma once

#include <cstddef>
#include <vector>

#include "base/dtype.h"
#include "collective/barrier.h"
#include "collective/host_map.h"
#include "collective/program.h"

namespace tfring {

// Where one algorithm takes over from another. Equal on all ranks.
struct AlgorithmThresholds {
  size_t small_allreduce_bytes = 16 * 1024;          // up to here message delays matter most
  size_t small_between_two_hosts_bytes = 64 * 1024;  // likewise: an exchange sends no more
  int max_exchange_ranks = 8;                        // or hosts, where leaders exchange
  size_t min_ring_part_bytes = 64 * 1024;            // of a rank, or of a host's rank in its column
  size_t max_binomial_bytes_per_rank = 128 * 1024;
  size_t small_allgather_bytes = 64 * 1024;
};

// ---- Allreduce, the first line that fits:
//
//   one rank                                           kCopy
//   small, up to max_exchange_ranks ranks              kExchange, or kLeadersExchange
//   small, not a half type                             kRecursiveDoubling, or kLeadersDoubling
//   one host                                           kDirect
//   half type, or parts below min_ring_part_bytes      kHierarchicalDirect
//   else                                               kRing, or kHierarchicalRing
//
// The second of two is for several hosts of which one has several ranks; the first line then
// counts hosts.
//
// One message delay costs more than copying a small buffer a few times; and between two hosts an
// exchange sends no more bytes than other algorithms. On one host every pair
// of ranks has its own memory, so direct sends are best; over a network a ring crosses each
// connection least, once its 2 (size - 1) delays are small against the transfer. With several
// ranks on a host as little as possible crosses its connection. Half types stay with the
// algorithms that round once, or once in a host and once among hosts.
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

struct AllreduceShape {
  DType dtype = DType::kFloat32;
  size_t bytes = 0;
  const HostMap& hosts;  // of the ranks that take part
};

AllreduceAlgorithm ChooseAllreduceAlgorithm(const AllreduceShape& shape,
                                            const AlgorithmThresholds& thresholds = {});

Program AllreduceProgram(AllreduceAlgorithm algorithm, const AllreduceShape& shape, int self);

// Both in one.
Program ChooseAllreduce(const AllreduceShape& shape, int self,
                        const AlgorithmThresholds& thresholds = {});

// ---- The others
//
//   broadcast   up to 128 KiB a rank: a binomial tree; else a chain
//   allgather   one host, or up to 64 KiB in all: direct; else a ring
//   barrier     dissemination

Program ChooseBroadcast(size_t bytes, int self, const HostMap& hosts, int root,
                        const AlgorithmThresholds& thresholds = {});

// `blocks` and the output as in allgather.h.
Program ChooseAllgather(const std::vector<size_t>& blocks, int self, const HostMap& hosts,
                        const AlgorithmThresholds& thresholds = {});

// On a buffer of BarrierScratchBytes(size), see barrier.h.
Program ChooseBarrier(int self, int size);

}  // namespace tfring
