// Kernels of float16 and bfloat16: widened to float32, computed there, narrowed once.
// Included by one source file per instruction set, see vectors.h. `Format` is one of
// half_formats.h, or that set's own.
#pragma once

#include "codec/half_formats.h"

namespace tfring {
namespace {

// What remains after the last whole vector is copied to a vector of its own and back.
template <class V>
TFR_INLINE V LoadPart(const unsigned char* from, size_t bytes) {
  V value{};
  __builtin_memcpy(&value, from, bytes);
  return value;
}

template <class V>
TFR_INLINE void StorePart(unsigned char* to, V value, size_t bytes) {
  __builtin_memcpy(to, &value, bytes);
}

template <class Format, class Op>
void ReduceHalf(void* dst, const void* a, const void* b, float factor, size_t count) {
  auto* out = static_cast<unsigned char*>(dst);
  auto* left = static_cast<const unsigned char*>(a);
  auto* right = static_cast<const unsigned char*>(b);
  const auto reduce = [factor](Halves x, Halves y) __attribute__((always_inline)) {
    return Format::Narrow(Op::Apply(Format::Widen(x), Format::Widen(y)) * factor);
  };
  const size_t bytes = count * sizeof(uint16_t);
  size_t at = 0;
  for (; at + sizeof(Halves) <= bytes; at += sizeof(Halves)) {
    Store(out + at, reduce(Load<Halves>(left + at), Load<Halves>(right + at)));
  }
  if (const size_t part = bytes - at; part != 0) {
    StorePart(out + at,
              reduce(LoadPart<Halves>(left + at, part), LoadPart<Halves>(right + at, part)), part);
  }
}

template <class Format>
void ScaleHalf(void* dst, const void* src, float factor, size_t count) {
  auto* out = static_cast<unsigned char*>(dst);
  auto* in = static_cast<const unsigned char*>(src);
  const size_t bytes = count * sizeof(uint16_t);
  size_t at = 0;
  for (; at + sizeof(Halves) <= bytes; at += sizeof(Halves)) {
    Store(out + at, Format::Narrow(Format::Widen(Load<Halves>(in + at)) * factor));
  }
  if (const size_t part = bytes - at; part != 0) {
    const Floats wide = Format::Widen(LoadPart<Halves>(in + at, part));
    StorePart(out + at, Format::Narrow(wide * factor), part);
  }
}

template <class Format>
void WidenHalf(float* dst, const void* src, size_t count) {
  auto* out = reinterpret_cast<unsigned char*>(dst);
  auto* in = static_cast<const unsigned char*>(src);
  size_t done = 0;
  for (; done + kHalfLanes <= count; done += kHalfLanes) {
    Store(out + 4 * done, Format::Widen(Load<Halves>(in + 2 * done)));
  }
  if (const size_t part = count - done; part != 0) {
    StorePart(out + 4 * done, Format::Widen(LoadPart<Halves>(in + 2 * done, 2 * part)), 4 * part);
  }
}

template <class Format, class Op>
void AccumulateHalf(float* acc, const void* src, size_t count) {
  auto* sum = reinterpret_cast<unsigned char*>(acc);
  auto* in = static_cast<const unsigned char*>(src);
  size_t done = 0;
  for (; done + kHalfLanes <= count; done += kHalfLanes) {
    const Floats value = Format::Widen(Load<Halves>(in + 2 * done));
    Store(sum + 4 * done, Op::Apply(Load<Floats>(sum + 4 * done), value));
  }
  if (const size_t part = count - done; part != 0) {
    const Floats value = Format::Widen(LoadPart<Halves>(in + 2 * done, 2 * part));
    StorePart(sum + 4 * done, Op::Apply(LoadPart<Floats>(sum + 4 * done, 4 * part), value),
              4 * part);
  }
}

template <class Format>
void NarrowHalf(void* dst, const float* src, float factor, size_t count) {
  auto* out = static_cast<unsigned char*>(dst);
  auto* in = reinterpret_cast<const unsigned char*>(src);
  size_t done = 0;
  for (; done + kHalfLanes <= count; done += kHalfLanes) {
    Store(out + 2 * done, Format::Narrow(Load<Floats>(in + 4 * done) * factor));
  }
  if (const size_t part = count - done; part != 0) {
    const Floats wide = LoadPart<Floats>(in + 4 * done, 4 * part);
    StorePart(out + 2 * done, Format::Narrow(wide * factor), 2 * part);
  }
}

}  // namespace
}  // namespace tfring
