#include "core/conversations.h"

#include <cstring>
#include <utility>

#include "base/log.h"
#include "core/control_frame.h"

namespace tfring {
namespace {

constexpr std::chrono::milliseconds kCheckInterval{100};

Status AbortStatus(const FrameHeader& header, const uint8_t* payload) {
  if (header.bytes < 1) return {Code::kInternal, "an abort without a reason"};
  const int code = payload[0];
  const bool known = code > 0 && code <= static_cast<int>(Code::kInternal);
  return {known ? static_cast<Code>(code) : Code::kInternal,
          std::string(reinterpret_cast<const char*>(payload) + 1, header.bytes - 1)};
}

std::string AbortPayload(const Status& status) {
  return std::string(1, static_cast<char>(status.code())) + status.message();
}

}  // namespace

Conversations::Conversations(const EngineOptions& options, Mesh& mesh, Counters& counters,
                             std::function<void(const Status&)> on_broken)
    : options_(options),
      mesh_(mesh),
      counters_(counters),
      on_broken_(std::move(on_broken)),
      departed_(options.size, 0),
      last_heard_(options.size) {}

// ---- Submission ------------------------------------------------------------------------

void Conversations::Begin(Request request, std::shared_ptr<const ProcessSet> set,
                          TimePoint submitted) {
  Name& name = names_[NameIdOf(set->id, request.name)];
  if (!broken_.ok()) {
    request.done(broken_.Annotate(std::string(NameOf(request.kind)) + " \"" + request.name + "\""));
    counters_.Change([](CounterValues& values) { ++values.failures; });
    return;
  }
  const bool first = name.name.empty();
  name.name = request.name;
  const uint32_t occurrence = name.next++;
  if (name.active != nullptr) {
    RefuseDuplicate(name, std::move(request), *set, occurrence);
    return;
  }
  name.active =
      std::make_unique<Operation>(std::move(request), std::move(set), mesh_, occurrence, submitted);
  Operation& operation = *name.active;
  operation.position = pending_.insert(pending_.end(), &operation);
  operation.next_stall_report = submitted + options_.stall_warning;
  if (operation.request().kind == Kind::kAllreduce) {
    if (pending_allreduces_++ == 0) busy_since_ = submitted;
    last_allreduce_submitted_ = submitted;
  }
  if (first || operation.digest() != name.digest) {
    operation.announcements_due = operation.set().count() - 1;
    operation.SendControlToAll(FrameType::kAnnounce);
  }
  name.digest = operation.digest();
  const Status status = operation.Begin();
  if (!status.ok()) {
    Fail(name, status, true);
    return;
  }
  Early early;
  const auto found = name.early.find(occurrence);
  if (found != name.early.end()) {
    early = std::move(found->second);
    name.early.erase(found);
  }
  TakeEarly(name, operation, early);
}

void Conversations::TakeEarly(Name& name, Operation& operation, const Early& early) {
  if (!early.aborted.ok()) {
    Fail(name, early.aborted, false);
    return;
  }
  bool conflict = false;
  for (const auto& [rank, peer] : early.peers) {
    const int member = operation.set().members[rank];
    if (member < 0) continue;
    operation.heard[member] = 1;
    if (peer.ready) operation.executor().OnReady(member);
    conflict |= !peer.statement.empty() || (peer.digest_known && peer.digest != operation.digest());
  }
  if (conflict) {
    StartConflict(name);
    for (const auto& [rank, peer] : early.peers) {
      if (name.active == nullptr) return;
      const int member = operation.set().members[rank];
      if (member >= 0 && !peer.statement.empty()) AddStatement(name, member, peer.statement);
    }
    return;
  }
  for (const auto& [rank, peer] : early.peers) {
    const int member = operation.set().members[rank];
    if (member < 0) continue;
    if (peer.announced) OnAnnounced(operation, member, operation.announcements_due == 0);
    for (const Bytes& data : peer.data) {
      const Status status = operation.executor().OnData(member, data.data(), data.size());
      if (!status.ok()) {
        Fail(name, status, true);
        return;
      }
    }
  }
  StepOrFinish(name);
}

void Conversations::RefuseDuplicate(Name& name, Request request, const ProcessSet& set,
                                    uint32_t occurrence) {
  const Status status(Code::kInvalidArgument,
                      std::string(NameOf(request.kind)) + " \"" + request.name + "\" on rank " +
                          std::to_string(mesh_.rank()) +
                          ": an operation of this name is still pending; give each one that "
                          "may be pending at the same time a name of its own");
  name.early.erase(occurrence);
  FrameHeader header;
  header.name_id = NameIdOf(set.id, request.name);
  header.occurrence = occurrence;
  for (int rank : set.ranks) {
    if (rank == mesh_.rank()) continue;
    SendControlFrame(mesh_.link(rank), FrameType::kAbort, header, AbortPayload(status));
  }
  counters_.Change([](CounterValues& values) { ++values.failures; });
  request.done(status);
}

// ---- Progress --------------------------------------------------------------------------

bool Conversations::Advance() {
  bool any = false;
  for (auto next = pending_.begin(); next != pending_.end();) {
    Operation& operation = **next++;
    if (!operation.statements.empty() || !operation.executor().waits_for_link()) continue;
    any |= operation.executor().Advance();
    StepOrFinish(NameOfOperation(operation));
  }
  return any;
}

void Conversations::StepOrFinish(Name& name) {
  Operation& operation = *name.active;
  const Status status = operation.Step();
  if (!status.ok()) {
    Fail(name, status, true);
  } else if (operation.done() && operation.announcements_due == 0) {
    Finish(name, Status::Ok());
  } else {
    const Status missing = MissingPeer(operation);
    if (!missing.ok()) Fail(name, missing, true);
  }
}

Status Conversations::MissingPeer(Operation& operation) const {
  const ProcessSet& set = operation.set();
  for (int member = 0; member < set.count(); ++member) {
    if (!departed_[set.ranks[member]]) continue;
    const bool agreement_due = operation.announcements_due > 0 && !operation.announced[member];
    if (!agreement_due && !operation.executor().needs(member)) continue;
    return {Code::kPeerLost, operation.Title() + ": rank " + std::to_string(set.ranks[member]) +
                                 " has shut down (its program ended or called shutdown) and "
                                 "takes no part in it"};
  }
  return Status::Ok();
}

void Conversations::Fail(Name& name, Status status, bool tell_others) {
  Operation& operation = *name.active;
  if (tell_others) operation.SendControlToAll(FrameType::kAbort, AbortPayload(status));
  Finish(name, status);
}

void Conversations::Finish(Name& name, const Status& status) {
  const std::unique_ptr<Operation> operation = std::move(name.active);
  const TimePoint now = Clock::now();
  pending_.erase(operation->position);
  name.finished_digest = operation->digest();
  name.finished_text = Describe(operation->request());
  if (!status.ok()) operation->executor().ReleaseLinks();
  const bool allreduce = operation->request().kind == Kind::kAllreduce;
  counters_.Change([&](CounterValues& values) {
    values.sent_bytes += operation->executor().sent_bytes();
    values.received_bytes += operation->executor().received_bytes();
    ++(status.ok() ? values.operations : values.failures);
  });
  if (allreduce) CountAllreduce(*operation, now);
  operation->request().done(status);
}

void Conversations::CountAllreduce(const Operation& operation, TimePoint now) {
  --pending_allreduces_;
  counters_.Change([&](CounterValues& values) {
    ++values.allreduce_operations;
    values.allreduce_bytes += operation.bytes();
    values.allreduce_seconds += SecondsBetween(operation.submitted(), now);
    if (operation.all_started() > operation.submitted()) {
      values.wait_seconds += SecondsBetween(operation.submitted(), operation.all_started());
    }
    if (pending_allreduces_ == 0) {
      values.allreduce_busy_seconds += SecondsBetween(busy_since_, now);
      values.allreduce_tail_seconds = SecondsBetween(last_allreduce_submitted_, now);
    }
  });
}

void Conversations::FailAll(const Status& status) {
  while (!pending_.empty()) {
    Operation& operation = *pending_.front();
    Finish(NameOfOperation(operation), status.Annotate(operation.Title()));
  }
}

void Conversations::Lose(int rank, const std::string& reason) {
  if (!broken_.ok()) return;
  broken_ = Status(Code::kPeerLost, "lost rank " + std::to_string(rank) + ": " + reason);
  Log(LogLevel::kError, broken_.message());
  on_broken_(broken_);
  std::string payload(4, '\0');
  const int32_t lost = rank;
  std::memcpy(payload.data(), &lost, sizeof(lost));
  payload += reason;
  SendToAll(FrameType::kLost, payload);  // the lost one too: it may be alive and not know
  departed_[rank] = 1;
  FailAll(broken_);
}

void Conversations::ShutDown() {
  const Status status(Code::kShutDown, "shutdown was called while it was pending");
  FailAll(status);
  if (broken_.ok()) broken_ = Status(Code::kShutDown, "the engine has shut down");
  SendToAll(FrameType::kBye);
}

void Conversations::SendToAll(FrameType type, const std::string& payload) {
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    if (rank == mesh_.rank() || departed_[rank]) continue;
    SendControlFrame(mesh_.link(rank), type, FrameHeader(), payload);
  }
}

