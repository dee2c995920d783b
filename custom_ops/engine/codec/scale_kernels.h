// Scaling of all types but the half types.
// Included by one source file per instruction set, see vectors.h.
#pragma once

#include "codec/vectors.h"

namespace tfring {
namespace {

// Calls scale(V) or scale(T) for vectors of T as long as there are, then single ones.
template <class T, class ScaleOne>
TFR_INLINE void ForAll(void* dst, const void* src, size_t count, ScaleOne scale) {
  using V = Vector<T>;
  auto* out = static_cast<unsigned char*>(dst);
  auto* in = static_cast<const unsigned char*>(src);
  const size_t bytes = count * sizeof(T);
  size_t at = 0;
  for (; at + sizeof(V) <= bytes; at += sizeof(V)) Store(out + at, scale(Load<V>(in + at)));
  for (; at < bytes; at += sizeof(T)) Store(out + at, scale(Load<T>(in + at)));
}

// In double, so that the factor (mostly 1/n) is not rounded first.
struct ScaleInDouble {
  double factor;

  TFR_INLINE float operator()(float x) const {
    return static_cast<float>(static_cast<double>(x) * factor);
  }
  TFR_INLINE Vector<float> operator()(Vector<float> x) const {
    using Wide = Vector<double, kVectorBytes / sizeof(float)>;
    return __builtin_convertvector(__builtin_convertvector(x, Wide) * factor, Vector<float>);
  }
};

template <class T>
struct ScaleDirectly {
  T factor;

  template <class V>
  TFR_INLINE V operator()(V x) const {
    return x * factor;
  }
};

void ScaleFloat(void* dst, const void* src, double factor, size_t count) {
  const auto narrow = static_cast<float>(factor);
  if (static_cast<double>(narrow) == factor) {
    ForAll<float>(dst, src, count, ScaleDirectly<float>{narrow});
  } else {
    ForAll<float>(dst, src, count, ScaleInDouble{factor});
  }
}

void ScaleDouble(void* dst, const void* src, double factor, size_t count) {
  ForAll<double>(dst, src, count, ScaleDirectly<double>{factor});
}

// n when factor is the double nearest to 1/n for a whole n > 0; else 0.
int64_t WholeDivisor(double factor) {
  constexpr double kMost = 1 << 30;
  if (!(factor > 1 / kMost) || factor > 1) return 0;
  const auto n = static_cast<int64_t>(1 / factor + 0.5);
  return 1 / static_cast<double>(n) == factor ? n : 0;
}

template <class T>
TFR_INLINE T TruncateClamped(double x) {
  constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
  constexpr int kValueBits = static_cast<int>(sizeof(T)) * 8 - (kSigned ? 1 : 0);
  // 2^kValueBits, and the largest T (all of its value bits set).
  constexpr double kEnd = 2.0 * static_cast<double>(uint64_t{1} << (kValueBits - 1));
  constexpr auto kMax = static_cast<T>(~uint64_t{0} >> (64 - kValueBits));
  constexpr T kMin = kSigned ? static_cast<T>(-kMax - 1) : static_cast<T>(0);
  if (x >= kEnd) return kMax;
  if (x > static_cast<double>(kMin)) return static_cast<T>(x);
  return x == x ? kMin : static_cast<T>(0);  // NOLINT: NaN is not equal to itself
}

// A product by the rounded 1/n can fall just short of a whole number (49 * (1 / 49.0) is
// 0.99...): quotients are divided. In double they are right for up to 32 bits.
template <class T>
void ScaleInteger(void* dst, const void* src, double factor, size_t count) {
  auto* out = static_cast<unsigned char*>(dst);
  auto* in = static_cast<const unsigned char*>(src);
  const size_t bytes = count * sizeof(T);
  const int64_t divisor = WholeDivisor(factor);
  if (divisor != 0 && sizeof(T) == sizeof(int64_t)) {
    for (size_t at = 0; at < bytes; at += sizeof(T)) {
      Store(out + at, static_cast<T>(Load<T>(in + at) / static_cast<T>(divisor)));
    }
  } else if (divisor != 0) {
    const auto n = static_cast<double>(divisor);
    for (size_t at = 0; at < bytes; at += sizeof(T)) {
      Store(out + at, static_cast<T>(static_cast<double>(Load<T>(in + at)) / n));
    }
  } else {
    for (size_t at = 0; at < bytes; at += sizeof(T)) {
      Store(out + at, TruncateClamped<T>(static_cast<double>(Load<T>(in + at)) * factor));
    }
  }
}

void CopyBool(void* dst, const void* src, double /*factor*/, size_t count) {
  __builtin_memmove(dst, src, count);
}

}  // namespace
}  // namespace tfring
