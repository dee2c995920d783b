#include "core/executor.h"

#include <algorithm>
#include <utility>

namespace tfring {
namespace {

// Frames end at multiples of this within a send, so that elements are never split.
constexpr size_t kFrameAlignment = 64;

// A frame gathered from more pieces than this is cut (writev takes 1,024).
constexpr size_t kMaxPieces = 512;

PieceKind WorkOf(const Receive& receive) {
  return receive.action == Receive::Action::kCopy ? PieceKind::kCopy : PieceKind::kReduce;
}

}  // namespace

void Executor::Start(std::shared_ptr<const Plan> plan, const FlatBuffer* buffer, Reducer reducer) {
  plan_ = std::move(plan);
  buffer_ = buffer;
  reducer_ = std::move(reducer);
  reducer_.Prepare(program());
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    peer.plan = &plan_->peers[i];
    peer.next_send = peer.send_at = peer.next_receive = peer.receive_at = 0;
    peer.expected += peer.plan->expected;
    if (peer.link != nullptr && !(peer.plan->sends.empty() && peer.plan->receives.empty())) {
      peer.link->Call();
    }
  }
  received_.assign(program().receives.size(), 0);
  last_frame_.assign(program().sends.size(), 0);
  framed_.assign(program().sends.size(), 0);
  sends_left_ = 0;
  receives_open_ = program().receives.size();
}

Status Executor::OnData(int member, const uint8_t* data, size_t bytes, bool delivered) {
  Peer& peer = peers_[member];
  peer.started = true;
  peer.arrived += bytes;
  received_bytes_ += static_cast<int64_t>(bytes);
  if (bytes % reducer_.element_bytes() != 0) {
    return {Code::kInternal, "a frame of " + std::to_string(bytes) +
                                 " bytes splits an element of " +
                                 std::to_string(reducer_.element_bytes())};
  }
  size_t taken = 0;
  if (peer.aside.empty()) taken = Consume(peer, data, bytes);
  if (taken < bytes) PutAside(peer, data, bytes, taken, delivered);
  return Status::Ok();
}

void Executor::PutAside(Peer& peer, const uint8_t* data, size_t bytes, size_t used,
                        bool delivered) {
  Aside& aside = peer.aside.emplace_back();
  aside.bytes = bytes;
  aside.used = used;
  aside.kept = delivered && peer.link->Keep();
  if (!aside.kept) aside.copy.assign(data, data + bytes);
  aside.data = aside.kept ? data : aside.copy.data();
}

void Executor::CopyKept(int member) {
  Peer& peer = peers_[member];
  for (Aside& aside : peer.aside) {
    if (!aside.kept) continue;
    const uint8_t* const kept = aside.data;
    aside.copy.assign(kept, kept + aside.bytes);
    aside.data = aside.copy.data();
    aside.kept = false;
    peer.link->FreeKept(kept);
  }
}

bool Executor::Receivable(const Receive& receive) {
  if (receive.after >= 0 && !received_[receive.after]) return false;
  return FirstSendsHaveLeft(receive.after_sends);
}

size_t Executor::Consume(Peer& peer, const uint8_t* data, size_t bytes) {
  size_t taken = 0;
  while (taken < bytes && peer.next_receive < peer.plan->receives.size()) {
    const Receive& receive = program().receives[peer.plan->receives[peer.next_receive]];
    if (!Receivable(receive)) break;
    const size_t part = std::min(bytes - taken, receive.bytes - peer.receive_at);
    {
      const PieceTimer timer(times_, WorkOf(receive), part);
      reducer_.Apply(*buffer_, receive, peer.receive_at, data + taken, part);
    }
    taken += part;
    peer.receive_at += part;
    if (peer.receive_at < receive.bytes) break;
    FinishReceive(peer);
    SkipEmptyReceives(peer);
  }
  return taken;
}

void Executor::FinishReceive(Peer& peer) {
  received_[peer.plan->receives[peer.next_receive]] = 1;
  ++peer.next_receive;
  peer.receive_at = 0;
  --receives_open_;
}

bool Executor::SkipEmptyReceives(Peer& peer) {
  bool any = false;
  while (peer.next_receive < peer.plan->receives.size()) {
    const Receive& receive = program().receives[peer.plan->receives[peer.next_receive]];
    if (receive.bytes > 0 || !Receivable(receive)) break;
    FinishReceive(peer);
    any = true;
  }
  return any;
}

bool Executor::ConsumeAside(Peer& peer) {
  bool any = SkipEmptyReceives(peer);
  while (!peer.aside.empty()) {
    Aside& front = peer.aside.front();
    const size_t taken = Consume(peer, front.data + front.used, front.bytes - front.used);
    if (taken == 0) break;
    any = true;
    front.used += taken;
    if (front.used < front.bytes) break;
    if (front.kept) peer.link->FreeKept(front.data);
    peer.aside.pop_front();
  }
  return any;
}

