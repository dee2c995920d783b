// A subset of the job's ranks. Operations of different sets never meet.
#pragma once

#include <cstdint>
#include <vector>

namespace tfring {

struct ProcessSet {
  int64_t id = 0;            // 0: all ranks
  std::vector<int> ranks;    // members, increasing
  std::vector<int> members;  // by rank: its index in `ranks`, or -1
  int self = -1;             // this rank's index, or -1

  static ProcessSet Of(int64_t id, const std::vector<int>& ranks, int rank, int size) {
    ProcessSet set;
    set.id = id;
    set.ranks = ranks;
    set.members.assign(size, -1);
    for (size_t i = 0; i < ranks.size(); ++i) set.members[ranks[i]] = static_cast<int>(i);
    set.self = set.members[rank];
    return set;
  }

  int count() const { return static_cast<int>(ranks.size()); }
};

}  // namespace tfring
