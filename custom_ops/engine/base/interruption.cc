#include "base/interruption.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace tfring {

Result<std::shared_ptr<Interruption>> Interruption::Make() {
  auto made = std::make_shared<Interruption>();
  made->event_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->event_.valid()) return ErrnoStatus("eventfd");
  return made;
}

void Interruption::Set(const Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!why_.ok()) return;
  why_ = why;
  const uint64_t one = 1;
  const ssize_t written = write(event_.get(), &one, sizeof(one));
  static_cast<void>(written);  // the first into a counter always has room
}

Status Interruption::why() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return why_;
}

}  // namespace tfring
