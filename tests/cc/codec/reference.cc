#include "codec/reference.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "codec/kernels.h"
#include "codec/reduce.h"

namespace tfring::test {
namespace {

struct HalfFormat {
  int fraction_bits;
  int bias;
  int exponent_mask;
};

HalfFormat FormatOf(DType dtype) {
  return dtype == DType::kFloat16 ? HalfFormat{10, 15, 0x1f} : HalfFormat{7, 127, 0xff};
}

template <class T>
T LoadAs(const void* from, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(from) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void StoreAs(void* to, size_t index, T value) {
  std::memcpy(static_cast<uint8_t*>(to) + index * sizeof(T), &value, sizeof(T));
}

template <class T>
T ReduceOne(ReduceOp op, T a, T b) {
  // Sums and products of integers wrap: in 64 unsigned bits nothing overflows badly.
  if (op == ReduceOp::kSum || op == ReduceOp::kAverage) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
  if (op == ReduceOp::kProduct) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
  if constexpr (!std::is_integral_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  if (op == ReduceOp::kMin) return a < b ? a : b;
  return a > b ? a : b;
}

template <class T>
void ReduceAll(ReduceOp op, void* dst, const void* a, const void* b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    StoreAs<T>(dst, i, ReduceOne<T>(op, LoadAs<T>(a, i), LoadAs<T>(b, i)));
  }
}

// Calls visit(T{}) with the C++ type of a dtype that has one.
template <class Visit>
void WithType(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kInt8:
      return visit(int8_t{});
    case DType::kUInt8:
      return visit(uint8_t{});
    case DType::kInt32:
      return visit(int32_t{});
    case DType::kInt64:
      return visit(int64_t{});
    default:
      return visit(uint16_t{});
  }
}

template <class T>
T ScaleInteger(T value, double factor) {
  // Long double has 64 bits of fraction on x86: every int64 is exact in it.
  const double inverse = std::round(1 / factor);
  if (factor > 0 && factor <= 1 && 1 / inverse == factor) {
    return static_cast<T>(value / static_cast<int64_t>(inverse));
  }
  const double product = static_cast<double>(value) * factor;
  if (std::isnan(product)) return 0;
  if (product >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  if (product <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(product);
}

template <class T>
T MixedElement(std::mt19937& random) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> special = {T{0},
                                  static_cast<T>(-T{0}),
                                  T{1},
                                  static_cast<T>(-1),
                                  Limits::max(),
                                  Limits::lowest(),
                                  Limits::min(),
                                  Limits::denorm_min(),
                                  Limits::infinity(),
                                  static_cast<T>(-Limits::infinity()),
                                  Limits::quiet_NaN(),
                                  static_cast<T>(49)};
  if (random() % 4 == 0) return special[random() % special.size()];
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>((static_cast<uint64_t>(random()) << 32) | random());
  } else {
    return static_cast<T>(std::ldexp(static_cast<double>(random()) - 2147483648.0,
                                     static_cast<int>(random() % 40) - 50));
  }
}

}  // namespace

std::vector<std::string> InstructionSets() {
  const std::string before = KernelName();
  std::vector<std::string> sets;
  for (const char* name : {"scalar", "neon", "avx2", "avx512"}) {
    if (UseKernels(name)) sets.emplace_back(name);
  }
  UseKernels(before.c_str());
  return sets;
}

UsingInstructionSet::UsingInstructionSet(const std::string& name) : before_(KernelName()) {
  UseKernels(name.c_str());
}

UsingInstructionSet::~UsingInstructionSet() { UseKernels(before_.c_str()); }

float WidenReference(DType dtype, uint16_t half) {
  const HalfFormat format = FormatOf(dtype);
  const int fraction = half & ((1 << format.fraction_bits) - 1);
  const int exponent = (half >> format.fraction_bits) & format.exponent_mask;
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  if (exponent == format.exponent_mask) {
    return static_cast<float>(fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                                            : sign * std::numeric_limits<double>::infinity());
  }
  const int whole = exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
  const int scale = (exponent == 0 ? 1 : exponent) - format.bias - format.fraction_bits;
  return static_cast<float>(sign * std::ldexp(whole, scale));
}

uint16_t NarrowReference(DType dtype, float value) {
  const HalfFormat format = FormatOf(dtype);
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const int infinity = format.exponent_mask << format.fraction_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | 1);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  const double magnitude = std::fabs(static_cast<double>(value));
  const int least = 1 - format.bias;
  int exponent = magnitude == 0 ? least : std::max(least, std::ilogb(magnitude));
  // In units of the last place; nearbyint rounds ties to even.
  auto units =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  if (units == 2 << format.fraction_bits) {
    units /= 2;
    ++exponent;
  }
  if (exponent > format.bias) return static_cast<uint16_t>(sign | infinity);
  // A subnormal has no hidden bit: its exponent field stays 0.
  const int bits = ((exponent - least) << format.fraction_bits) + units;
  return static_cast<uint16_t>(sign | bits);
}

