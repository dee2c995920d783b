// epoll, level-triggered, with an eventfd through which any thread ends a wait.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/status.h"

namespace tfring {

class Poller {
 public:
  static Result<std::unique_ptr<Poller>> Make();

  // `token` comes back with the descriptor's events; kWakeToken is taken.
  Status Add(int fd, uint32_t events, uint64_t token);
  Status Modify(int fd, uint32_t events, uint64_t token);
  void Remove(int fd);

  struct Event {
    uint64_t token;
    uint32_t events;
  };

  // Waits for events; a wake-up shows as none. Valid until the next Wait. One thread may
  // wait while another one looks.
  struct Events {
    const Event* first;
    int count;
    const Event* begin() const { return first; }
    const Event* end() const { return first + count; }
  };
  Events Wait(std::chrono::milliseconds timeout);

  // Waits for a wake-up alone.
  void WaitForWake(std::chrono::milliseconds timeout);

  // What there is now. Leaves a wake-up to the thread that waits. Valid until the next Look.
  Events Look();

  void Wake();  // from any thread

 private:
  static constexpr uint64_t kWakeToken = ~uint64_t{0};
  static constexpr int kMostEvents = 64;

  Events Collect(int timeout_ms, Event* events, bool* woken);
  void TakeWakes();

  Fd epoll_;
  Fd wake_;
  std::array<Event, kMostEvents> waited_;
  std::array<Event, kMostEvents> seen_;
};

}  // namespace tfring
