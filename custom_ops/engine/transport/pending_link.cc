#include "transport/pending_link.h"

namespace tfring {

bool PendingLink::CanSend(size_t bytes) const {
  if (target_ != nullptr) return target_->CanSend(bytes);
  if (!closed_) caller_->Call(peer_);
  return closed_;
}

void PendingLink::Send(const FrameHeader& header, const ConstBytes* pieces, size_t count,
                       uint64_t* completed) {
  if (target_ != nullptr) {
    target_->Send(header, pieces, count, completed);
  } else {
    ++*completed;
  }
}

void PendingLink::SendControl(const FrameHeader& header, const std::string& payload) {
  if (target_ != nullptr) {
    target_->SendControl(header, payload);
  } else if (!closed_) {
    queue_.push_back({header, payload});
    caller_->Call(peer_);
  }
}

void PendingLink::Release(const uint64_t* completed) {
  if (target_ != nullptr) target_->Release(completed);
}

void PendingLink::FreeKept(const uint8_t* payload) {
  if (target_ != nullptr) target_->FreeKept(payload);
}

void PendingLink::Call() {
  if (target_ == nullptr && !closed_) caller_->Call(peer_);
}

void PendingLink::Adopt(Link* target) {
  target_ = target;
  for (const Control& control : queue_) target_->SendControl(control.header, control.payload);
  queue_.clear();
}

void PendingLink::Close() {
  closed_ = true;
  queue_.clear();
}

}  // namespace tfring
