#include "collective/barrier.h"

#include "collective/topology.h"

namespace tfring {

size_t BarrierScratchBytes(int size) { return 1 + static_cast<size_t>(CeilLog2(size)); }

Program DisseminationBarrier(int self, int size) {
  Program program;
  for (int round = 0; (1 << round) < size; ++round) {
    const int distance = 1 << round;
    program.sends.push_back(
        {Wrap(self + distance, size), Send::From::kInput, 0, 1, /*after=*/round - 1});
    Receive receive;
    receive.peer = Wrap(self - distance, size);
    receive.offset = 1 + static_cast<size_t>(round);
    receive.bytes = 1;
    receive.after = round - 1;
    program.receives.push_back(receive);
  }
  return program;
}

}  // namespace tfring
