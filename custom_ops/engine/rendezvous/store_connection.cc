#include "rendezvous/store_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tfring {

StoreConnection::StoreConnection(Fd fd, Handshake handshake)
    : fd_(std::move(fd)), handshake_(std::move(handshake)) {}

Status StoreConnection::Advance() {
  if (!handshake_.done()) {
    TFR_RETURN_IF_ERROR(handshake_.Advance(fd_.get()));
    if (!handshake_.done()) return Status::Ok();
  }
  TFR_RETURN_IF_ERROR(Flush());
  if (!output_.empty() || has_request_) return Status::Ok();
  return ReadRequest();
}

Status StoreConnection::Flush() {
  while (output_at_ < output_.size()) {
    const ssize_t sent =
        send(fd_.get(), output_.data() + output_at_, output_.size() - output_at_, MSG_NOSIGNAL);
    if (sent >= 0) {
      output_at_ += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Status::Ok();
    } else if (errno != EINTR) {
      return ErrnoStatus("send");
    }
  }
  output_.clear();
  output_at_ = 0;
  return Status::Ok();
}

Status StoreConnection::ReadRequest() {
  if (!has_header_) {
    TFR_RETURN_IF_ERROR(Fill(StoreRequest::kBytes));
    if (input_.size() < StoreRequest::kBytes) return Status::Ok();
    request_ = StoreRequest::Decode(input_.data());
    TFR_RETURN_IF_ERROR(request_.Check());
    input_.clear();
    has_header_ = true;
  }
  const size_t size = request_.key_bytes + request_.value_bytes();
  TFR_RETURN_IF_ERROR(Fill(size));
  if (input_.size() < size) return Status::Ok();
  key_ = input_.substr(0, request_.key_bytes);
  value_ = input_.substr(request_.key_bytes);
  input_.clear();
  has_request_ = true;
  return Status::Ok();
}

// Memory grows with what arrives, not with what was announced.
Status StoreConnection::Fill(size_t size) {
  char buffer[64 * 1024];
  while (input_.size() < size) {
    const ssize_t got = recv(fd_.get(), buffer, std::min(sizeof(buffer), size - input_.size()), 0);
    if (got > 0) {
      input_.append(buffer, static_cast<size_t>(got));
    } else if (got == 0) {
      return {Code::kIo, "closed by the client"};
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Status::Ok();
    } else if (errno != EINTR) {
      return ErrnoStatus("recv");
    }
  }
  return Status::Ok();
}

void StoreConnection::Answer(Code code, const std::string& payload) {
  StoreResponse response;
  response.code = static_cast<uint8_t>(code);
  response.bytes = static_cast<uint32_t>(payload.size());
  output_ = response.Encode() + payload;
  output_at_ = 0;
  has_header_ = has_request_ = false;
  parked_until_.reset();
  value_.clear();
}

const Deadline* StoreConnection::expiry() const {
  if (!handshake_.done()) return &handshake_until_;
  return parked() ? &*parked_until_ : nullptr;
}

uint32_t StoreConnection::events() const {
  if (handshake_.wants_to_write() || !output_.empty()) return EPOLLOUT | EPOLLRDHUP;
  // While a request waits, more input does too; only a client that leaves is of interest.
  return has_request_ ? EPOLLRDHUP : EPOLLIN | EPOLLRDHUP;
}

}  // namespace tfring
