// Broadcast along a tree, in segments: a rank passes one on while it receives the next.
//
// Every rank but the root receives the buffer into its output. The root sends its input;
// copying that to its own output is the caller's business.
#pragma once

#include "collective/program.h"
#include "transport/frame.h"

namespace tfring {

enum class Tree {
  kBinomial,  // ceil(log2(size)) message delays; the root sends the buffer as often
  kChain,     // size - 1 message delays; nobody sends the buffer more than once
};

Program TreeBroadcast(Tree tree, int self, int size, int root, size_t bytes,
                      size_t max_segment_bytes = kMaxFrameBytes);

}  // namespace tfring
