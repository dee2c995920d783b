#include "collective/recursive_doubling.h"

namespace tfring {
namespace {

int FloorPowerOfTwo(int n) {
  int power = 1;
  while (power <= n / 2) power *= 2;
  return power;
}

// The ranks that take part in the doubling are numbered anew: those of pairs first.
int NumberOf(int rank, int pairs) { return rank < 2 * pairs ? rank / 2 : rank - pairs; }
int RankOf(int number, int pairs) { return number < pairs ? 2 * number + 1 : number + pairs; }

Receive WholeBuffer(int peer, Receive::Action action, size_t bytes) {
  Receive receive;
  receive.peer = peer;
  receive.action = action;
  receive.bytes = bytes;
  return receive;
}

}  // namespace

Program RecursiveDoublingAllreduce(int self, int size, size_t bytes) {
  Program program;
  if (bytes == 0) return program;
  const int active = FloorPowerOfTwo(size);
  const int pairs = size - active;
  const bool paired = self < 2 * pairs;
  if (paired && self % 2 == 0) {
    program.sends.push_back({self + 1, Send::From::kInput, 0, bytes, /*after=*/-1});
    program.receives.push_back(WholeBuffer(self + 1, Receive::Action::kCopy, bytes));
    return program;
  }
  if (paired) {
    Receive receive = WholeBuffer(self - 1, Receive::Action::kReduceFirst, bytes);
    receive.data_left = true;
    program.receives.push_back(receive);
  }
  const int number = NumberOf(self, pairs);
  for (int bit = 1; bit < active; bit *= 2) {
    const int partner = RankOf(number ^ bit, pairs);
    const int done = static_cast<int>(program.receives.size()) - 1;
    const bool have_partial = done >= 0;
    program.sends.push_back({partner, have_partial ? Send::From::kOutput : Send::From::kInput, 0,
                             bytes, /*after=*/done});
    Receive receive = WholeBuffer(
        partner, have_partial ? Receive::Action::kReduce : Receive::Action::kReduceFirst, bytes);
    receive.data_left = (number & bit) != 0;
    receive.last = 2 * bit == active;
    receive.after = done;
    // What has just been sent is overwritten.
    receive.after_sends = static_cast<int>(program.sends.size());
    program.receives.push_back(receive);
  }
  if (paired) {
    const int done = static_cast<int>(program.receives.size()) - 1;
    program.sends.push_back({self - 1, Send::From::kOutput, 0, bytes, /*after=*/done});
  }
  return program;
}

}  // namespace tfring