void ReduceReference(DType dtype, ReduceOp op, void* dst, const void* a, const void* b,
                     size_t count) {
  if (IsHalf(dtype)) {
    for (size_t i = 0; i < count; ++i) {
      const float x = WidenReference(dtype, LoadAs<uint16_t>(a, i));
      const float y = WidenReference(dtype, LoadAs<uint16_t>(b, i));
      StoreAs(dst, i, NarrowReference(dtype, ReduceOne<float>(op, x, y)));
    }
  } else if (dtype == DType::kBool) {
    const bool all = op == ReduceOp::kMin || op == ReduceOp::kProduct;
    for (size_t i = 0; i < count; ++i) {
      const bool x = LoadAs<uint8_t>(a, i) != 0;
      const bool y = LoadAs<uint8_t>(b, i) != 0;
      StoreAs<uint8_t>(dst, i, (all ? x && y : x || y) ? 1 : 0);
    }
  } else {
    WithType(dtype, [&](auto zero) { ReduceAll<decltype(zero)>(op, dst, a, b, count); });
  }
}

void ScaleReference(DType dtype, void* dst, const void* src, double factor, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (IsHalf(dtype)) {
      const float value = WidenReference(dtype, LoadAs<uint16_t>(src, i));
      StoreAs(dst, i, NarrowReference(dtype, value * static_cast<float>(factor)));
      continue;
    }
    WithType(dtype, [&](auto zero) {
      using T = decltype(zero);
      const T value = LoadAs<T>(src, i);
      if constexpr (std::is_integral_v<T>) {
        StoreAs<T>(dst, i, ScaleInteger<T>(value, factor));
      } else {
        StoreAs<T>(dst, i, static_cast<T>(static_cast<double>(value) * factor));
      }
    });
  }
}

std::vector<uint8_t> MixedElements(DType dtype, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(count * SizeOf(dtype));
  for (size_t i = 0; i < count; ++i) {
    if (dtype == DType::kBool) {
      StoreAs<uint8_t>(bytes.data(), i, random() % 2);
    } else if (IsHalf(dtype)) {
      // Every other bit pattern, and numbers near 1, which give finite results.
      const uint16_t any = static_cast<uint16_t>(random());
      const float near = static_cast<float>(random() % 4096) / 512 - 4;
      StoreAs(bytes.data(), i, random() % 2 == 0 ? any : NarrowReference(dtype, near));
    } else {
      WithType(dtype,
               [&](auto zero) { StoreAs(bytes.data(), i, MixedElement<decltype(zero)>(random)); });
    }
  }
  return bytes;
}

bool SameElement(DType dtype, const void* x, const void* y) {
  if (std::memcmp(x, y, SizeOf(dtype)) == 0) return true;
  switch (dtype) {
    case DType::kFloat32:
      return std::isnan(LoadAs<float>(x, 0)) && std::isnan(LoadAs<float>(y, 0));
    case DType::kFloat64:
      return std::isnan(LoadAs<double>(x, 0)) && std::isnan(LoadAs<double>(y, 0));
    case DType::kFloat16:
    case DType::kBFloat16:
      return std::isnan(WidenReference(dtype, LoadAs<uint16_t>(x, 0))) &&
             std::isnan(WidenReference(dtype, LoadAs<uint16_t>(y, 0)));
    default:
      return false;
  }
}

size_t FirstDifference(DType dtype, const void* x, const void* y, size_t count) {
  const size_t size = SizeOf(dtype);
  auto* left = static_cast<const uint8_t*>(x);
  auto* right = static_cast<const uint8_t*>(y);
  for (size_t i = 0; i < count; ++i) {
    if (!SameElement(dtype, left + i * size, right + i * size)) return i;
  }
  return count;
}

std::string ShowElement(DType dtype, const void* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, SizeOf(dtype));
  char text[40];
  std::snprintf(text, sizeof(text), "%s 0x%llx", NameOf(dtype),
                static_cast<unsigned long long>(bits));
  return text;
}

}  // namespace tfring::test
