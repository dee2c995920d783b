// Kernels for x86-64 with AVX2 and F16C.
#include "codec/kernels.h"

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>

#define TFR_VECTOR_BYTES 32
#include "codec/kernel_table.h"

namespace tfring {
namespace {

struct Float16 {
  static TFR_INLINE Floats Widen(Halves half) {
    return BitCast<Floats>(_mm256_cvtph_ps(BitCast<__m128i>(half)));
  }

  static TFR_INLINE Halves Narrow(Floats wide) {
    return BitCast<Halves>(_mm256_cvtps_ph(BitCast<__m256>(wide), _MM_FROUND_TO_NEAREST_INT));
  }
};

struct Integers {
  static TFR_INLINE Words Widen(Halves half) {
    return BitCast<Words>(_mm256_cvtepu16_epi32(BitCast<__m128i>(half)));
  }

  static TFR_INLINE Halves Narrow(Words wide) {
    const auto all = BitCast<__m256i>(wide);
    return BitCast<Halves>(
        _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
  }
};

}  // namespace

const KernelTable* Avx2Kernels() {
  static constexpr KernelTable kTable = MakeKernels<Float16, BFloat16<Integers>>("avx2");
  return &kTable;
}

}  // namespace tfring

#else

namespace tfring {

const KernelTable* Avx2Kernels() { return nullptr; }

}  // namespace tfring

#endif
