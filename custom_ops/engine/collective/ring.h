// Allreduce and allgather in which every rank talks to its two neighbours in a ring alone:
// whatever the number of ranks, a connection between two hosts is crossed once each way.
//
// Allreduce: part j of the buffer goes round the ring twice. On the first turn
// (reduce-scatter) every rank adds its own operand to what it receives and passes it on; the
// rank that adds the last one has the result. On the second (allgather) the result is copied.
// Each rank sends 2 (size - 1) / size times the buffer; 2 (size - 1) message delays.
// Parts are cut into segments, so that one is passed on while the next is received.
//
// P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of
// workstations (2009).
#pragma once

#include <vector>

#include "collective/program.h"
#include "transport/frame.h"

namespace tfring {

// `order` has every rank once, in the order of the ring; two at least. The buffer's type also is
// that of the partial results: half types round at every rank.
Program RingAllreduce(int self, const std::vector<int>& order, size_t bytes,
                      size_t max_segment_bytes = kMaxFrameBytes);

// See allgather.h for `blocks`.
Program RingAllgather(int self, const std::vector<int>& order, const std::vector<size_t>& blocks,
                      size_t max_segment_bytes = kMaxFrameBytes);

}  // namespace tfring
