#include "collective/topology.h"

#include "test.h"

namespace tfring::test {
namespace {

TEST(PartsCoverTheBufferInOrder) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1000},
                       size_t{1} << 20, (size_t{1} << 40) + 4}) {
    for (int parts : {1, 2, 3, 7, 33}) {
      size_t end = 0;
      for (int i = 0; i < parts; ++i) {
        const Range part = PartOf(bytes, parts, i);
        EXPECT_EQ(part.offset, end);
        EXPECT_TRUE(part.offset % kAlignment == 0 || part.offset == bytes);
        EXPECT_LE(part.bytes, LargestPart(bytes, parts));
        EXPECT_GE(part.bytes + 2 * kAlignment, LargestPart(bytes, parts));
        end += part.bytes;
      }
      EXPECT_EQ(end, bytes);
    }
  }
}

TEST(PartsOfAnyBufferStayWithinRange) {
  const size_t most = ~size_t{0} - kAlignment;
  EXPECT_EQ(PartOf(most, 1000, 999).offset + PartOf(most, 1000, 999).bytes, most);
  EXPECT_LT(PartOf(most, 1000, 500).offset, most);
}

TEST(SegmentsAreEqualAndNotTooLarge) {
  EXPECT_EQ(SegmentBytes(0, 4096), size_t{64});
  EXPECT_EQ(SegmentBytes(1, 4096), size_t{64});
  EXPECT_EQ(SegmentBytes(4096, 4096), size_t{4096});
  EXPECT_EQ(SegmentBytes(4097, 4096), size_t{2112});  // two of them, not 4096 and 1
  EXPECT_EQ(SegmentBytes(100 * 4096, 4096), size_t{4096});
  for (size_t bytes = 0; bytes < 20000; bytes += 37) EXPECT_LE(SegmentBytes(bytes, 4096), 4096u);
}

TEST(SegmentsCoverTheRange) {
  const Range range{128, 1000};
  EXPECT_EQ(SegmentOf(range, 384, 0).offset, size_t{128});
  EXPECT_EQ(SegmentOf(range, 384, 0).bytes, size_t{384});
  EXPECT_EQ(SegmentOf(range, 384, 2).offset, size_t{896});
  EXPECT_EQ(SegmentOf(range, 384, 2).bytes, size_t{232});
  EXPECT_EQ(SegmentOf(range, 384, 3).bytes, size_t{0});
}

TEST(WrapWorksFromBothSides) {
  EXPECT_EQ(Wrap(5, 4), 1);
  EXPECT_EQ(Wrap(-1, 4), 3);
  EXPECT_EQ(Wrap(-9, 4), 3);
  EXPECT_EQ(Wrap(0, 1), 0);
}

TEST(CeilLog2IsTheNumberOfDoublings) {
  EXPECT_EQ(CeilLog2(1), 0);
  EXPECT_EQ(CeilLog2(2), 1);
  EXPECT_EQ(CeilLog2(3), 2);
  EXPECT_EQ(CeilLog2(8), 3);
  EXPECT_EQ(CeilLog2(9), 4);
}

}  // namespace
}  // namespace tfring::test
