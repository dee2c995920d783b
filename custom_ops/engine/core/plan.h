// A program sorted by peer, ready to be executed. Made once for an operation that is repeated.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "collective/program.h"
#include "core/process_set.h"

namespace tfring {

struct Plan {
  struct Peer {
    std::vector<int> sends;     // indices into the program, in order
    std::vector<int> receives;  // likewise
    size_t expected = 0;        // bytes of all receives
  };

  Plan(Program made, int members) : program(std::move(made)), peers(members) {
    for (size_t i = 0; i < program.sends.size(); ++i) {
      peers[program.sends[i].peer].sends.push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < program.receives.size(); ++i) {
      Peer& peer = peers[program.receives[i].peer];
      peer.receives.push_back(static_cast<int>(i));
      peer.expected += program.receives[i].bytes;
    }
  }

  Program program;
  std::vector<Peer> peers;  // by member
};

// The plan of a name's latest allreduce, and all that it depends on.
struct AllreducePlan {
  std::shared_ptr<const ProcessSet> set;
  DType dtype = DType::kUInt8;
  size_t bytes = 0;
  std::shared_ptr<const Plan> plan;

  bool Fits(const std::shared_ptr<const ProcessSet>& other_set, DType other_dtype,
            size_t other_bytes) const {
    return plan != nullptr && set == other_set && dtype == other_dtype && bytes == other_bytes;
  }
};

}  // namespace tfring
