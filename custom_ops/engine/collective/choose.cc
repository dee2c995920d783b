#include "collective/choose.h"

#include <numeric>

#include "collective/allgather.h"
#include "collective/broadcast.h"
#include "collective/direct.h"
#include "collective/exchange.h"
#include "collective/recursive_doubling.h"
#include "collective/ring.h"

namespace tfring {
namespace {

constexpr size_t kSmallAllreduceBytes = 16 * 1024;
constexpr int kMaxExchangeRanks = 8;
constexpr size_t kMinRingPartBytes = 64 * 1024;
constexpr size_t kMaxBinomialBytesPerRank = 128 * 1024;
constexpr size_t kSmallAllgatherBytes = 64 * 1024;

// Ranks are numbered host by host: so in a ring in rank order hosts are neighbours too.
std::vector<int> RankOrder(int size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Program CopyOwnInput(size_t bytes) {
  Program program;
  if (bytes == 0) return program;
  Receive receive;
  receive.bytes = bytes;
  receive.last = true;
  program.receives.push_back(receive);
  return program;
}

}  // namespace

AllreduceAlgorithm ChooseAllreduceAlgorithm(const AllreduceShape& shape) {
  const bool small = shape.bytes <= kSmallAllreduceBytes;
  const bool half = IsHalf(shape.dtype);
  if (shape.size == 1) return AllreduceAlgorithm::kCopy;
  if (small && shape.size <= kMaxExchangeRanks) return AllreduceAlgorithm::kExchange;
  if (small && !half) return AllreduceAlgorithm::kRecursiveDoubling;
  const bool short_parts = shape.bytes / static_cast<size_t>(shape.size) < kMinRingPartBytes;
  if (shape.one_host || half || short_parts) return AllreduceAlgorithm::kDirect;
  return AllreduceAlgorithm::kRing;
}

Program AllreduceProgram(AllreduceAlgorithm algorithm, const AllreduceShape& shape, int self) {
  switch (algorithm) {
    case AllreduceAlgorithm::kCopy:
      break;
    case AllreduceAlgorithm::kExchange:
      return ExchangeAllreduce(self, shape.size, shape.bytes);
    case AllreduceAlgorithm::kRecursiveDoubling:
      return RecursiveDoublingAllreduce(self, shape.size, shape.bytes);
    case AllreduceAlgorithm::kDirect:
      // Two operands are rounded once anyway.
      return DirectAllreduce(self, shape.size, shape.bytes, IsHalf(shape.dtype) && shape.size > 2);
    case AllreduceAlgorithm::kRing:
      return RingAllreduce(self, RankOrder(shape.size), shape.bytes);
  }
  return CopyOwnInput(shape.bytes);
}

Program ChooseAllreduce(DType dtype, size_t bytes, int self, int size, bool one_host) {
  const AllreduceShape shape{dtype, bytes, size, one_host};
  return AllreduceProgram(ChooseAllreduceAlgorithm(shape), shape, self);
}

Program ChooseBroadcast(size_t bytes, int self, int size, int root) {
  const bool small = bytes / static_cast<size_t>(size) <= kMaxBinomialBytesPerRank;
  return TreeBroadcast(small ? Tree::kBinomial : Tree::kChain, self, size, root, bytes);
}

Program ChooseAllgather(const std::vector<size_t>& blocks, int self, bool one_host) {
  const size_t total = std::accumulate(blocks.begin(), blocks.end(), size_t{0});
  if (one_host || total <= kSmallAllgatherBytes) return DirectAllgather(self, blocks);
  return RingAllgather(self, RankOrder(static_cast<int>(blocks.size())), blocks);
}

Program ChooseBarrier(int self, int size) { return DisseminationBarrier(self, size); }

}  // namespace tfring
