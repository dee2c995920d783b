#include "core/conversations.h"

#include <cstring>
#include <utility>

#include "core/control_frame.h"

namespace tfring {
namespace {

constexpr std::chrono::milliseconds kCheckInterval{100};

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
      watched_(options.size, 0),
      last_heard_(options.size) {
  for (int rank : mesh.neighbours()) watched_[rank] = 1;
  RecordLife(RecordType::kStart);
}

// ---- Submission ------------------------------------------------------------------------

void Conversations::Begin(Request&& request, std::shared_ptr<const ProcessSet> set,
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
    RefuseDuplicate(name, request, *set, occurrence);
    return;
  }
  name.active = std::move(name.spare);
  if (name.active == nullptr || name.active->shared_set() != set) {
    name.active = std::make_unique<Operation>(std::move(set), mesh_, options_.algorithms);
  }
  name.active->Renew(std::move(request), occurrence, submitted);
  Operation& operation = *name.active;
  if (Recording()) RecordBegin(operation);
  operation.position = pending_.insert(pending_.end(), &operation);
  operation.next_stall_report = submitted + options_.stall_warning;
  if (operation.request().kind == Kind::kAllreduce) {
    if (pending_allreduces_++ == 0) busy_since_ = submitted;
    last_allreduce_submitted_ = submitted;
  }
  if (first || operation.digest() != name.digest) {
    operation.needs_agreement = true;
    operation.Announce();
  }
  name.digest = operation.digest();
  const Status status = operation.Begin(name.plan);
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
    if (peer.announced) {
      operation.agreement.Hear(member);
      operation.Announce();
    }
    for (const Bytes& data : peer.data) {
      const Status status = operation.executor().OnData(member, data.data(), data.size(), false);
      if (!status.ok()) {
        Fail(name, status, true);
        return;
      }
    }
  }
  StepOrFinish(name);
}

void Conversations::RefuseDuplicate(Name& name, const Request& request, const ProcessSet& set,
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
  if (!departures_.empty()) SpreadDepartures();
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
  } else if (operation.done() && (!operation.needs_agreement || operation.agreement.complete())) {
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
    const bool agreement_due = operation.needs_agreement && operation.agreement.expects(member);
    if (!agreement_due && !operation.executor().needs(member)) continue;
    return {Code::kPeerLost, operation.Title() + ": rank " + std::to_string(set.ranks[member]) +
                                 " has shut down (its program ended or called shutdown) and "
                                 "takes no part in it"};
  }
  return Status::Ok();
}

void Conversations::Fail(Name& name, const Status& status, bool tell_others) {
  Operation& operation = *name.active;
  if (tell_others) operation.SendControlToAll(FrameType::kAbort, AbortPayload(status));
  Finish(name, status);
}

void Conversations::Finish(Name& name, const Status& status) {
  std::unique_ptr<Operation> operation = std::move(name.active);
  const TimePoint now = Clock::now();
  pending_.erase(operation->position);
  if (name.finished_text.empty() || name.finished_digest != operation->digest()) {
    name.finished_digest = operation->digest();
    name.finished_text = Describe(operation->request());
  }
  if (name.set != operation->shared_set()) name.set = operation->shared_set();
  if (!status.ok()) operation->executor().ReleaseLinks();
  const Agreement& agreement = operation->agreement;
  if (status.ok() && agreement.begun() && !agreement.complete()) {
    name.agreements.emplace(operation->occurrence(), agreement);
  }
  counters_.Change([&](CounterValues& values) {
    values.sent_bytes += operation->executor().sent_bytes();
    values.received_bytes += operation->executor().received_bytes();
    ++(status.ok() ? values.operations : values.failures);
    if (operation->request().kind == Kind::kAllreduce) CountAllreduce(*operation, now, values);
  });
  if (operation->times() != nullptr) RecordEnd(*operation, status, now);
  const auto done = operation->TakeDone();
  if (status.ok()) name.spare = std::move(operation);
  done(status);
}

void Conversations::CountAllreduce(const Operation& operation, TimePoint now,
                                   CounterValues& values) {
  ++values.allreduce_operations;
  values.allreduce_bytes += operation.bytes();
  values.allreduce_seconds += SecondsBetween(operation.submitted(), now);
  if (operation.all_started() > operation.submitted()) {
    values.wait_seconds += SecondsBetween(operation.submitted(), operation.all_started());
  }
  if (--pending_allreduces_ > 0) return;
  values.allreduce_busy_seconds += SecondsBetween(busy_since_, now);
  values.allreduce_tail_seconds = SecondsBetween(last_allreduce_submitted_, now);
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
  RecordMessage(LogLevel::kError, broken_.message());
  on_broken_(broken_);
  std::string payload(4, '\0');
  const int32_t lost = rank;
  std::memcpy(payload.data(), &lost, sizeof(lost));
  payload += reason;
  SendToConnected(FrameType::kLost, payload);  // the lost one too: it may be alive and not know
  departed_[rank] = 1;
  if (!mesh_.in_touch(rank)) mesh_.Dismiss(rank);
  FailAll(broken_);
}

void Conversations::Interrupt(const Status& why) {
  if (!broken_.ok()) return;
  broken_ = why;
  on_broken_(broken_);
  SendToConnected(FrameType::kInterrupted, why.message());
  FailAll(broken_);
}

void Conversations::ShutDown() {
  RecordLife(RecordType::kShutDown);
  const Status status(Code::kShutDown, "shutdown was called while it was pending");
  FailAll(status);
  if (broken_.ok()) broken_ = Status(Code::kShutDown, "the engine has shut down");
  SpreadDepartures();
  SendToConnected(FrameType::kBye, "");
}

void Conversations::SendToConnected(FrameType type, const std::string& payload) {
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    if (rank == mesh_.rank() || departed_[rank] || !mesh_.in_touch(rank)) continue;
    SendControlFrame(mesh_.link(rank), type, FrameHeader(), payload);
  }
}

void Conversations::CheckTime(TimePoint now) {
  if (now < next_check_) return;
  next_check_ = now + kCheckInterval;
  CheckLeaving();
  AskClock(now);
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

}  // namespace tfring
