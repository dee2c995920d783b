#include "base/poller.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

namespace tfring {
namespace {

// The kernel takes an int; callers loop over longer waits anyway.
int Bounded(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest{3600 * 1000};
  return static_cast<int>(std::clamp(timeout, std::chrono::milliseconds(0), kLongest).count());
}

}  // namespace

Result<std::unique_ptr<Poller>> Poller::Make() {
  auto poller = std::make_unique<Poller>();
  poller->epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!poller->epoll_.valid()) return ErrnoStatus("epoll_create1");
  poller->wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!poller->wake_.valid()) return ErrnoStatus("eventfd");
  TFR_RETURN_IF_ERROR(poller->Add(poller->wake_.get(), EPOLLIN, kWakeToken));
  return poller;
}

Status Poller::Add(int fd, uint32_t events, uint64_t token) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return ErrnoStatus("epoll_ctl add");
  return Status::Ok();
}

Status Poller::Modify(int fd, uint32_t events, uint64_t token) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) return ErrnoStatus("epoll_ctl mod");
  return Status::Ok();
}

void Poller::Remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

Poller::Events Poller::Wait(std::chrono::milliseconds timeout) {
  bool woken = false;
  const Events events = Collect(Bounded(timeout), waited_.data(), &woken);
  if (woken) TakeWakes();
  return events;
}

void Poller::WaitForWake(std::chrono::milliseconds timeout) {
  pollfd polled{wake_.get(), POLLIN, 0};
  if (poll(&polled, 1, Bounded(timeout)) == 1) TakeWakes();
}

void Poller::TakeWakes() {
  uint64_t wakes = 0;
  const ssize_t got = read(wake_.get(), &wakes, sizeof(wakes));
  static_cast<void>(got);  // non-blocking, and the number does not matter
}

Poller::Events Poller::Look() {
  bool woken = false;
  return Collect(0, seen_.data(), &woken);
}

Poller::Events Poller::Collect(int timeout_ms, Event* events, bool* woken) {
  std::array<epoll_event, kMostEvents> found;
  const int count = epoll_wait(epoll_.get(), found.data(), kMostEvents, timeout_ms);
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    if (found[i].data.u64 == kWakeToken) {
      *woken = true;
    } else {
      events[kept++] = {found[i].data.u64, found[i].events};
    }
  }
  return {events, kept};
}

void Poller::Wake() {
  const uint64_t one = 1;
  const ssize_t written = write(wake_.get(), &one, sizeof(one));
  static_cast<void>(written);  // fails only when as many wakes wait already
}

}  // namespace tfring
