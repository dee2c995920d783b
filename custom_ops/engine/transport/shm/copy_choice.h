// Whether large payloads go into a ring through the caches or past them, by what takes the
// writer less time.
//
// Where two cores share a cache, copying through it is the faster way. Where they don't, the
// writer has to take each line of the ring from the reader's cache and the reader to fetch it
// back, and going through memory (StreamCopy) is several times faster. Which it is can change
// at any time: threads move, and so do the virtual processors of a cloud machine.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace tfring {

class CopyChoice {
 public:
  enum Way { kCached, kStreamed };

  // For the next copy; now and then the slower way, to see whether it still is.
  Way Next() {
    if (--until_probe_ > 0) return best_;
    interval_ = std::min(2 * interval_, kLongestInterval);
    until_probe_ = interval_;
    return best_ == kCached ? kStreamed : kCached;
  }

  void Took(Way way, size_t bytes, std::chrono::nanoseconds time) {
    const double cost = static_cast<double>(time.count()) / static_cast<double>(bytes);
    double& lowest = cost_[way];
    // A copy that was interrupted says nothing about the way; a fast one does.
    const bool faster = lowest == 0 || cost < lowest;
    lowest = faster ? cost : lowest + (std::min(cost, 3 * lowest) - lowest) / 4;
    const Way best = cost_[kCached] <= cost_[kStreamed] ? kCached : kStreamed;
    if (best == best_) return;
    best_ = best;
    interval_ = kShortestInterval;
    until_probe_ = interval_;
  }

 private:
  // In copies. A way that goes on being slower is tried ever less.
  static constexpr int kShortestInterval = 4;
  static constexpr int kLongestInterval = 256;

  std::array<double, 2> cost_ = {};  // nanoseconds a byte of late; 0: not known
  Way best_ = kStreamed;
  int interval_ = kShortestInterval;
  int until_probe_ = kShortestInterval;
};

}  // namespace tfring
