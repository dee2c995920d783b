#include "transport/tcp/tcp_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tfring {
namespace {

constexpr int kFramesPerPoll = 4;
constexpr size_t kPayloadAlign = 64;
// Of a payload's rest; a socket is read again when so much is there. Below the least it is not
// worth telling the kernel.
constexpr size_t kMostLowWater = 64 * 1024;
constexpr size_t kLeastLowWater = 16 * 1024;
constexpr size_t kMostPieces = 256;  // per system call; the kernel's limit is 1024

}  // namespace

TcpLink::TcpLink(int peer, Fd socket)
    : peer_(peer),
      socket_(std::move(socket)),
      payload_(static_cast<uint8_t*>(std::aligned_alloc(kPayloadAlign, kMaxFrameBytes))) {
  // Buffer sizes are left to the kernel: what it grows them to by itself (tcp_wmem,
  // tcp_rmem: megabytes) is beyond what setsockopt may ask for on most hosts.
}

void TcpLink::Send(const FrameHeader& header, const ConstBytes* pieces, size_t count,
                   uint64_t* completed) {
  size_t sent = 0;
  if (dead_end() || (queue_.empty() && WriteSome(header, pieces, count, &sent)) || dead_end()) {
    ++*completed;
    return;
  }
  Frame frame;
  frame.header = header;
  frame.pieces.assign(pieces, pieces + count);
  frame.completed = completed;
  frame.sent = sent;
  Enqueue(std::move(frame));
}

void TcpLink::SendControl(const FrameHeader& header, const std::string& payload) {
  if (dead_end()) return;
  size_t sent = 0;
  const ConstBytes piece{reinterpret_cast<const uint8_t*>(payload.data()), payload.size()};
  if (queue_.empty() && WriteSome(header, &piece, 1, &sent)) return;
  if (dead_end()) return;
  Frame frame;
  frame.header = header;
  frame.owned = payload;
  frame.sent = sent;
  Enqueue(std::move(frame));
}

void TcpLink::Enqueue(Frame frame) {
  queue_.push_back(std::move(frame));
  Arm(true);
}

void TcpLink::Release(const uint64_t* completed) {
  for (Frame& frame : queue_) {
    if (frame.completed != completed) continue;
    frame.owned.reserve(frame.header.bytes);
    for (const ConstBytes& piece : frame.pieces) {
      frame.owned.append(reinterpret_cast<const char*>(piece.data), piece.size);
    }
    frame.pieces.clear();
    frame.completed = nullptr;
  }
}

bool TcpLink::WriteSome(const FrameHeader& header, const ConstBytes* pieces, size_t count,
                        size_t* sent) {
  const size_t total = sizeof(header) + header.bytes;
  while (*sent < total) {
    iov_.clear();
    size_t skip = *sent;
    const auto add = [&](const void* data, size_t size) {
      const size_t skipped = std::min(skip, size);
      skip -= skipped;
      if (size == skipped) return;
      // sendmsg does not write to what it sends.
      iov_.push_back({static_cast<char*>(const_cast<void*>(data)) + skipped, size - skipped});
    };
    add(&header, sizeof(header));
    for (size_t i = 0; i < count && iov_.size() < kMostPieces; ++i) {
      add(pieces[i].data, pieces[i].size);
    }
    msghdr message{};
    message.msg_iov = iov_.data();
    message.msg_iovlen = iov_.size();
    const ssize_t took = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (took > 0) {
      *sent += static_cast<size_t>(took);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      writable_ = false;
      return false;
    } else if (took == 0) {
      send_error_ = {Code::kInternal, "a frame's pieces are less than its header says"};
      DropQueue();
      return false;
    } else if (errno != EINTR) {
      // What the peer said before it went may say more: the reading side closes the link.
      send_error_ = Status(Code::kPeerLost, ErrnoStatus("the connection was lost").message());
      readable_ = true;
      DropQueue();
      return false;
    }
  }
  return true;
}

bool TcpLink::Flush() {
  bool moved = false;
  while (!queue_.empty() && writable_) {
    Frame& frame = queue_.front();
    const size_t before = frame.sent;
    const ConstBytes owned{reinterpret_cast<const uint8_t*>(frame.owned.data()),
                           frame.owned.size()};
    const bool whole = frame.pieces.empty();
    const bool all = WriteSome(frame.header, whole ? &owned : frame.pieces.data(),
                               whole ? 1 : frame.pieces.size(), &frame.sent);
    if (dead_end()) return true;  // the queue has gone
    moved |= frame.sent > before;
    if (!all) break;
    if (frame.completed != nullptr) ++*frame.completed;
    queue_.pop_front();
  }
  Arm(!queue_.empty());
  return moved;
}

