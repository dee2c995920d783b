// Ranks that asked for different things under one name.
//
// Whoever notices tells every member what it asked for itself; each does the same once.
// So every rank can fail with the whole picture. One that has not submitted by the end of
// a short grace is named as such, and fails when it submits.
#include <utility>

#include "core/conversations.h"

namespace tfring {

void Conversations::StartConflict(Name& name) {
  Operation& operation = *name.active;
  const int self = operation.set().self;
  if (operation.statements.count(self) != 0) return;
  operation.executor().ReleaseLinks();
  const std::string own = Describe(operation.request());
  operation.conflict_since = Clock::now();
  operation.SendControlToAll(FrameType::kConflict, own);
  AddStatement(name, self, own);
}

void Conversations::AddStatement(Name& name, int member, const std::string& text) {
  Operation& operation = *name.active;
  operation.statements[member] = text;
  if (static_cast<int>(operation.statements.size()) == operation.set().count()) {
    CloseConflict(name);
  }
}

void Conversations::CloseConflict(Name& name) {
  Operation& operation = *name.active;
  const ProcessSet& set = operation.set();
  std::map<std::string, std::string> ranks_by_text;
  for (int member = 0; member < set.count(); ++member) {
    const auto found = operation.statements.find(member);
    const std::string text =
        found == operation.statements.end() ? "not submitted yet" : found->second;
    std::string& ranks = ranks_by_text[text];
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(set.ranks[member]);
  }
  std::string message = operation.Title() + ": the ranks asked for different things: ";
  bool first = true;
  for (const auto& [text, ranks] : ranks_by_text) {
    message += (first ? "rank " : "; rank ") + ranks + ": " + text;
    first = false;
  }
  if (ranks_by_text.size() == 1) message += " (they differ in a tensor not listed here)";
  Fail(name, Status(Code::kMismatch, std::move(message)), false);
}

}  // namespace tfring
