// Allreduce of large buffers where every rank reaches every other equally well: two message
// delays, and 2 (size - 1) / size times the buffer sent and received by each rank.
//
// Part j of the buffer belongs to rank j. Every rank sends part j of its input straight to
// rank j; the owner reduces the operands in the order j, j + 1, ... (always the same, so
// that every run gives the same bits) and sends the result to all.
//
// Parts are cut into segments, and both phases run at once: segment s of the results
// follows segment s + kSegmentsAhead of the inputs on each link. Rank i begins each round
// with its neighbour i - 1 and goes down: at any time the ranks send to different ones,
// and an owner gets its operands in the order in which it needs them.
#pragma once

#include <cstddef>

#include "collective/program.h"

namespace tfring {

// As far as inputs are sent before the result of an earlier segment must be there.
constexpr size_t kSegmentsAhead = 2;

// Small enough for what is under way between all pairs of ranks to stay in caches, and for
// several segments to wait in a ring of shared memory for their turn.
constexpr size_t kDirectSegmentBytes = 64 * 1024;

// size >= 2. `wide`: reduces in accumulators, which round once at the end (half types).
Program DirectAllreduce(int self, int size, size_t bytes, bool wide,
                        size_t max_segment_bytes = kDirectSegmentBytes);

}  // namespace tfring
