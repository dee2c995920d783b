// What comes from the other ranks: frames for an operation that is pending here, for one that
// has not been submitted yet, for one that has ended; and the end of a rank.
#include <cstring>

#include "core/control_frame.h"
#include "core/conversations.h"

namespace tfring {
namespace {

constexpr size_t kMostAgreements = 16;

Status AbortStatus(const FrameHeader& header, const uint8_t* payload) {
  if (header.bytes < 1) return {Code::kInternal, "an abort without a reason"};
  const int code = payload[0];
  const bool known = code > 0 && code <= static_cast<int>(Code::kInternal);
  return {known ? static_cast<Code>(code) : Code::kInternal,
          std::string(reinterpret_cast<const char*>(payload) + 1, header.bytes - 1)};
}

}  // namespace

void Conversations::OnFrame(int rank, const FrameHeader& header, const uint8_t* payload) {
  last_heard_[rank] = Recording() ? Clock::now() : now_;
  switch (static_cast<FrameType>(header.type)) {
    case FrameType::kHeartbeat:
      watched_[rank] = 1;
      break;
    case FrameType::kBye:
      OnBye(rank, header, payload);
      break;
    case FrameType::kClock:
      OnClock(rank, header, payload);
      break;
    case FrameType::kInterrupted:
      Interrupt(
          {Code::kInterrupted, std::string(reinterpret_cast<const char*>(payload), header.bytes)});
      break;
    case FrameType::kLost:
      OnLost(rank, header, payload);
      break;
    default:
      if (broken_.ok()) OnOperationFrame(rank, header, payload);
      break;
  }
  if (Recording()) poll_mark_ = Clock::now();
}

void Conversations::OnOperationFrame(int rank, const FrameHeader& header, const uint8_t* payload) {
  Name& name = names_[header.name_id];
  const FrameType type = static_cast<FrameType>(header.type);
  if (type == FrameType::kQuery) {
    const std::string submitted(1, header.occurrence < name.next ? 1 : 0);
    SendControlFrame(mesh_.link(rank), FrameType::kAnswer, header, submitted);
  } else if (type == FrameType::kAnswer) {
    const bool current = name.active && name.active->occurrence() == header.occurrence;
    if (current && header.bytes == 1) OnAnswer(name, rank, payload[0] == 1);
  } else if (name.active && name.active->occurrence() == header.occurrence) {
    OnActiveFrame(name, rank, header, payload);
  } else if (header.occurrence >= name.next) {
    OnEarlyFrame(name, rank, header, payload);
  } else {
    OnFinishedFrame(name, rank, header);
  }
}

void Conversations::OnActiveFrame(Name& name, int rank, const FrameHeader& header,
                                  const uint8_t* payload) {
  Operation& operation = *name.active;
  const int member = operation.set().members[rank];
  if (member < 0) return;
  if (operation.times() != nullptr) {
    RecordArrival(operation, rank, header, operation.heard[member] == 0);
  }
  operation.heard[member] = 1;
  const FrameType type = static_cast<FrameType>(header.type);
  if (type == FrameType::kAbort) {
    Fail(name, AbortStatus(header, payload), false);
    return;
  }
  if (type == FrameType::kConflict) {
    StartConflict(name);
    AddStatement(name, member, std::string(reinterpret_cast<const char*>(payload), header.bytes));
    return;
  }
  if (!operation.statements.empty()) return;
  if (header.digest != operation.digest()) {
    StartConflict(name);
    return;
  }
  Status status;
  if (type == FrameType::kReady) {
    operation.executor().OnReady(member);
  } else if (type == FrameType::kAnnounce) {
    operation.agreement.Hear(member);
    operation.Announce();
  } else {
    status = operation.executor().OnData(member, payload, header.bytes, true);
  }
  if (status.ok()) {
    StepOrFinish(name);
  } else {
    Fail(name, status.Annotate(operation.Title() + ": from rank " + std::to_string(rank)), true);
  }
}

void Conversations::OnEarlyFrame(Name& name, int rank, const FrameHeader& header,
                                 const uint8_t* payload) {
  Early& early = name.early[header.occurrence];
  EarlyPeer& peer = early.peers[rank];
  switch (static_cast<FrameType>(header.type)) {
    case FrameType::kAbort:
      early.aborted = AbortStatus(header, payload);
      break;
    case FrameType::kConflict:
      peer.statement.assign(reinterpret_cast<const char*>(payload), header.bytes);
      break;
    case FrameType::kReady:
      peer.ready = true;
      break;
    case FrameType::kAnnounce:
      peer.announced = true;
      break;
    default:
      peer.bytes += header.bytes;
      if (peer.bytes > kEagerBytes) {
        Lose(rank, "it broke the protocol: more than " + std::to_string(kEagerBytes) +
                       " bytes for an operation that was not submitted here");
        return;
      }
      peer.data.emplace_back(payload, payload + header.bytes);
      break;
  }
  if (header.type != static_cast<uint8_t>(FrameType::kAbort)) {
    peer.digest = header.digest;
    peer.digest_known = true;
  }
}

void Conversations::OnFinishedFrame(Name& name, int rank, const FrameHeader& header) {
  // Somebody still needs this rank's word on an operation that has ended here.
  const FrameType type = static_cast<FrameType>(header.type);
  if ((header.flags & kAnswerFlag) != 0) return;
  FrameHeader reply = header;
  reply.flags = kAnswerFlag;
  reply.digest = name.finished_digest;
  if (type == FrameType::kAnnounce) {
    OnAnnounceOfFinished(name, rank, header);
  } else if (type == FrameType::kAbort) {
    name.agreements.erase(header.occurrence);
  } else if (type == FrameType::kConflict) {
    SendControlFrame(mesh_.link(rank), type, reply, name.finished_text);
  }
}

// This rank knew already that all agree; some did not, and its word may be needed to go on.
void Conversations::OnAnnounceOfFinished(Name& name, int rank, const FrameHeader& header) {
  const int member = name.set == nullptr ? -1 : name.set->members[rank];
  if (member < 0) return;
  FrameHeader reply = header;
  reply.digest = name.finished_digest;
  if (header.digest != name.finished_digest) {
    reply.flags = kAnswerFlag;
    SendControlFrame(mesh_.link(rank), FrameType::kAnnounce, reply);  // shows the difference
    return;
  }
  const auto at =
      name.agreements.emplace(header.occurrence, Agreement(name.set->self, name.set->count()))
          .first;
  at->second.Hear(member);
  for (int target : at->second.TakeTargets()) {
    SendControlFrame(mesh_.link(name.set->ranks[target]), FrameType::kAnnounce, reply);
  }
  if (at->second.complete()) name.agreements.erase(at);
  // Of those that somebody has failed the rest never comes.
  if (name.agreements.size() > kMostAgreements) name.agreements.erase(name.agreements.begin());
}

void Conversations::OnLost(int reporter, const FrameHeader& header, const uint8_t* payload) {
  int32_t rank = -1;
  if (header.bytes < sizeof(rank)) return;
  std::memcpy(&rank, payload, sizeof(rank));
  if (rank < 0 || rank >= mesh_.size() || rank == reporter) return;
  const std::string reason(reinterpret_cast<const char*>(payload) + sizeof(rank),
                           header.bytes - sizeof(rank));
  if (rank == mesh_.rank()) {
    Lose(reporter, "it gave up on this rank: " + reason);
  } else {
    Lose(rank, reason);
  }
}

void Conversations::OnCrowded(int rank) {
  for (Operation* operation : pending_) {
    const int member = operation->set().members[rank];
    if (member >= 0) operation->executor().CopyKept(member);
  }
}

}  // namespace tfring
