// Element-wise kernels: reduction, scaling, and widening of half types.
//
// Vectorised for the processor found at run time. Pointers need no alignment beyond that
// of a byte. `count` is in elements. kAverage reduces as kSum; dividing is the caller's
// last step (a scale). NaN: Min and Max give NaN when either operand is NaN.
#pragma once

#include <cstddef>

#include "base/dtype.h"

namespace tfring {

// Whether `op` is defined on `dtype`: everything but bool; for bool Sum and Max are "or",
// Product and Min are "and", and Average is not defined.
bool Supports(DType dtype, ReduceOp op);

// dst[i] = a[i] op b[i], half types computed in float32 and rounded to nearest even.
// dst may be a or b. Integer overflow wraps.
void Reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, size_t count);

// dst[i] = src[i] * factor. Float types only round once; integers are computed in double
// and truncated toward zero (exactly, int64 included, when factor is 1/n for a whole n).
// dst may be src. Bool: only factor 1.
void Scale(DType dtype, void* dst, const void* src, double factor, size_t count);

// For half types: dst[i] = float(src[i]).
void Widen(DType dtype, float* dst, const void* src, size_t count);

// For half types: acc[i] = acc[i] op float(src[i]).
void AccumulateWide(DType dtype, ReduceOp op, float* acc, const void* src, size_t count);

// For half types: dst[i] = round(src[i] * factor).
void Narrow(DType dtype, void* dst, const float* src, double factor, size_t count);

// Name of the instruction set in use: "scalar", "avx2", "avx512", "neon".
const char* KernelName();

}  // namespace tfring
