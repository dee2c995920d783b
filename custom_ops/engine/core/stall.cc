// Operations that some ranks never submit.
//
// When one has been pending for the warning time, the members not heard of are asked
// whether they have submitted it; the warning names those that have not. With a shutdown
// time set, the operation then fails on every rank.
#include "core/conversations.h"

namespace tfring {
namespace {

constexpr std::chrono::seconds kAnswerTime{1};

std::string Seconds(double seconds) { return std::to_string(static_cast<int>(seconds)) + " s"; }

}  // namespace

void Conversations::CheckStall(Name& name, TimePoint now) {
  Operation& operation = *name.active;
  const bool warn = options_.stall_warning.count() > 0 && now >= operation.next_stall_report;
  const bool expired =
      options_.stall_shutdown.count() > 0 && now >= operation.submitted() + options_.stall_shutdown;
  if (!warn && !expired) return;
  if (!operation.queried) {
    operation.queried = true;
    operation.stall_answers_due = now + kAnswerTime;
    for (int member = 0; member < operation.set().count(); ++member) {
      if (member != operation.set().self && !operation.heard[member]) {
        operation.SendControl(FrameType::kQuery, member);
      }
    }
    return;
  }
  if (now < operation.stall_answers_due) return;
  const std::string missing = MissingRanks(operation);
  const std::string text = operation.Title() + " has been pending for " +
                           Seconds(SecondsBetween(operation.submitted(), now)) + ": " +
                           (missing.empty() ? "all ranks have submitted it, but data is missing"
                                            : "not submitted by rank " + missing);
  if (expired) {
    Fail(name, Status(Code::kStalled, text), true);
    return;
  }
  RecordMessage(LogLevel::kWarning, text);
  operation.queried = false;
  operation.next_stall_report = now + options_.stall_warning;
}

void Conversations::OnAnswer(Name& name, int rank, bool submitted) {
  const int member = name.active->set().members[rank];
  if (member >= 0 && submitted) name.active->heard[member] = 1;
}

std::string Conversations::MissingRanks(const Operation& operation) const {
  const ProcessSet& set = operation.set();
  std::string ranks;
  for (int member = 0; member < set.count(); ++member) {
    if (member == set.self || operation.heard[member]) continue;
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(set.ranks[member]);
  }
  return ranks;
}

}  // namespace tfring
