// Puts the kernels together. Included by one source file per instruction set, see vectors.h.
#pragma once

#include "codec/half_kernels.h"
#include "codec/kernels.h"
#include "codec/number_kernels.h"
#include "codec/scale_kernels.h"

namespace tfring {
namespace {

template <class Format>
constexpr HalfKernels MakeHalfKernels() {
  return {
      {ReduceHalf<Format, FloatSumOp>, ReduceHalf<Format, FloatSumOp>, ReduceHalf<Format, MinOp>,
       ReduceHalf<Format, MaxOp>, ReduceHalf<Format, FloatProductOp>},
      {AccumulateHalf<Format, FloatSumOp>, AccumulateHalf<Format, FloatSumOp>,
       AccumulateHalf<Format, MinOp>, AccumulateHalf<Format, MaxOp>,
       AccumulateHalf<Format, FloatProductOp>},
      ScaleHalf<Format>,
      WidenHalf<Format>,
      NarrowHalf<Format>};
}

template <class T>
constexpr NumberKernels FloatKernels() {
  return {{ReduceNumbers<T, FloatSumOp>, ReduceNumbers<T, FloatSumOp>, ReduceNumbers<T, MinOp>,
           ReduceNumbers<T, MaxOp>, ReduceNumbers<T, FloatProductOp>}};
}

// Sums and products of signed integers are those of unsigned ones, where overflow wraps.
template <class T, class Unsigned>
constexpr NumberKernels IntegerKernels() {
  return {{ReduceNumbers<Unsigned, SumOp>, ReduceNumbers<Unsigned, SumOp>, ReduceNumbers<T, MinOp>,
           ReduceNumbers<T, MaxOp>, ReduceNumbers<Unsigned, ProductOp>}};
}

constexpr NumberKernels BoolKernels() {
  return {{ReduceNumbers<uint8_t, OrOp>, nullptr, ReduceNumbers<uint8_t, AndOp>,
           ReduceNumbers<uint8_t, OrOp>, ReduceNumbers<uint8_t, AndOp>}};
}

// In the order of DType.
template <class Float16, class BFloat16>
constexpr KernelTable MakeKernels(const char* name) {
  return {name,
          {{},
           {},
           FloatKernels<float>(),
           FloatKernels<double>(),
           IntegerKernels<int8_t, uint8_t>(),
           IntegerKernels<uint8_t, uint8_t>(),
           IntegerKernels<int32_t, uint32_t>(),
           IntegerKernels<int64_t, uint64_t>(),
           BoolKernels()},
          {nullptr, nullptr, ScaleFloat, ScaleDouble, ScaleInteger<int8_t>, ScaleInteger<uint8_t>,
           ScaleInteger<int32_t>, ScaleInteger<int64_t>, CopyBool},
          MakeHalfKernels<Float16>(),
          MakeHalfKernels<BFloat16>()};
}

}  // namespace
}  // namespace tfring
