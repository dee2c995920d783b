// Kernels for AArch64, where NEON and its float16 conversions are always there.
#include "codec/kernels.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define TFR_VECTOR_BYTES 16
#include "codec/kernel_table.h"

namespace tfring {
namespace {

struct Float16 {
  static TFR_INLINE Floats Widen(Halves half) {
    return BitCast<Floats>(vcvt_f32_f16(BitCast<float16x4_t>(half)));
  }

  static TFR_INLINE Halves Narrow(Floats wide) {
    return BitCast<Halves>(vcvt_f16_f32(BitCast<float32x4_t>(wide)));
  }
};

}  // namespace

const KernelTable* NeonKernels() {
  static constexpr KernelTable kTable = MakeKernels<Float16, BFloat16<PlainIntegers>>("neon");
  return &kTable;
}

}  // namespace tfring

#else

namespace tfring {

const KernelTable* NeonKernels() { return nullptr; }

}  // namespace tfring

#endif
