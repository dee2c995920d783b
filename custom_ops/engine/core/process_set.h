// A subset of the job's ranks. Operations of different sets never meet.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/host_map.h"

namespace tfring {

struct ProcessSet {
  int64_t id = 0;            // 0: all ranks
  std::vector<int> ranks;    // members, increasing
  std::vector<int> members;  // by rank: its index in `ranks`, or -1
  int self = -1;             // this rank's index, or -1
  HostMap hosts;             // of the members, by index

  // `host_of_rank`: of all ranks of the job; see Mesh::hosts.
  static ProcessSet Of(int64_t id, const std::vector<int>& ranks, int rank,
                       const std::vector<int>& host_of_rank) {
    ProcessSet set;
    set.id = id;
    set.ranks = ranks;
    set.members.assign(host_of_rank.size(), -1);
    std::vector<int> hosts;
    for (size_t i = 0; i < ranks.size(); ++i) {
      set.members[ranks[i]] = static_cast<int>(i);
      hosts.push_back(host_of_rank[ranks[i]]);
    }
    set.hosts = HostMap(hosts);
    set.self = set.members[rank];
    return set;
  }

  int count() const { return static_cast<int>(ranks.size()); }
};

}  // namespace tfring