bool Executor::ReceiveFromSelf() {
  Peer& own = peers_[self_];
  bool any = false;
  while (own.next_receive < own.plan->receives.size()) {
    const Receive& receive = program().receives[own.plan->receives[own.next_receive]];
    if (!Receivable(receive)) break;
    size_t at = 0;
    const PieceTimer timer(times_, WorkOf(receive), receive.bytes);
    buffer_->ForEach(receive.offset, receive.bytes, [&](const FlatBuffer::Piece& piece) {
      const uint8_t* own = receive.own_output ? piece.output : piece.input;
      reducer_.Apply(*buffer_, receive, at, own, piece.bytes);
      at += piece.bytes;
    });
    FinishReceive(own);
    any = true;
  }
  return any;
}

bool Executor::Advance() {
  bool any = false;
  for (bool again = true; again;) {
    again = ReceiveFromSelf();
    for (Peer& peer : peers_) {
      if (peer.link == nullptr) continue;
      again |= ConsumeAside(peer);
      again |= PumpSends(peer);
    }
    any |= again;
  }
  waits_for_link_ = HasFramesToLeave();
  if (times_ != nullptr) times_->NoteWaiting(waits_for_link_);
  return any;
}

bool Executor::PumpSends(Peer& peer) {
  bool any = false;
  peer.blocked = false;
  while (peer.next_send < peer.plan->sends.size()) {
    const int index = peer.plan->sends[peer.next_send];
    const Send& send = program().sends[index];
    if (send.after >= 0 && !received_[send.after]) break;
    if (send.bytes > 0 && !SendFrame(peer, send)) break;
    any = true;
    if (peer.send_at < send.bytes) continue;
    framed_[index] = 1;
    last_frame_[index] = peer.frames_taken;
    ++peer.next_send;
    peer.send_at = 0;
  }
  return any;
}

size_t Executor::FrameBytes(const Peer& peer, const Send& send) const {
  size_t most = std::min(send.bytes - peer.send_at, kMaxFrameBytes);
  if (!peer.ready) {
    const size_t window = kEagerBytes - std::min(kEagerBytes, peer.sent);
    if (most > window) most = window / kFrameAlignment * kFrameAlignment;
  }
  return most;
}

bool Executor::SendFrame(Peer& peer, const Send& send) {
  size_t bytes = FrameBytes(peer, send);
  if (bytes == 0) return false;
  if (!peer.link->CanSend(bytes)) {
    peer.blocked = true;
    return false;
  }
  pieces_.clear();
  size_t gathered = 0;
  buffer_->ForEach(send.offset + peer.send_at, bytes, [&](const FlatBuffer::Piece& piece) {
    if (pieces_.size() == kMaxPieces) return;
    const uint8_t* data = send.from == Send::From::kInput ? piece.input : piece.output;
    pieces_.push_back({data, piece.bytes});
    gathered += piece.bytes;
  });
  bytes = gathered;
  FrameHeader header = header_;
  header.bytes = static_cast<uint32_t>(bytes);
  ++peer.frames_taken;
  peer.send_at += bytes;
  peer.sent += bytes;
  sent_bytes_ += static_cast<int64_t>(bytes);
  const PieceTimer timer(times_, PieceKind::kSend, bytes);
  peer.link->Send(header, pieces_.data(), pieces_.size(), &peer.frames_left);
  return true;
}

bool Executor::FirstSendsHaveLeft(int count) {
  while (sends_left_ < count) {
    const Peer& peer = peers_[program().sends[sends_left_].peer];
    if (!framed_[sends_left_] || peer.frames_left < last_frame_[sends_left_]) return false;
    ++sends_left_;
  }
  return true;
}

bool Executor::done() const {
  if (receives_open_ > 0) return false;
  for (const Peer& peer : peers_) {
    if (peer.next_send < peer.plan->sends.size() || peer.frames_left < peer.frames_taken)
      return false;
  }
  return true;
}

bool Executor::HasFramesToLeave() const {
  for (const Peer& peer : peers_) {
    if (peer.blocked || peer.frames_left < peer.frames_taken) return true;
  }
  return false;
}

bool Executor::needs(int member) const {
  const Peer& peer = peers_[member];
  return peer.arrived < peer.expected || peer.next_send < peer.plan->sends.size();
}

bool Executor::all_started() const {
  for (const Peer& peer : peers_) {
    if (peer.link != nullptr && !peer.plan->receives.empty() && !peer.started) return false;
  }
  return true;
}

void Executor::ReleaseLinks() {
  for (Peer& peer : peers_) {
    if (peer.link == nullptr) continue;
    peer.link->Release(&peer.frames_left);
    for (const Aside& aside : peer.aside) {
      if (aside.kept) peer.link->FreeKept(aside.data);
    }
    peer.aside.clear();
  }
}

}  // namespace tfring
