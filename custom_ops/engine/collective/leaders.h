// Allreduce of small buffers among hosts of several ranks each: one message from host to host
// where flat algorithms send one for each pair of ranks.
//
// The first rank of each host leads. The others hand it their inputs; it reduces them in rank
// order, takes part in an exchange (exchange.h) or, among many hosts, in recursive doubling
// (recursive_doubling.h) with the other leaders, and hands out the result. Two message delays
// within the host, and one, or log2 hosts, between hosts.
//
// Half types: a host's operands are added in float32 and rounded once; an exchange does that
// again with the hosts' sums. Recursive doubling would round at each step: not for half types.
#pragma once

#include "collective/host_map.h"
#include "collective/program.h"

namespace tfring {

enum class AmongLeaders { kExchange, kRecursiveDoubling };

// Two hosts at least.
Program LeadersAllreduce(int self, const HostMap& hosts, size_t bytes, AmongLeaders algorithm);

}  // namespace tfring
