// How the members of a process set come to know that all have submitted an operation, and
// with one description, by announcements.
//
// In a set of up to kAllAtOnce members each tells all others. In a larger one they tell it in
// rounds, as in a dissemination barrier: in round k a member announces to the one 2^k behind
// it, once it has heard what earlier rounds have to bring; an announcement then speaks for
// 2^k members. So each sends and receives log2(size) of them, and needs no connection that a
// barrier would not need.
//
// All members take part once one has begun, also one that has no need to know.
#pragma once

#include <cstdint>
#include <vector>

namespace tfring {

class Agreement {
 public:
  static constexpr int kAllAtOnce = 8;

  // `self` among `count` members.
  Agreement(int self, int count);

  // The members to announce to now; each is given once.
  std::vector<int> TakeTargets();

  // For another operation.
  void Renew() {
    sent_ = 0;
    heard_ = 0;
  }

  // An announcement of that member has come.
  void Hear(int member);

  // Whether an announcement of that member is still expected.
  bool expects(int member) const;

  bool begun() const { return sent_ > 0; }
  bool complete() const { return sent_ == rounds() && heard_ == AllRounds(); }

 private:
  int rounds() const { return static_cast<int>(distances_.size()); }
  uint32_t AllRounds() const { return (uint32_t{1} << rounds()) - 1; }
  // The round in which the member announces to this one; -1: in none.
  int RoundOf(int member) const;

  int self_;
  int count_;
  bool in_turn_;                // a round waits for those before it
  std::vector<int> distances_;  // by round: from a member to the one that it tells
  int sent_ = 0;                // rounds
  uint32_t heard_ = 0;          // a bit for each round
};

}  // namespace tfring
