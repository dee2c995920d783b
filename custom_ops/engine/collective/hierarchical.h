// Allreduce of large buffers among hosts of several ranks each: what crosses a host's connection
// is what one rank a host would send, 2 (hosts - 1) / hosts times the buffer.
//
// The buffer is cut into columns, as many as the smallest host has ranks; column c belongs to
// the c-th rank of every host. Three stages, pipelined by segments:
//
//   1. within a host, every rank sends column c of its input to the owner of c, which reduces
//      the operands of its host;
//   2. the owners of a column, one on each host, reduce what their hosts have: as a ring, or
//      each one part of the column straight from all others;
//   3. the owners send the result to the other ranks of their host.
//
// So the columns cross the connections as parallel streams. Ranks beyond the number of columns
// own none and take part in the stages 1 and 3 only. With one rank a host what is left is the
// flat ring or the flat direct algorithm (ring.h, direct.h).
//
// Half types: a host's operands are added in float32 and rounded once. The direct stage 2 adds
// what the hosts have in float32 and rounds once more; so an element is rounded twice at most.
// The ring rounds at every host.
#pragma once

#include "collective/host_map.h"
#include "collective/program.h"
#include "transport/frame.h"

namespace tfring {

enum class Across {
  kRing,    // 2 (hosts - 1) message delays; every rank talks to two ranks of other hosts
  kDirect,  // 2 message delays; to one of each other host
};

// Two hosts at least. `wide`: half types, see above.
Program HierarchicalAllreduce(int self, const HostMap& hosts, size_t bytes, Across across,
                              bool wide, size_t max_segment_bytes = kMaxFrameBytes);

}  // namespace tfring
