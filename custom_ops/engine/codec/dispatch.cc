// Which instruction set to use. Looks at the processor once.
#include <atomic>
#include <cstring>

#include "codec/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tfring {
namespace {

#if defined(__x86_64__)
bool HasF16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool HasAvx2() { return __builtin_cpu_supports("avx2") && HasF16c(); }

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
bool HasAvx2() { return false; }
bool HasAvx512() { return false; }
#endif

// The `index`-th best table, null when it can't run here.
const KernelTable* Candidate(int index) {
  switch (index) {
    case 0:
      return HasAvx512() ? Avx512Kernels() : nullptr;
    case 1:
      return HasAvx2() ? Avx2Kernels() : nullptr;
    case 2:
      return NeonKernels();
    default:
      return ScalarKernels();
  }
}
constexpr int kCandidates = 4;

const KernelTable* Best() {
  for (int i = 0; i < kCandidates; ++i) {
    if (const KernelTable* table = Candidate(i)) return table;
  }
  return nullptr;  // not reached: the scalar table is always there
}

std::atomic<const KernelTable*>& Current() {
  static std::atomic<const KernelTable*> current{Best()};
  return current;
}

}  // namespace

const KernelTable& Kernels() { return *Current().load(std::memory_order_relaxed); }

bool UseKernels(const char* name) {
  for (int i = 0; i < kCandidates; ++i) {
    const KernelTable* table = Candidate(i);
    if (table != nullptr && std::strcmp(table->name, name) == 0) {
      Current().store(table, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

}  // namespace tfring
