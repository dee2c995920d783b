// Reduce and Scale for every type, operation and instruction set, against plain loops.
#include "codec/reduce.h"

#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "codec/reference.h"
#include "test.h"

namespace tfring::test {
namespace {

struct KernelCase {
  std::string set;
  DType dtype;
  ReduceOp op;

  friend std::ostream& operator<<(std::ostream& out, const KernelCase& c) {
    return out << c.set << "_" << NameOf(c.dtype) << "_" << NameOf(c.op);
  }
};

std::vector<KernelCase> KernelCases() {
  std::vector<KernelCase> cases;
  for (const std::string& set : InstructionSets()) {
    for (int d = 0; d < kDTypeCount; ++d) {
      for (int o = 0; o < kReduceOpCount; ++o) {
        const KernelCase c{set, static_cast<DType>(d), static_cast<ReduceOp>(o)};
        if (Supports(c.dtype, c.op)) cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<size_t> Counts() {
  std::vector<size_t> counts;
  for (size_t count = 0; count < 140; ++count) counts.push_back(count);
  counts.insert(counts.end(), {255, 256, 257, 1000, 4099, 20011});
  return counts;
}

enum class Alias { kNone, kA, kB };

constexpr size_t kGuard = 64;

// Operands and result somewhere inside of larger memory, at any address; what lies around
// the result must stay.
struct Arena {
  Arena(DType dtype, size_t count, size_t shift, Alias alias)
      : bytes(count * SizeOf(dtype)),
        a_memory(kGuard + shift + bytes + kGuard, 0xaa),
        b_memory(kGuard + shift + 1 + bytes + kGuard, 0xaa),
        dst_memory(kGuard + shift + 2 + bytes + kGuard, 0xaa) {
    a = a_memory.data() + kGuard + shift;
    b = b_memory.data() + kGuard + shift + 1;
    dst = alias == Alias::kA ? a : alias == Alias::kB ? b : dst_memory.data() + kGuard + shift + 2;
  }

  bool GuardsAreWhole() const {
    for (size_t i = 1; i <= kGuard; ++i) {
      if (dst[-static_cast<std::ptrdiff_t>(i)] != 0xaa || dst[bytes + i - 1] != 0xaa) return false;
    }
    return true;
  }

  size_t bytes;
  std::vector<uint8_t> a_memory;
  std::vector<uint8_t> b_memory;
  std::vector<uint8_t> dst_memory;
  uint8_t* a;
  uint8_t* b;
  uint8_t* dst;
};

void CheckReduce(const KernelCase& c, size_t count, size_t shift, Alias alias) {
  const std::vector<uint8_t> a = MixedElements(c.dtype, count, 11);
  const std::vector<uint8_t> b = MixedElements(c.dtype, count, 12);
  std::vector<uint8_t> expected(a.size());
  ReduceReference(c.dtype, c.op, expected.data(), a.data(), b.data(), count);
  Arena arena(c.dtype, count, shift, alias);
  if (count > 0) {
    std::memcpy(arena.a, a.data(), a.size());
    std::memcpy(arena.b, b.data(), b.size());
  }
  Reduce(c.dtype, c.op, arena.dst, arena.a, arena.b, count);
  const size_t at = FirstDifference(c.dtype, arena.dst, expected.data(), count);
  EXPECT_TRUE(arena.GuardsAreWhole()) << "count " << count;
  if (at == count) return;
  const size_t offset = at * SizeOf(c.dtype);
  EXPECT_TRUE(false) << "element " << at << " of " << count << ", shift " << shift << ": "
                     << ShowElement(c.dtype, &a[offset]) << " and "
                     << ShowElement(c.dtype, &b[offset]) << " gave "
                     << ShowElement(c.dtype, arena.dst + offset) << " instead of "
                     << ShowElement(c.dtype, &expected[offset]);
}

TEST_EACH(ReduceIsRight, KernelCases()) {
  const UsingInstructionSet use(param.set);
  for (size_t count : Counts()) {
    for (Alias alias : {Alias::kNone, Alias::kA, Alias::kB}) {
      CheckReduce(param, count, /*shift=*/0, alias);
    }
  }
  for (size_t shift = 1; shift < 64; ++shift) CheckReduce(param, 131, shift, Alias::kNone);
}

// So ranks on different processors agree, and no result depends on where a vector begins.
TEST(EveryInstructionSetGivesTheSameBits) {
  const size_t count = 20011;
  for (int d = 0; d < kDTypeCount; ++d) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(o);
      if (!Supports(dtype, op)) continue;
      const std::vector<uint8_t> a = MixedElements(dtype, count, 21);
      const std::vector<uint8_t> b = MixedElements(dtype, count, 22);
      std::vector<uint8_t> first;
      for (const std::string& set : InstructionSets()) {
        const UsingInstructionSet use(set);
        std::vector<uint8_t> whole(a.size());
        Reduce(dtype, op, whole.data(), a.data(), b.data(), count);
        std::vector<uint8_t> single(a.size());
        for (size_t at = 0; at < a.size(); at += SizeOf(dtype)) {
          Reduce(dtype, op, &single[at], &a[at], &b[at], 1);
        }
        if (first.empty()) first = whole;
        EXPECT_TRUE(whole == first) << set << ", " << NameOf(dtype) << " " << NameOf(op);
        EXPECT_TRUE(single == first) << set << ", " << NameOf(dtype) << " " << NameOf(op);
      }
    }
  }
}

// On every type but bool, whose only factor is 1.
std::vector<KernelCase> ScaleCases() {
  std::vector<KernelCase> cases;
  for (const KernelCase& c : KernelCases()) {
    if (c.op == ReduceOp::kSum && c.dtype != DType::kBool) cases.push_back(c);
  }
  return cases;
}

constexpr double kFactors[] = {1, 0.5, 1.0 / 3, 1.0 / 7, 1.0 / 49, 2, -1.5, 0, 1e-3, 1e30};

TEST_EACH(ScaleIsRight, ScaleCases()) {
  const UsingInstructionSet use(param.set);
  for (double factor : kFactors) {
    for (size_t count : Counts()) {
      const std::vector<uint8_t> src = MixedElements(param.dtype, count, 13);
      std::vector<uint8_t> expected(src.size());
      ScaleReference(param.dtype, expected.data(), src.data(), factor, count);
      Arena arena(param.dtype, count, /*shift=*/1, Alias::kA);
      if (count > 0) std::memcpy(arena.a, src.data(), src.size());
      Scale(param.dtype, arena.a, arena.a, factor, count);
      const size_t at = FirstDifference(param.dtype, arena.a, expected.data(), count);
      EXPECT_TRUE(arena.GuardsAreWhole());
      if (at == count) continue;
      const size_t offset = at * SizeOf(param.dtype);
      EXPECT_TRUE(false) << ShowElement(param.dtype, &src[offset]) << " * " << factor << " gave "
                         << ShowElement(param.dtype, arena.a + offset) << " instead of "
                         << ShowElement(param.dtype, &expected[offset]);
    }
  }
}

TEST_EACH(ReduceScaledIsReduceThenScale, ScaleCases()) {
  const UsingInstructionSet use(param.set);
  if (IsHalf(param.dtype)) return;  // rounds once: see below
  for (double factor : kFactors) {
    for (size_t count : Counts()) {
      std::vector<uint8_t> a = MixedElements(param.dtype, count, 14);
      const std::vector<uint8_t> b = MixedElements(param.dtype, count, 15);
      std::vector<uint8_t> expected(a.size());
      Reduce(param.dtype, ReduceOp::kSum, expected.data(), a.data(), b.data(), count);
      Scale(param.dtype, expected.data(), expected.data(), factor, count);
      ReduceScaled(param.dtype, ReduceOp::kSum, a.data(), a.data(), b.data(), factor, count);
      EXPECT_EQ(FirstDifference(param.dtype, a.data(), expected.data(), count), count);
    }
  }
}

TEST_EACH(ReduceScaledRoundsHalfTypesOnce, InstructionSets()) {
  const UsingInstructionSet use(param);
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const size_t count = 20011;
    const std::vector<uint8_t> a = MixedElements(dtype, count, 16);
    const std::vector<uint8_t> b = MixedElements(dtype, count, 17);
    std::vector<float> wide(count);
    Widen(dtype, wide.data(), a.data(), count);
    AccumulateWide(dtype, ReduceOp::kSum, wide.data(), b.data(), count);
    std::vector<uint8_t> expected(a.size());
    Narrow(dtype, expected.data(), wide.data(), 0.5, count);
    std::vector<uint8_t> result(a.size());
    ReduceScaled(dtype, ReduceOp::kSum, result.data(), a.data(), b.data(), 0.5, count);
    EXPECT_EQ(FirstDifference(dtype, result.data(), expected.data(), count), count);
  }
}

TEST_EACH(AveragesOfIntegersAreExact, InstructionSets()) {
  const UsingInstructionSet use(param);
  for (int64_t n = 1; n < 600; ++n) {
    std::vector<int64_t> longs;
    std::vector<int32_t> ints;
    for (int64_t quotient : {int64_t{1}, int64_t{-1}, int64_t{3037000499}, int64_t{-77},
                             std::numeric_limits<int64_t>::max() / n / 2}) {
      for (int64_t rest : {-1, 0, 1}) {
        longs.push_back(quotient * n + rest);
        ints.push_back(static_cast<int32_t>(quotient % 1000000 * n + rest));
      }
    }
    std::vector<int64_t> long_averages(longs.size());
    std::vector<int32_t> int_averages(ints.size());
    const double factor = 1.0 / static_cast<double>(n);
    Scale(DType::kInt64, long_averages.data(), longs.data(), factor, longs.size());
    Scale(DType::kInt32, int_averages.data(), ints.data(), factor, ints.size());
    for (size_t i = 0; i < longs.size(); ++i) EXPECT_EQ(long_averages[i], longs[i] / n);
    for (size_t i = 0; i < ints.size(); ++i) EXPECT_EQ(int_averages[i], ints[i] / n);
  }
}

TEST_EACH(ScaledIntegersStayInTheirRange, InstructionSets()) {
  const UsingInstructionSet use(param);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<int8_t> bytes = {100, -100, 0};
  std::vector<int8_t> byte_result(3);
  Scale(DType::kInt8, byte_result.data(), bytes.data(), 2, 3);
  EXPECT_TRUE((byte_result == std::vector<int8_t>{127, -128, 0}));
  Scale(DType::kInt8, byte_result.data(), bytes.data(), nan, 3);
  EXPECT_TRUE((byte_result == std::vector<int8_t>{0, 0, 0}));
  const std::vector<uint8_t> unsigned_bytes = {200, 3};
  std::vector<uint8_t> unsigned_result(2);
  Scale(DType::kUInt8, unsigned_result.data(), unsigned_bytes.data(), -1, 2);
  EXPECT_TRUE((unsigned_result == std::vector<uint8_t>{0, 0}));
  const std::vector<int64_t> longs = {int64_t{1} << 62, -(int64_t{1} << 62)};
  std::vector<int64_t> long_result(2);
  Scale(DType::kInt64, long_result.data(), longs.data(), 4, 2);
  EXPECT_EQ(long_result[0], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(long_result[1], std::numeric_limits<int64_t>::min());
}

TEST_EACH(AnyByteButZeroIsTrue, InstructionSets()) {
  const UsingInstructionSet use(param);
  const std::vector<uint8_t> a = {0, 0, 2, 2, 255, 1};
  const std::vector<uint8_t> b = {0, 4, 0, 4, 128, 1};
  std::vector<uint8_t> result(a.size());
  Reduce(DType::kBool, ReduceOp::kSum, result.data(), a.data(), b.data(), a.size());
  EXPECT_TRUE((result == std::vector<uint8_t>{0, 1, 1, 1, 1, 1}));
  Reduce(DType::kBool, ReduceOp::kProduct, result.data(), a.data(), b.data(), a.size());
  EXPECT_TRUE((result == std::vector<uint8_t>{0, 0, 0, 1, 1, 1}));
  Scale(DType::kBool, result.data(), result.data(), 1, result.size());
  EXPECT_TRUE((result == std::vector<uint8_t>{0, 0, 0, 1, 1, 1}));
}

TEST(SupportsAllButTheAverageOfBool) {
  for (int d = 0; d < kDTypeCount; ++d) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(o);
      const bool average_of_bool = dtype == DType::kBool && op == ReduceOp::kAverage;
      EXPECT_EQ(Supports(dtype, op), !average_of_bool);
    }
  }
}

TEST(TheKernelsHaveAName) {
  bool known = false;
  for (const std::string& set : InstructionSets()) known |= set == KernelName();
  EXPECT_TRUE(known) << KernelName();
}

}  // namespace
}  // namespace tfring::test
