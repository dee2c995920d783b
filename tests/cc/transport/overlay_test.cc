#include "transport/overlay.h"

#include <algorithm>
#include <vector>

#include "collective/topology.h"
#include "test.h"

namespace tfring {
namespace test {
namespace {

// In how many steps news of rank 0 reach everybody who is there; -1: not all.
int StepsToReachAll(int size, const std::vector<char>& gone) {
  std::vector<int> steps(static_cast<size_t>(size), -1);
  std::vector<int> front{0};
  steps[0] = 0;
  int last = 0;
  while (!front.empty()) {
    std::vector<int> next;
    for (int rank : front) {
      for (int neighbour : NeighboursOf(rank, size)) {
        const auto at = static_cast<size_t>(neighbour);
        if (steps[at] >= 0 || gone[at]) continue;
        steps[at] = last = steps[static_cast<size_t>(rank)] + 1;
        next.push_back(neighbour);
      }
    }
    front = next;
  }
  for (size_t rank = 0; rank < steps.size(); ++rank) {
    if (steps[rank] < 0 && !gone[rank]) return -1;
  }
  return last;
}

TEST(OverlayConnectsAllRanksOfSmallJobs) {
  for (int size = 1; size <= kFullMeshRanks; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(NeighboursOf(rank, size).size(), static_cast<size_t>(size - 1));
    }
  }
}

TEST(OverlayIsSparseMutualAndShallow) {
  for (const int size : {9, 16, 17, 33, 64, 100, 255, 1000}) {
    for (int rank = 0; rank < size; ++rank) {
      const std::vector<int> neighbours = NeighboursOf(rank, size);
      EXPECT_LE(static_cast<int>(neighbours.size()), 2 * CeilLog2(size));
      for (int neighbour : neighbours) EXPECT_TRUE(AreNeighbours(neighbour, rank, size));
      EXPECT_TRUE(AreNeighbours(rank, (rank + 1) % size, size));
    }
    const std::vector<char> nobody(static_cast<size_t>(size), 0);
    EXPECT_LE(StepsToReachAll(size, nobody), CeilLog2(size));
  }
}

TEST(OverlayHoldsTogetherWhenRanksGo) {
  for (const int size : {16, 33, 64}) {
    for (int first = 1; first < size; ++first) {
      for (int second = first; second < size; ++second) {
        std::vector<char> gone(static_cast<size_t>(size), 0);
        gone[static_cast<size_t>(first)] = gone[static_cast<size_t>(second)] = 1;
        EXPECT_TRUE(StepsToReachAll(size, gone) > 0) << first << " and " << second;
      }
    }
  }
}

}  // namespace
}  // namespace test
}  // namespace tfring
