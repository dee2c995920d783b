// The constants of the cost model (cost.h). Equal on all ranks, since ranks choose by them.
#pragma once

namespace tfring {

struct LinkCost {
  double latency_s;          // from the end of sending to the beginning of receiving
  double seconds_per_frame;  // of a core, at each end
  double seconds_per_byte;   // likewise: copying it to or from the link
};

// The defaults are fitted on a machine of 2 cores, but for the network's latency and rate, which
// are those of an ordinary one: docs/cost_model.md.
struct CostParameters {
  LinkCost memory{0.7e-6, 0.05e-6, 0.05e-9};  // between ranks of one host
  LinkCost network{25e-6, 10e-6, 0.2e-9};     // between hosts
  double call_s = 0.5e-6;                     // of a core: the operation's beginning and end
  double reduce_seconds_per_byte = 0.04e-9;   // beyond copying
  // How much longer bytes take, as a share, where buffers don't fit into caches.
  double beyond_cache_share = 0.7;
  // Of a host's connection, each way; its ranks share it. Here 10 Gbit/s.
  double wire_seconds_per_byte = 0.8e-9;
  // What a byte takes more of the wire when several hosts send to one at the same time.
  double incast_share = 0.05;
  // Added to latencies where ranks outnumber cores, since the receiver has to be woken.
  double wake_s = 20e-6;
  double cores_per_host = 0;  // 0: one for each rank. Less than 1: hosts that share a core
};

// Those that hold for buffers of that size.
inline CostParameters ForBuffer(const CostParameters& costs, double bytes) {
  constexpr double kCacheBytes = 4 << 20;
  const double longer = 1 + costs.beyond_cache_share * bytes / (bytes + kCacheBytes);
  CostParameters adapted = costs;
  adapted.memory.seconds_per_byte *= longer;
  adapted.network.seconds_per_byte *= longer;
  adapted.reduce_seconds_per_byte *= longer;
  return adapted;
}

}  // namespace tfring
