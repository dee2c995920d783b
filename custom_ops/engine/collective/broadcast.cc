#include "collective/broadcast.h"

#include <vector>

#include "collective/topology.h"

namespace tfring {
namespace {

// Nodes are ranks counted from the root, which is node 0.
int ParentOf(Tree tree, int node) { return tree == Tree::kChain ? node - 1 : node & (node - 1); }

// Those with the largest subtree first. In a binomial tree the children of a node differ
// from it in one bit below its lowest.
std::vector<int> ChildrenOf(Tree tree, int node, int size) {
  std::vector<int> children;
  if (tree == Tree::kChain) {
    if (node + 1 < size) children.push_back(node + 1);
    return children;
  }
  int bit = node == 0 ? 1 << CeilLog2(size) : node & -node;
  for (bit /= 2; bit > 0; bit /= 2) {
    if (node + bit < size) children.push_back(node + bit);
  }
  return children;
}

}  // namespace

Program TreeBroadcast(Tree tree, int self, int size, int root, size_t bytes,
                      size_t max_segment_bytes) {
  Program program;
  const int node = Wrap(self - root, size);
  const std::vector<int> children = ChildrenOf(tree, node, size);
  const size_t segment_bytes = SegmentBytes(bytes, max_segment_bytes);
  const auto segments = static_cast<int>(CeilDiv(bytes, segment_bytes));
  for (int i = 0; i < segments; ++i) {
    const Range range = SegmentOf({0, bytes}, segment_bytes, i);
    if (node != 0) {
      Receive receive;
      receive.peer = Wrap(ParentOf(tree, node) + root, size);
      receive.offset = range.offset;
      receive.bytes = range.bytes;
      program.receives.push_back(receive);
    }
    for (int child : children) {
      program.sends.push_back({Wrap(child + root, size),
                               node == 0 ? Send::From::kInput : Send::From::kOutput, range.offset,
                               range.bytes, /*after=*/node == 0 ? -1 : i});
    }
  }
  return program;
}

}  // namespace tfring
