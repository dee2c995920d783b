// Kernels for x86-64 with AVX-512 (F, BW, DQ and VL).
#include "codec/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>

#define TFR_VECTOR_BYTES 64
#include "codec/kernel_table.h"

namespace tfring {
namespace {

// The masked forms: GCC 12 warns of an uninitialised value inside the plain ones.
constexpr __mmask16 kAll = 0xffff;

struct Float16 {
  static TFR_INLINE Floats Widen(Halves half) {
    return BitCast<Floats>(_mm512_maskz_cvtph_ps(kAll, BitCast<__m256i>(half)));
  }

  static TFR_INLINE Halves Narrow(Floats wide) {
    return BitCast<Halves>(
        _mm512_maskz_cvtps_ph(kAll, BitCast<__m512>(wide), _MM_FROUND_TO_NEAREST_INT));
  }
};

struct Integers {
  static TFR_INLINE Words Widen(Halves half) {
    return BitCast<Words>(_mm512_maskz_cvtepu16_epi32(kAll, BitCast<__m256i>(half)));
  }

  static TFR_INLINE Halves Narrow(Words wide) {
    return BitCast<Halves>(_mm512_maskz_cvtepi32_epi16(kAll, BitCast<__m512i>(wide)));
  }
};

}  // namespace

const KernelTable* Avx512Kernels() {
  static constexpr KernelTable kTable = MakeKernels<Float16, BFloat16<Integers>>("avx512");
  return &kTable;
}

}  // namespace tfring

#else

namespace tfring {

const KernelTable* Avx512Kernels() { return nullptr; }

}  // namespace tfring

#endif
