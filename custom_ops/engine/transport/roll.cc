#include "transport/roll.h"

#include <sstream>
#include <utility>

namespace tfring {
namespace {

constexpr size_t kMostNamed = 16;

}  // namespace

bool Roll::All(bool Entry::* flag) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (static_cast<int>(i) != rank_ && !(entries_[i].*flag)) return false;
  }
  return true;
}

Verdict Roll::Judge(uint64_t candidate, const Identity& caller) {
  const auto size = static_cast<int>(entries_.size());
  if (caller.generation != generation_) return Verdict::kOtherGeneration;
  if (caller.size != size) return Verdict::kOtherSize;
  if (caller.target != rank_ || caller.rank <= rank_ || caller.rank >= size) {
    return Verdict::kBadRank;
  }
  Entry& entry = at(caller.rank);
  if (entry.up || entry.claimed_by != 0) return Verdict::kRankTaken;
  entry.claimed_by = candidate;
  return Verdict::kWelcome;
}

void Roll::Unclaim(uint64_t candidate) {
  for (Entry& entry : entries_) {
    if (entry.claimed_by == candidate) entry.claimed_by = 0;
  }
}

void Roll::Leave(int rank) {
  at(rank) = Entry();
  at(rank).left = true;
}

template <class Predicate>
std::string Roll::Name(Predicate predicate) const {
  std::ostringstream text;
  size_t named = 0;
  for (size_t rank = 0; rank < entries_.size(); ++rank) {
    const Entry& entry = entries_[rank];
    if (static_cast<int>(rank) == rank_ || !predicate(entry) || ++named > kMostNamed) continue;
    text << (named > 1 ? ", " : "") << "rank " << rank;
    if (!entry.up && !entry.problem.empty()) text << " (" << entry.problem << ")";
  }
  if (named > kMostNamed) text << " and " << named - kMostNamed << " more";
  return text.str();
}

Status Roll::Missing(Duration timeout) const {
  std::ostringstream text;
  text << "after " << static_cast<double>(timeout.count()) / 1000 << " s";
  if (AllUp()) {
    text << " these ranks still lack connections to others: "
         << Name([](const Entry& e) { return !e.ready; }) << ";";
  } else {
    // Whoever has run out of patience first is not the one to be blamed.
    const std::string missing = Name([](const Entry& e) { return !e.up && !e.left; });
    const std::string left = Name([](const Entry& e) { return !e.up && e.left; });
    if (!missing.empty()) text << " these ranks have not connected: " << missing << ";";
    if (!left.empty()) text << " these ranks were here, but have left: " << left << ";";
  }
  text << " the job has " << entries_.size() << " ranks";
  return {Code::kTimeout, text.str()};
}

std::vector<Connection> Roll::TakeConnections() {
  std::vector<Connection> connections;
  for (Entry& entry : entries_) connections.push_back(std::move(entry.connection));
  return connections;
}

}  // namespace tfring
