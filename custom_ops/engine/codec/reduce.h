// Element-wise kernels: reduction, scaling, and widening of half types.
//
// Vectorised for the processor found at run time, with the same bits whichever that is.
// Pointers need no alignment beyond that of a byte. `count` is in elements. kAverage
// reduces as kSum; dividing is the caller's last step (a scale). Min and Max give NaN when
// either operand is NaN, and `b` when the operands are equal (zeros of either sign are).
// Sum and Product give one and the same NaN whatever the operands' are.
#pragma once

#include <cstddef>

#include "base/dtype.h"

namespace tfring {

// Whether `op` is defined on `dtype`: everything but bool; for bool Sum and Max are "or",
// Product and Min are "and", and Average is not defined.
bool Supports(DType dtype, ReduceOp op);

// dst[i] = a[i] op b[i], half types computed in float32 and rounded to nearest even.
// dst may be a or b. Integer overflow wraps. Bool: any byte but 0 is true; gives 0 or 1.
void Reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, size_t count);

// dst[i] = (a[i] op b[i]) * factor: Reduce and Scale in one pass over memory. Half types
// are rounded once, at the end.
void ReduceScaled(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, double factor,
                  size_t count);

// dst[i] = src[i] * factor. dst may be src.
// Float types: computed in float32 (half types), float64 (float32, unless float32 holds the
// factor) or float64, then rounded to nearest even.
// Integers: the quotient when factor is 1/n for a whole n > 0, else the product in double;
// truncated toward zero, and clamped to the type's range (NaN gives 0).
// Bool: a copy; the only factor is 1.
void Scale(DType dtype, void* dst, const void* src, double factor, size_t count);

// For half types: dst[i] = float(src[i]).
void Widen(DType dtype, float* dst, const void* src, size_t count);

// For half types: acc[i] = acc[i] op float(src[i]).
void AccumulateWide(DType dtype, ReduceOp op, float* acc, const void* src, size_t count);

// For half types: dst[i] = round(src[i] * factor), the product in float32.
void Narrow(DType dtype, void* dst, const float* src, double factor, size_t count);

// Name of the instruction set in use: "scalar", "avx2", "avx512", "neon".
const char* KernelName();

}  // namespace tfring
