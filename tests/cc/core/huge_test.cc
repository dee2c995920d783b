// Tensors of more than 2 GiB: no count, offset or length may be 32 bits wide.
#include <cstdint>
#include <memory>
#include <string>

#include "core/cluster.h"
#include "test.h"

namespace tfring::test {
namespace {

constexpr int64_t kCount = (int64_t{1} << 31) + 77;

TEST_WITHIN(AllreduceOfMoreThanTwoGibibytes, 600) {
  Cluster cluster(OnOneHost(2));
  cluster.Run([](Engine& engine, int rank) {
    const std::unique_ptr<uint8_t[]> values(new uint8_t[kCount]());
    const int64_t marks[] = {0, kCount / 2 - 1, kCount / 2, int64_t{1} << 31, kCount - 1};
    for (int64_t mark : marks) values[mark] = static_cast<uint8_t>(10 + rank);
    EXPECT_OK(RunRequest(engine, AllreduceRequest("huge", DType::kUInt8, ReduceOp::kSum,
                                                  values.get(), values.get(), kCount)));
    for (int64_t mark : marks) EXPECT_EQ(values[mark], uint8_t{21}) << "at " << mark;
    EXPECT_EQ(values[kCount - 2], uint8_t{0});
  });
}

}  // namespace
}  // namespace tfring::test
