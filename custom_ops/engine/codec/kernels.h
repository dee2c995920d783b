// The kernels of one instruction set, as a table of functions, and the choice among tables.
#pragma once

#include <cstddef>

#include "base/dtype.h"

namespace tfring {

// Of float16 or bfloat16; `b` and `src` are half, `acc` is float32.
struct HalfKernels {
  using Reduce = void (*)(void* dst, const void* a, const void* b, float factor, size_t count);
  using Scale = void (*)(void* dst, const void* src, float factor, size_t count);
  using Widen = void (*)(float* dst, const void* src, size_t count);
  using Accumulate = void (*)(float* acc, const void* src, size_t count);
  using Narrow = void (*)(void* dst, const float* src, float factor, size_t count);

  Reduce reduce[kReduceOpCount];
  Accumulate accumulate[kReduceOpCount];
  Scale scale;
  Widen widen;
  Narrow narrow;
};

// Of any other type; null where the operation is not defined.
struct NumberKernels {
  using Reduce = void (*)(void* dst, const void* a, const void* b, size_t count);

  Reduce reduce[kReduceOpCount];
};

struct KernelTable {
  using Scale = void (*)(void* dst, const void* src, double factor, size_t count);

  const char* name;
  // By type; empty for half types.
  NumberKernels numbers[kDTypeCount];
  Scale scale[kDTypeCount];
  HalfKernels float16;
  HalfKernels bfloat16;

  const HalfKernels& half(DType dtype) const {
    return dtype == DType::kFloat16 ? float16 : bfloat16;
  }
};

// Null when this build is for another kind of processor.
const KernelTable* ScalarKernels();
const KernelTable* Avx2Kernels();
const KernelTable* Avx512Kernels();
const KernelTable* NeonKernels();

// The best that this processor runs, chosen on first use.
const KernelTable& Kernels();

// For tests and benchmarks, while no kernel runs: uses the table of that name from now on.
// False when there is none, or this processor does not run it.
bool UseKernels(const char* name);

}  // namespace tfring