void Conversations::CheckTime(TimePoint now) {
  if (now < next_check_) return;
  next_check_ = now + kCheckInterval;
  for (auto next = pending_.begin(); next != pending_.end();) {
    Operation& operation = **next++;
    Name& name = NameOfOperation(operation);
    if (!operation.statements.empty()) {
      if (now >= operation.conflict_since + std::chrono::seconds(1)) CloseConflict(name);
    } else {
      CheckStall(name, now);
    }
  }
}

// ---- Frames ----------------------------------------------------------------------------

void Conversations::OnFrame(int rank, const FrameHeader& header, const uint8_t* payload) {
  last_heard_[rank] = Clock::now();
  switch (static_cast<FrameType>(header.type)) {
    case FrameType::kHeartbeat:
      break;
    case FrameType::kBye:
      OnBye(rank);
      break;
    case FrameType::kLost:
      OnLost(rank, header, payload);
      break;
    default:
      if (broken_.ok()) OnOperationFrame(rank, header, payload);
      break;
  }
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
    OnAnnounced(operation, member, (header.flags & kAnswerFlag) == 0);
  } else {
    status = operation.executor().OnData(member, payload, header.bytes);
  }
  if (status.ok()) {
    StepOrFinish(name);
  } else {
    Fail(name, status.Annotate(operation.Title() + ": from rank " + std::to_string(rank)), true);
  }
}

void Conversations::OnAnnounced(Operation& operation, int member, bool answer) {
  const bool announcing = operation.announcements_due > 0;
  if (announcing && !operation.announced[member]) --operation.announcements_due;
  operation.announced[member] = 1;
  // A rank that announces waits for everybody's word; one that did not announce by itself
  // gives its word in reply.
  if (answer && !announcing) operation.SendControl(FrameType::kAnnounce, member);
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
    SendControlFrame(mesh_.link(rank), type, reply);
  } else if (type == FrameType::kConflict) {
    SendControlFrame(mesh_.link(rank), type, reply, name.finished_text);
  }
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

void Conversations::OnBye(int rank) {
  departed_[rank] = 1;
  for (auto next = pending_.begin(); next != pending_.end();) {
    Operation& operation = **next++;
    if (operation.set().members[rank] < 0 || !operation.statements.empty()) continue;
    const Status missing = MissingPeer(operation);
    if (!missing.ok()) Fail(NameOfOperation(operation), missing, true);
  }
}

void Conversations::OnClosed(int rank, const Status& why) {
  if (!departed_[rank]) Lose(rank, why.message());
}

}  // namespace tfring
