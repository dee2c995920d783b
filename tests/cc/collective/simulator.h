// Runs the programs of all ranks against each other without any transport, in an order of
// events that a schedule chooses: as unkind as an executor and links may be, but not more.
//
// A send may leave once the receive that it waits for is complete and the sends before it
// to the same peer have left; only then is its memory read. What has left may arrive at any
// time, in order on each link. A receive is done when its bytes are there and what it waits
// for has happened.
#pragma once

#include <cstdint>
#include <deque>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "collective/program.h"
#include "core/flat_buffer.h"
#include "core/reducer.h"

namespace tfring::test {

enum class Schedule {
  kRandom,
  kSendsLate,      // nothing leaves while anything can be received: overwrites come early
  kSendsEarly,     // everything leaves at once and piles up
  kSlowRank,       // one rank moves only when no other can
  kSlowLink,       // one link delivers only when nothing else can happen
  kLastRankFirst,  // the highest rank that can move does
};
constexpr Schedule kSchedules[] = {Schedule::kRandom,     Schedule::kSendsLate,
                                   Schedule::kSendsEarly, Schedule::kSlowRank,
                                   Schedule::kSlowLink,   Schedule::kLastRankFirst};

std::ostream& operator<<(std::ostream& out, Schedule schedule);

class Simulator {
 public:
  // One rank's memory; `input` may be `output`.
  struct Memory {
    const uint8_t* input;
    uint8_t* output;
    size_t bytes;
  };

  // All ranks' programs, memories, and how they reduce (mere bytes if nothing is said).
  Simulator(std::vector<Program> programs, const std::vector<Memory>& memories,
            DType dtype = DType::kUInt8, ReduceOp op = ReduceOp::kSum, double factor = 1);

  // Runs to the end once; "" or what went wrong: a deadlock, with who waits for what; a
  // message of the wrong size; one that nobody receives.
  std::string Run(Schedule schedule, uint32_t seed);

  // Whether this rank's program came to its end.
  bool Done(int rank) const;

 private:
  struct Event {
    int rank;
    int peer;
    bool is_send;
  };
  struct Lane {              // of a rank, for one peer
    std::vector<int> sends;  // indices into the program
    std::vector<int> receives;
    size_t next_send = 0;
    size_t next_receive = 0;
    std::deque<std::vector<uint8_t>> arriving;  // have left the peer, for this rank
  };
  struct Rank {
    Program program;
    FlatBuffer buffer;
    Reducer reducer;
    std::vector<Lane> lanes;
    std::vector<char> received;
    std::vector<char> left;
    size_t first_not_left = 0;
  };

  bool Enabled(const Event& event);
  int Cost(const Event& event) const;
  void Depart(const Event& event);
  std::string Deliver(const Event& event);
  std::string Unfinished();

  Schedule schedule_ = Schedule::kRandom;
  Event slow_{};
  std::vector<Rank> ranks_;
};

}  // namespace tfring::test
