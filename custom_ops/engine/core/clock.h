// Monotonic time, as the engine measures waits.
#pragma once

#include <chrono>

namespace tfring {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

inline double SecondsBetween(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace tfring
