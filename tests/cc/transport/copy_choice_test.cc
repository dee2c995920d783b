#include "transport/shm/copy_choice.h"

#include "test.h"

namespace tfring {
namespace test {
namespace {

// Copies for a while where the ways cost so much; returns how many were cached.
int CachedOf(CopyChoice& choice, int copies, int cached_ns, int streamed_ns) {
  int cached = 0;
  for (int i = 0; i < copies; ++i) {
    const CopyChoice::Way way = choice.Next();
    cached += way == CopyChoice::kCached ? 1 : 0;
    const int cost = way == CopyChoice::kCached ? cached_ns : streamed_ns;
    choice.Took(way, 1, std::chrono::nanoseconds(cost));
  }
  return cached;
}

TEST(CopyChoiceTakesTheFasterWay) {
  CopyChoice choice;
  EXPECT_LT(900, CachedOf(choice, 1000, 10, 15));
  CopyChoice other;
  EXPECT_LT(CachedOf(other, 1000, 50, 15), 100);
}

TEST(CopyChoiceFollowsAChange) {
  CopyChoice choice;
  CachedOf(choice, 1000, 10, 15);
  EXPECT_LT(CachedOf(choice, 1000, 50, 15), 100) << "the cores have moved apart";
  EXPECT_LT(600, CachedOf(choice, 1000, 10, 15)) << "and back";
}

TEST(CopyChoiceIgnoresAnInterruption) {
  CopyChoice choice;
  CachedOf(choice, 1000, 10, 15);
  const CopyChoice::Way way = choice.Next();
  choice.Took(way, 1, std::chrono::milliseconds(5));
  EXPECT_LT(80, CachedOf(choice, 100, 10, 15));
}

}  // namespace
}  // namespace test
}  // namespace tfring