void TcpLink::DropQueue() {
  for (Frame& frame : queue_) {
    if (frame.completed != nullptr) ++*frame.completed;
  }
  queue_.clear();
}

void TcpLink::Arm(bool for_writing) {
  if (for_writing == armed_for_writing_ || poller_ == nullptr || closed_) return;
  armed_for_writing_ = for_writing;
  const uint32_t events = EPOLLIN | EPOLLRDHUP | (for_writing ? EPOLLOUT : 0U);
  const Status status = poller_->Modify(socket_.get(), events, token_);
  if (!status.ok()) send_error_ = status;
}

Status TcpLink::Attach(Poller* poller, uint64_t token) {
  poller_ = poller;
  token_ = token;
  return poller_->Add(socket_.get(), EPOLLIN | EPOLLRDHUP, token);
}

void TcpLink::OnEvents(uint32_t events) {
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) readable_ = true;
  if ((events & EPOLLOUT) != 0) writable_ = true;
}

bool TcpLink::Poll(FrameSink& sink) {
  if (closed_) return false;
  bool moved = false;
  Status why;
  for (int i = 0; i < kFramesPerPoll && readable_; ++i) {
    const Received received = ReceiveSome(&why);
    if (received == Received::kEnd) {
      Fail(sink, why);
      return true;
    }
    moved |= received == Received::kSome;
    while (Deliver(sink, &why)) {
    }
    if (closed_) return true;
    if (!why.ok()) {
      Fail(sink, why);
      return true;
    }
  }
  if (!readable_) SetLowWater();
  if (!send_error_.ok()) {
    if (readable_) return true;
    Fail(sink, send_error_);
    return true;
  }
  return Flush() || moved;
}

TcpLink::Received TcpLink::ReceiveSome(Status* why) {
  const size_t payload_left = has_header_ ? header_.bytes - payload_got_ : 0;
  const size_t header_left = sizeof(FrameHeader) - partial_got_;
  std::array<iovec, 2> iov = {{{payload_.get() + payload_got_, payload_left},
                               {partial_.data() + partial_got_, header_left}}};
  const ssize_t got = readv(socket_.get(), iov.data(), iov.size());
  if (got == 0) {
    *why = {Code::kPeerLost, "the connection was closed"};
    return Received::kEnd;
  }
  if (got < 0) {
    if (errno == EINTR) return Received::kNothing;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      readable_ = false;
      return Received::kNothing;
    }
    const Status error = ErrnoStatus("the connection was lost");
    *why = {Code::kPeerLost, error.message()};
    return Received::kEnd;
  }
  const auto bytes = static_cast<size_t>(got);
  // A short read has emptied the socket; the poller tells when there is more.
  readable_ = bytes == payload_left + header_left;
  const size_t of_payload = std::min(bytes, payload_left);
  payload_got_ += of_payload;
  partial_got_ += bytes - of_payload;
  return Received::kSome;
}

void TcpLink::SetLowWater() {
  size_t wanted = has_header_ ? std::min(header_.bytes - payload_got_, kMostLowWater) : 1;
  if (wanted < kLeastLowWater) wanted = 1;
  if (wanted == low_water_) return;
  low_water_ = wanted;
  const int value = static_cast<int>(wanted);
  // Should it fail, the socket is read more often than need be.
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value));
}

bool TcpLink::Deliver(FrameSink& sink, Status* violation) {
  if (closed_) return false;
  if (has_header_) {
    if (payload_got_ < header_.bytes) return false;
    has_header_ = false;
    sink.OnFrame(peer_, header_, payload_.get());
    return true;
  }
  if (partial_got_ < sizeof(FrameHeader)) return false;
  std::memcpy(&header_, partial_.data(), sizeof(header_));
  partial_got_ = 0;
  payload_got_ = 0;
  *violation = CheckFrame(header_);
  has_header_ = violation->ok();
  return has_header_;
}

bool TcpLink::PrepareToSleep() {
  if (closed_) return false;
  return readable_ || !send_error_.ok() || (!queue_.empty() && writable_);
}

void TcpLink::FinishSending() {
  if (!closed_) shutdown(socket_.get(), SHUT_WR);
}

void TcpLink::Fail(FrameSink& sink, const Status& why) {
  Close();
  sink.OnClosed(peer_, why);
}

void TcpLink::Close() {
  if (closed_) return;
  closed_ = true;
  if (poller_ != nullptr) poller_->Remove(socket_.get());
  DropQueue();
  // A child of this process may hold the socket as well: closing alone would not end it.
  shutdown(socket_.get(), SHUT_RDWR);
  socket_.Reset();
}

}  // namespace tfring
