// Kernels for any processor: what the compiler makes of the vectors without being told
// about one (on x86-64 that is SSE2).
#define TFR_VECTOR_BYTES 16
#include "codec/kernel_table.h"

namespace tfring {

const KernelTable* ScalarKernels() {
  static constexpr KernelTable kTable =
      MakeKernels<PortableFloat16<PlainIntegers>, BFloat16<PlainIntegers>>("scalar");
  return &kTable;
}

}  // namespace tfring
