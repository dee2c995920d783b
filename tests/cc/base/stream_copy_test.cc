#include "base/stream_copy.h"

#include <vector>

#include "test.h"

namespace tfring {
namespace test {
namespace {

TEST(StreamCopyCopiesAtAnyAlignment) {
  std::vector<uint8_t> from(1024);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 7 + 1);
  for (size_t to_skip = 0; to_skip < 65; to_skip += 13) {
    for (size_t from_skip = 0; from_skip < 65; from_skip += 11) {
      for (size_t bytes :
           {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{130}, size_t{900}}) {
        std::vector<uint8_t> to(1100, 0);
        StreamCopy(to.data() + to_skip, from.data() + from_skip, bytes);
        for (size_t i = 0; i < to.size(); ++i) {
          const bool copied = i >= to_skip && i < to_skip + bytes;
          const uint8_t expected = copied ? from[from_skip + i - to_skip] : 0;
          ASSERT_TRUE(to[i] == expected)
              << bytes << " bytes from " << from_skip << " to " << to_skip << ": byte " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace test
}  // namespace tfring
