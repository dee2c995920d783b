#include "transport/shm/shm_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tfring {
namespace {

constexpr int kFramesPerPoll = 4;

}  // namespace

ShmLink::ShmLink(int peer, Fd socket, std::unique_ptr<SharedRings> rings)
    : peer_(peer),
      socket_(std::move(socket)),
      rings_(std::move(rings)),
      out_(rings_->Outgoing()),
      in_(rings_->Incoming()) {
  rings_->CloseFd();
}

bool ShmLink::CanSend(size_t bytes) const {
  if (gone()) return true;
  if (queue_.empty() && out_.Fits(bytes)) return true;
  refused_ = std::min(refused_, bytes);
  return false;
}

void ShmLink::Send(const FrameHeader& header, const ConstBytes* pieces, size_t count,
                   uint64_t* completed) {
  if (!gone()) Write(header, pieces, count);
  ++*completed;
}

void ShmLink::SendControl(const FrameHeader& header, const std::string& payload) {
  if (gone()) return;
  if (queue_.empty() && out_.Fits(payload.size())) {
    const ConstBytes piece{reinterpret_cast<const uint8_t*>(payload.data()), payload.size()};
    Write(header, &piece, 1);
  } else {
    queue_.push_back({header, payload});
  }
}

void ShmLink::Write(const FrameHeader& header, const ConstBytes* pieces, size_t count) {
  out_.Write(header, pieces, count);
  if (out_.TakeConsumerWaits()) RingDoorbell();
}

void ShmLink::RingDoorbell() {
  const char byte = 'D';
  // A full socket has enough bytes in it to wake the peer, and a broken one shows in
  // OnEvents.
  const ssize_t sent = send(socket_.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  static_cast<void>(sent);
}

bool ShmLink::Poll(FrameSink& sink) {
  if (closed_) return false;
  bool moved = PollFrames(sink);
  if (closed_) return true;
  moved |= FlushControl();
  if (out_.corrupt()) {
    Fail(sink, {Code::kIo, "protocol violation: the ring's position is corrupt"});
    return true;
  }
  if (refused_ != kNothing && queue_.empty() && (hung_up_ || out_.Fits(refused_))) {
    refused_ = kNothing;
    moved = true;
  }
  if (hung_up_ && in_.empty()) {
    Fail(sink, {Code::kPeerLost, "the connection was closed"});
    moved = true;
  }
  return moved;
}

bool ShmLink::PollFrames(FrameSink& sink) {
  bool moved = false;
  for (int i = 0; i < kFramesPerPoll; ++i) {
    FrameHeader header;
    const uint8_t* payload = nullptr;
    const RingConsumer::Outcome outcome = in_.Read(&header, &payload);
    if (outcome == RingConsumer::Outcome::kEmpty) return moved;
    Status status = outcome == RingConsumer::Outcome::kCorrupt
                        ? Status(Code::kIo, "protocol violation: the ring's content is corrupt")
                        : CheckFrame(header);
    if (!status.ok()) {
      Fail(sink, status);
      return true;
    }
    keeps_ = false;
    sink.OnFrame(peer_, header, payload);
    if (closed_) return true;
    if (!keeps_) in_.Free();
    if (in_.crowded()) sink.OnCrowded(peer_);
    if (in_.TakeProducerWaits()) RingDoorbell();
    moved = true;
  }
  return moved;
}

bool ShmLink::Keep() {
  keeps_ = in_.Keep();
  return keeps_;
}

void ShmLink::FreeKept(const uint8_t* payload) {
  in_.FreeKept(payload);
  if (!gone() && in_.TakeProducerWaits()) RingDoorbell();
}

bool ShmLink::FlushControl() {
  bool moved = false;
  while (!queue_.empty() && out_.Fits(queue_.front().payload.size())) {
    const Control& control = queue_.front();
    const ConstBytes piece{reinterpret_cast<const uint8_t*>(control.payload.data()),
                           control.payload.size()};
    Write(control.header, &piece, 1);
    queue_.pop_front();
    moved = true;
  }
  return moved;
}

Status ShmLink::Attach(Poller* poller, uint64_t token) {
  poller_ = poller;
  return poller_->Add(socket_.get(), EPOLLIN | EPOLLRDHUP, token);
}

void ShmLink::OnEvents(uint32_t) {
  if (gone()) return;
  char bytes[256];
  while (true) {
    const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof(bytes)) || (got < 0 && errno == EINTR)) continue;
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) HangUp();
    return;  // a short read has emptied it
  }
}

void ShmLink::HangUp() {
  hung_up_ = true;
  poller_->Remove(socket_.get());
  queue_.clear();
}

bool ShmLink::PrepareToSleep() {
  if (closed_) return false;
  if (hung_up_) return true;
  if (in_.WaitForFrames()) return true;
  if (!queue_.empty()) return out_.WaitForRoom(queue_.front().payload.size());
  return refused_ != kNothing && out_.WaitForRoom(refused_);
}

void ShmLink::EndSleep() {
  if (closed_) return;
  in_.StopWaiting();
  out_.StopWaiting();
}

void ShmLink::Fail(FrameSink& sink, const Status& why) {
  Close();
  sink.OnClosed(peer_, why);
}

void ShmLink::Close() {
  if (closed_) return;
  closed_ = true;
  if (poller_ != nullptr && !hung_up_) poller_->Remove(socket_.get());
  queue_.clear();
  // A child of this process may hold the socket as well: closing alone would not end it.
  shutdown(socket_.get(), SHUT_RDWR);
  socket_.Reset();
}

}  // namespace tfring
