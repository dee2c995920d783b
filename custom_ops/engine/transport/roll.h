// Who is here: what an assembly knows of each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/handshake.h"
#include "rendezvous/store.h"
#include "transport/assembly.h"

namespace tfring {

class Roll {
 public:
  struct Entry {
    Connection connection;
    bool up = false;          // there is a connection
    bool told = false;        // that this rank has all its connections
    bool ready = false;       // that rank has all its connections
    bool left = false;        // was up, and is not any more
    uint64_t claimed_by = 0;  // a candidate that has been let in, on its way to be up
    int refusals = 0;         // of this rank's secret by that one
    std::string problem;      // the last one
  };

  Roll(int rank, int size, int64_t generation)
      : rank_(rank), generation_(generation), entries_(static_cast<size_t>(size)) {}

  Entry& at(int rank) { return entries_[static_cast<size_t>(rank)]; }

  bool AllUp() const { return All(&Entry::up); }
  bool AllReady() const { return All(&Entry::ready); }

  // Whether the caller may be the rank that it says it is; if so, the candidate has the
  // claim to it until the rank is up or Unclaim.
  Verdict Judge(uint64_t candidate, const Identity& caller);
  void Unclaim(uint64_t candidate);

  // The rank's connection has ended.
  void Leave(int rank);

  // kTimeout, naming who is missing and why.
  Status Missing(Duration timeout) const;

  std::vector<Connection> TakeConnections();

 private:
  bool All(bool Entry::* flag) const;
  // "rank 1 (why), rank 4" of all ranks that the predicate holds for; "" when there are none.
  template <class Predicate>
  std::string Name(Predicate predicate) const;

  const int rank_;
  const int64_t generation_;
  std::vector<Entry> entries_;
};

}  // namespace tfring
