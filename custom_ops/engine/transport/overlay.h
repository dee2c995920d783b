// Which ranks are connected from the start: whole-number arithmetic alone.
//
// All others connect when they have something to say to each other. The overlay's links are
// there for the news that a rank has gone: each rank passes them on once. With neighbours at
// the distances 1, 2, 4, ... in both directions, news reach all ranks in at most log2(size)
// steps, each rank has 2 log2(size) neighbours at most, and the overlay holds together as
// long as any of a rank's neighbours is there. The partners of ring, recursive doubling,
// dissemination and binomial tree are among them, so those never wait for a connection.
#pragma once

#include <vector>

namespace tfring {

// In jobs of up to so many ranks all are neighbours.
constexpr int kFullMeshRanks = 8;

constexpr bool IsPowerOfTwo(int n) { return n > 0 && (n & (n - 1)) == 0; }

// a != b, both from 0 to size - 1.
constexpr bool AreNeighbours(int a, int b, int size) {
  const int up = (b - a + size) % size;
  return size <= kFullMeshRanks || IsPowerOfTwo(up) || IsPowerOfTwo(size - up);
}

// In ascending order.
inline std::vector<int> NeighboursOf(int rank, int size) {
  std::vector<int> neighbours;
  for (int other = 0; other < size; ++other) {
    if (other != rank && AreNeighbours(rank, other, size)) neighbours.push_back(other);
  }
  return neighbours;
}

}  // namespace tfring
