// A point in time that several waits share.
#pragma once

#include <algorithm>
#include <chrono>

namespace tfring {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // Times beyond kLongest count as that: the clock can't add them.
  static constexpr std::chrono::hours kLongest{24 * 365};

  explicit Deadline(std::chrono::milliseconds timeout)
      : end_(Clock::now() + std::min<std::chrono::milliseconds>(timeout, kLongest)) {}

  bool passed() const { return Clock::now() >= end_; }

  // Not negative; rounded up, so that a wait of this length does not end early.
  std::chrono::milliseconds remaining() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }

  // The earlier of this and `timeout` from now.
  Deadline Within(std::chrono::milliseconds timeout) const {
    return Deadline(std::min(remaining(), timeout));
  }

 private:
  Clock::time_point end_;
};

}  // namespace tfring
