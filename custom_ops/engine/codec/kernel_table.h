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
      {ReduceHalf<Format, SumOp>, ReduceHalf<Format, SumOp>, ReduceHalf<Format, MinOp>,
       ReduceHalf<Format, MaxOp>, ReduceHalf<Format, ProductOp>},
      {AccumulateHalf<Format, SumOp>, AccumulateHalf<Format, SumOp>, AccumulateHalf<Format, MinOp>,
       AccumulateHalf<Format, MaxOp>, AccumulateHalf<Format, ProductOp>},
      ScaleHalf<Format>,
      WidenHalf<Format>,
      NarrowHalf<Format>};
}

// Sums and products of signed integers are those of unsigned ones, where overflow wraps.
#define TFR_NUMBERS(T, U)                                                     \
  {ReduceNumbers<U, SumOp>, ReduceNumbers<U, SumOp>, ReduceNumbers<T, MinOp>, \
   ReduceNumbers<T, MaxOp>, ReduceNumbers<U, ProductOp>}

// In the order of DType.
template <class Float16, class BFloat16>
constexpr KernelTable MakeKernels(const char* name) {
  return {name,
          {{},
           {},
           TFR_NUMBERS(float, float),
           TFR_NUMBERS(double, double),
           TFR_NUMBERS(int8_t, uint8_t),
           TFR_NUMBERS(uint8_t, uint8_t),
           TFR_NUMBERS(int32_t, uint32_t),
           TFR_NUMBERS(int64_t, uint64_t),
           {ReduceNumbers<uint8_t, OrOp>, nullptr, ReduceNumbers<uint8_t, AndOp>,
            ReduceNumbers<uint8_t, OrOp>, ReduceNumbers<uint8_t, AndOp>}},
          {nullptr, nullptr, ScaleFloat, ScaleDouble, ScaleInteger<int8_t>, ScaleInteger<uint8_t>,
           ScaleInteger<int32_t>, ScaleInteger<int64_t>, CopyBool},
          MakeHalfKernels<Float16>(),
          MakeHalfKernels<BFloat16>()};
}

#undef TFR_NUMBERS

}  // namespace
}  // namespace tfring
