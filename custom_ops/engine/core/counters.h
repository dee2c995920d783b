// What the engine has done so far, in totals.
#pragma once

#include <cstdint>
#include <mutex>

#include "core/clock.h"

namespace tfring {

struct CounterValues {
  int64_t operations = 0;
  int64_t failures = 0;
  int64_t allreduce_operations = 0;
  int64_t allreduce_bytes = 0;
  double allreduce_seconds = 0;
  double allreduce_busy_seconds = 0;
  double wait_seconds = 0;
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  double allreduce_tail_seconds = 0;  // of the last busy period only
};

class Counters {
 public:
  template <class Update>
  void Change(Update update) {
    std::lock_guard<std::mutex> lock(mutex_);
    update(values_);
  }

  CounterValues Get() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return values_;
  }

 private:
  mutable std::mutex mutex_;
  CounterValues values_;
};

}  // namespace tfring
