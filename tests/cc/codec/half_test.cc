// float16 and bfloat16 against float32: every half number, and every way to round to one.
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "codec/reduce.h"
#include "codec/reference.h"
#include "test.h"

namespace tfring::test {
namespace {

constexpr DType kHalfTypes[] = {DType::kFloat16, DType::kBFloat16};

std::vector<uint16_t> AllHalves() {
  std::vector<uint16_t> all(65536);
  std::iota(all.begin(), all.end(), uint16_t{0});
  return all;
}

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Half numbers, what lies half-way between neighbours, and the floats next to those.
std::vector<float> RoundingCases(DType dtype) {
  std::vector<float> cases;
  for (uint32_t half = 0; half < 65536; ++half) {
    const float low = WidenReference(dtype, static_cast<uint16_t>(half));
    const float high = WidenReference(dtype, static_cast<uint16_t>(half + 1));
    if (!std::isfinite(low)) continue;
    const float middle = std::isfinite(high) ? low + (high - low) / 2 : low * 1.0005f;
    for (float value : {low, middle}) {
      cases.push_back(value);
      cases.push_back(std::nextafter(value, INFINITY));
      cases.push_back(std::nextafter(value, -INFINITY));
    }
  }
  return cases;
}

std::vector<float> RandomBits(size_t count) {
  std::mt19937 random(7);
  std::vector<float> values(count);
  for (float& value : values) value = FloatOf(random());
  return values;
}

TEST_EACH(EveryHalfWidens, InstructionSets()) {
  const UsingInstructionSet use(param);
  const std::vector<uint16_t> halves = AllHalves();
  std::vector<float> wide(halves.size());
  for (DType dtype : kHalfTypes) {
    Widen(dtype, wide.data(), halves.data(), halves.size());
    for (size_t i = 0; i < halves.size(); ++i) {
      const float expected = WidenReference(dtype, halves[i]);
      const bool same = std::isnan(expected)
                            ? std::isnan(wide[i]) && std::signbit(wide[i]) == (i >= 0x8000)
                            : BitsOf(wide[i]) == BitsOf(expected);
      EXPECT_TRUE(same) << NameOf(dtype) << " " << i << " gave " << wide[i];
    }
  }
}

TEST_EACH(EveryHalfSurvivesWideningAndNarrowing, InstructionSets()) {
  const UsingInstructionSet use(param);
  const std::vector<uint16_t> halves = AllHalves();
  std::vector<float> wide(halves.size());
  std::vector<uint16_t> back(halves.size());
  for (DType dtype : kHalfTypes) {
    const uint16_t quiet = dtype == DType::kFloat16 ? 0x0200 : 0x0040;
    Widen(dtype, wide.data(), halves.data(), halves.size());
    Narrow(dtype, back.data(), wide.data(), 1, wide.size());
    for (size_t i = 0; i < halves.size(); ++i) {
      const bool is_nan = std::isnan(wide[i]);
      const int expected = is_nan ? halves[i] | quiet : halves[i];
      EXPECT_EQ(static_cast<int>(back[i]), expected) << NameOf(dtype) << " " << i;
    }
  }
}

TEST_EACH(NarrowRoundsToNearestEven, InstructionSets()) {
  const UsingInstructionSet use(param);
  for (DType dtype : kHalfTypes) {
    std::vector<float> values = RoundingCases(dtype);
    const std::vector<float> more = RandomBits(1 << 20);
    values.insert(values.end(), more.begin(), more.end());
    std::vector<uint16_t> halves(values.size());
    Narrow(dtype, halves.data(), values.data(), 1, values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t expected = NarrowReference(dtype, values[i]);
      if (SameElement(dtype, &halves[i], &expected)) continue;
      EXPECT_EQ(halves[i], expected) << NameOf(dtype) << " of " << BitsOf(values[i]);
    }
  }
}

TEST(NarrowGivesTheSameBitsOnEveryInstructionSet) {
  const std::vector<float> values = RandomBits(1 << 21);  // NaN of every kind among them
  for (DType dtype : kHalfTypes) {
    std::vector<uint16_t> first;
    for (const std::string& set : InstructionSets()) {
      const UsingInstructionSet use(set);
      std::vector<uint16_t> halves(values.size());
      Narrow(dtype, halves.data(), values.data(), 1, values.size());
      if (first.empty()) first = halves;
      EXPECT_TRUE(halves == first) << NameOf(dtype) << " on " << set;
    }
  }
}

TEST_EACH(NarrowScalesBeforeItRounds, InstructionSets()) {
  const UsingInstructionSet use(param);
  // The sum is beyond float16's largest number, the average is not.
  const std::vector<float> sums(37, 3 * 40000.0f);
  std::vector<uint16_t> halves(sums.size());
  Narrow(DType::kFloat16, halves.data(), sums.data(), 1.0 / 3, sums.size());
  for (uint16_t half : halves) EXPECT_EQ(WidenReference(DType::kFloat16, half), 40000.0f);
}

TEST_EACH(AccumulateWideKeepsWhatHalfWouldLose, InstructionSets()) {
  const UsingInstructionSet use(param);
  for (DType dtype : kHalfTypes) {
    for (size_t count = 0; count < 70; ++count) {
      std::vector<float> sum(count + 1, 2048.0f);
      sum[count] = -1;  // must stay
      const std::vector<uint16_t> ones(count, NarrowReference(dtype, 1.0f));
      for (int i = 0; i < 3; ++i)
        AccumulateWide(dtype, ReduceOp::kSum, sum.data(), ones.data(), count);
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(sum[i], 2051.0f);
      EXPECT_EQ(sum[count], -1.0f);
    }
  }
}

TEST_EACH(AccumulateWideDoesEveryOperation, InstructionSets()) {
  const UsingInstructionSet use(param);
  const size_t count = 10007;
  for (DType dtype : kHalfTypes) {
    const std::vector<uint8_t> halves = MixedElements(dtype, count, 3);
    const std::vector<uint8_t> start = MixedElements(DType::kFloat32, count, 4);
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto op = static_cast<ReduceOp>(o);
      std::vector<float> sum(count);
      std::memcpy(sum.data(), start.data(), start.size());
      std::vector<float> wide(count);
      std::vector<float> expected(count);
      Widen(dtype, wide.data(), halves.data(), count);
      ReduceReference(DType::kFloat32, op, expected.data(), sum.data(), wide.data(), count);
      AccumulateWide(dtype, op, sum.data(), halves.data(), count);
      const size_t at = FirstDifference(DType::kFloat32, sum.data(), expected.data(), count);
      EXPECT_EQ(at, count) << NameOf(dtype) << " " << NameOf(op);
    }
  }
}

}  // namespace
}  // namespace tfring::test
