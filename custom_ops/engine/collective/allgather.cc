#include "collective/allgather.h"

#include "collective/topology.h"

namespace tfring {

Program DirectAllgather(int self, const std::vector<size_t>& blocks) {
  Program program;
  const int size = static_cast<int>(blocks.size());
  std::vector<size_t> offsets(blocks.size(), 0);
  for (int rank = 1; rank < size; ++rank) offsets[rank] = offsets[rank - 1] + blocks[rank - 1];
  for (int distance = 1; distance < size; ++distance) {
    const int to = Wrap(self - distance, size);
    const int from = Wrap(self + distance, size);
    if (blocks[self] > 0) {
      program.sends.push_back({to, Send::From::kOutput, offsets[self], blocks[self], -1});
    }
    if (blocks[from] > 0) {
      Receive receive;
      receive.peer = from;
      receive.offset = offsets[from];
      receive.bytes = blocks[from];
      program.receives.push_back(receive);
    }
  }
  return program;
}

}  // namespace tfring
