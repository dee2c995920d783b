#include "transport/candidate.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/socket.h"

namespace tfring {
namespace {

constexpr char kConfirmation = 'C';

}  // namespace

Result<Candidate> Candidate::Call(const PeerAddress& address, bool local, size_t ring_bytes,
                                  const std::string& secret, const Identity& identity) {
  auto handshake = Handshake::Initiate(Purpose::kLink, secret, identity);
  if (!handshake.ok()) return handshake.status();
  auto socket =
      local ? StartConnectUnix(address.unix_name) : StartConnectTcp(address.address, address.port);
  if (!socket.ok()) return socket.status();
  Candidate candidate(std::move(socket.value()), local, true,
                      local ? Stage::kShakingHands : Stage::kConnecting,
                      std::move(handshake.value()));
  candidate.ring_bytes_ = ring_bytes;
  return candidate;
}

Result<Candidate> Candidate::Answer(Fd socket, bool local, const std::string& secret,
                                    Handshake::Judge judge) {
  auto handshake = Handshake::Accept(Purpose::kLink, secret, std::move(judge));
  if (!handshake.ok()) return handshake.status();
  if (!local) SetNoDelay(socket.get());
  return Candidate(std::move(socket), local, false, Stage::kShakingHands,
                   std::move(handshake.value()));
}

Status Candidate::Advance() {
  if (stage_ == Stage::kConnecting) {
    TFR_RETURN_IF_ERROR(FinishConnect(socket_.get()));
    stage_ = Stage::kShakingHands;
  }
  if (stage_ == Stage::kShakingHands) {
    TFR_RETURN_IF_ERROR(handshake_.Advance(socket_.get()));
    if (!handshake_.done()) return Status::Ok();
    stage_ = outgoing_ ? Stage::kConfirming : Stage::kAwaitingConfirmation;
    if (!outgoing_) expiry_ = Deadline(kConfirmPatience);
  }
  if (stage_ == Stage::kConfirming) return Confirm();
  if (stage_ == Stage::kAwaitingConfirmation) return AwaitConfirmation();
  return Status::Ok();
}

Status Candidate::Confirm() {
  if (local_) {
    TFR_RETURN_IF_ERROR(PassMemory());
  } else if (send(socket_.get(), &kConfirmation, 1, MSG_NOSIGNAL) != 1) {
    // There is room for a byte; failing, the other end has closed.
    return ErrnoStatus("confirming the connection");
  }
  stage_ = Stage::kDone;
  return Status::Ok();
}

Status Candidate::PassMemory() {
  auto rings = SharedRings::Make(ring_bytes_);
  if (!rings.ok()) return rings.status();
  TFR_RETURN_IF_ERROR(SendFd(socket_.get(), rings.value()->fd()));
  rings_ = std::move(rings.value());
  return Status::Ok();
}

Status Candidate::AwaitConfirmation() {
  if (local_) return ReceiveMemory();
  char byte = 0;
  const ssize_t got = recv(socket_.get(), &byte, 1, 0);
  if (got == 1 && byte == kConfirmation) {
    stage_ = Stage::kDone;
  } else if (got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    return {Code::kIo, "the caller has given up"};
  }
  return Status::Ok();
}

Status Candidate::ReceiveMemory() {
  auto fd = ReceiveFd(socket_.get());
  if (!fd.ok()) return fd.status();
  if (!fd.value().valid()) return Status::Ok();
  auto rings = SharedRings::Attach(std::move(fd.value()));
  if (!rings.ok()) return rings.status();
  rings_ = std::move(rings.value());
  stage_ = Stage::kDone;
  return Status::Ok();
}

uint32_t Candidate::events() const {
  const bool write = stage_ == Stage::kConnecting || handshake_.wants_to_write();
  return write ? EPOLLOUT : EPOLLIN;
}

}  // namespace tfring
