// Which algorithm for which operation: the one place that knows.
//
// All ranks of an operation must choose alike, so everything it depends on is equal on all
// of them. Ranks here are indices into the process set.
#pragma once

#include <cstddef>
#include <vector>

#include "base/dtype.h"
#include "collective/barrier.h"
#include "collective/program.h"

namespace tfring {

// ---- Allreduce, the first line that fits:
//
//   one rank                                      kCopy
//   up to 16 KiB, up to 8 ranks                   kExchange
//   up to 16 KiB, not a half type                 kRecursiveDoubling
//   one host, or half type, or < 64 KiB a rank    kDirect
//   else                                          kRing
//
// One message delay costs more than copying 16 KiB a few times. On one host every pair of
// ranks has its own memory, so direct sends are best; over a network a ring crosses each
// connection least, once its 2 (size - 1) delays are small against the transfer. Half types
// stay with the algorithms that round once.
enum class AllreduceAlgorithm { kCopy, kExchange, kRecursiveDoubling, kDirect, kRing };

struct AllreduceShape {
  DType dtype = DType::kFloat32;
  size_t bytes = 0;
  int size = 1;
  bool one_host = true;  // all ranks share memory
};

AllreduceAlgorithm ChooseAllreduceAlgorithm(const AllreduceShape& shape);

Program AllreduceProgram(AllreduceAlgorithm algorithm, const AllreduceShape& shape, int self);

// Both in one.
Program ChooseAllreduce(DType dtype, size_t bytes, int self, int size, bool one_host);

// ---- The others
//
//   broadcast   up to 128 KiB a rank: a binomial tree; else a chain
//   allgather   one host, or up to 64 KiB in all: direct; else a ring
//   barrier     dissemination

Program ChooseBroadcast(size_t bytes, int self, int size, int root);

// `blocks` and the output as in allgather.h.
Program ChooseAllgather(const std::vector<size_t>& blocks, int self, bool one_host);

// On a buffer of BarrierScratchBytes(size), see barrier.h.
Program ChooseBarrier(int self, int size);

}  // namespace tfring
