// float16 and bfloat16 to float32 and back, a vector at a time, by integer arithmetic.
// Included by one source file per instruction set, see vectors.h.
//
// Narrowing rounds to nearest, ties to even. A NaN stays one, quiet, with the upper bits
// of its payload: as F16C and NEON do.
#pragma once

#include "codec/vectors.h"

namespace tfring {
namespace {

// A vector of float32, and as many half numbers.
constexpr size_t kHalfLanes = kVectorBytes / sizeof(float);
using Floats = Vector<float, kHalfLanes>;
using Words = Vector<uint32_t, kHalfLanes>;
using Halves = Vector<uint16_t, kHalfLanes>;

// Integers of 16 and 32 bits into each other, as the compiler does it. An instruction set
// with better means has its own.
struct PlainIntegers {
  static TFR_INLINE Words Widen(Halves half) { return __builtin_convertvector(half, Words); }
  static TFR_INLINE Halves Narrow(Words wide) { return __builtin_convertvector(wide, Halves); }
};

// All ones where a > b; both below 2^31, since most processors compare signed numbers.
TFR_INLINE auto Greater(Words a, uint32_t b) {
  using Signed = Vector<int32_t, kHalfLanes>;
  return BitCast<Signed>(a) > static_cast<int32_t>(b);
}

// The upper half of a float32.
template <class Integers>
struct BFloat16 {
  static TFR_INLINE Floats Widen(Halves half) {
    return BitCast<Floats>(Integers::Widen(half) << 16);
  }

  static TFR_INLINE Halves Narrow(Floats wide) {
    const Words bits = BitCast<Words>(wide);
    const Words rounded = bits + (((bits >> 16) & 1) + 0x7fff);
    const Words quiet = bits | 0x00400000;
    return Integers::Narrow((wide == wide ? rounded : quiet) >> 16);  // NaN is not itself
  }
};

// 1 sign, 5 exponent, 10 fraction bits (IEEE 754 binary16), where the processor has no
// instruction for it. After F. Giesen, "Float to half done quick" (2012).
template <class Integers>
struct PortableFloat16 {
  static TFR_INLINE Floats Widen(Halves half) {
    const Words bits = Integers::Widen(half);
    const Words sign = (bits & 0x8000) << 16;
    const Words magnitude = (bits & 0x7fff) << 13;
    const Words normal = magnitude + ((127 - 15) << 23);
    // Infinity and NaN: the exponent moves on to float32's largest; NaN gets its quiet bit.
    const auto is_nan = Greater(magnitude, 0x7c00 << 13);
    const Words large = (normal + ((128 - 16) << 23)) | (BitCast<Words>(is_nan) & 0x00400000);
    // Below 2^-14: let the subtraction of floats find the leading bit.
    const Floats smallest_normal = BitCast<Floats>(Words{} + (113 << 23));
    const Words small = BitCast<Words>(BitCast<Floats>(normal + (1 << 23)) - smallest_normal);
    const Words finite = Greater(magnitude, (0x0400 << 13) - 1) ? normal : small;
    return BitCast<Floats>(sign | (Greater(magnitude, (0x7c00 << 13) - 1) ? large : finite));
  }

  static TFR_INLINE Halves Narrow(Floats wide) {
    const Words bits = BitCast<Words>(wide);
    const Words sign = (bits >> 16) & 0x8000;
    const Words magnitude = bits & 0x7fffffff;
    const Words odd = (magnitude >> 13) & 1;
    const Words normal = (magnitude - ((127 - 15) << 23) + (odd + 0xfff)) >> 13;
    const Words nan = ((magnitude >> 13) & 0x3ff) | 0x7e00;
    const Words large = Greater(magnitude, 0x7f800000) ? nan : Words{} + 0x7c00;
    // Below 2^-14: adding 0.5 leaves the ten bits we want, rounded, at the fraction's end.
    constexpr uint32_t kHalf = 126 << 23;
    const Floats half = BitCast<Floats>(Words{} + kHalf);
    const Words small = BitCast<Words>(BitCast<Floats>(magnitude) + half) - kHalf;
    const Words finite = Greater(magnitude, (113 << 23) - 1) ? normal : small;
    return Integers::Narrow(sign | (Greater(magnitude, 0x47800000 - 1) ? large : finite));
  }
};

}  // namespace
}  // namespace tfring
