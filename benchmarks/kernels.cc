// Speed of the element-wise kernels, for every instruction set that this processor has.
//
//   cmake --build BUILD --target tfring_kernels_benchmark && BUILD/tests/tfring_kernels_benchmark
//
// GB/s counts the bytes read and written; the element rate is beside it. "cache" works on
// segments of 256 KiB, as the collectives do; "memory" on 64 MiB.
#include "codec/kernels.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "codec/reduce.h"

namespace {

using tfring::DType;
using tfring::ReduceOp;

constexpr size_t kCacheBytes = 256 * 1024;
constexpr size_t kMemoryBytes = 64 * 1024 * 1024;
constexpr size_t kRounds = 7;

// The best of several rounds, in seconds a call.
double Seconds(size_t calls, const std::function<void()>& run) {
  double best = 1e9;
  for (size_t round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < calls; ++i) run();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / static_cast<double>(calls));
  }
  return best;
}

struct Buffers {
  std::vector<unsigned char> a = std::vector<unsigned char>(kMemoryBytes, 1);
  std::vector<unsigned char> b = std::vector<unsigned char>(kMemoryBytes, 1);
  std::vector<float> wide = std::vector<float>(kMemoryBytes / 2, 1.0f);
};

// `moved` is the bytes that memory sees per element.
void Print(const char* set, const char* dtype, const char* what, size_t element_bytes, size_t moved,
           const std::function<void(size_t count)>& run) {
  std::printf("%-7s %-9s %-12s", set, dtype, what);
  for (size_t bytes : {kCacheBytes, kMemoryBytes}) {
    const size_t count = bytes / element_bytes;
    const double time = Seconds(bytes == kCacheBytes ? 200 : 1, [&] { run(count); });
    const double elements = static_cast<double>(count) / time;
    std::printf("  %6.1f GB/s %6.2f Gelement/s", elements * static_cast<double>(moved) / 1e9,
                elements / 1e9);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void MeasureReductions(const char* set, Buffers& buffers) {
  for (int d = 0; d < tfring::kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    const size_t size = SizeOf(dtype);
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      Print(set, NameOf(dtype), NameOf(op), size, 3 * size, [&](size_t count) {
        Reduce(dtype, op, buffers.a.data(), buffers.a.data(), buffers.b.data(), count);
      });
    }
  }
}

void MeasureScaling(const char* set, Buffers& buffers) {
  for (int d = 0; d + 1 < tfring::kDTypeCount; ++d) {  // all but bool
    const auto dtype = static_cast<DType>(d);
    const size_t size = SizeOf(dtype);
    Print(set, NameOf(dtype), "scale 1/3", size, 2 * size,
          [&](size_t count) { Scale(dtype, buffers.a.data(), buffers.a.data(), 1.0 / 3, count); });
    Print(set, NameOf(dtype), "sum, 1/3", size, 3 * size, [&](size_t count) {
      ReduceScaled(dtype, ReduceOp::kSum, buffers.a.data(), buffers.a.data(), buffers.b.data(),
                   1.0 / 3, count);
    });
  }
}

void MeasureHalf(const char* set, Buffers& buffers) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    Print(set, NameOf(dtype), "widen", 2, 6,
          [&](size_t count) { Widen(dtype, buffers.wide.data(), buffers.a.data(), count); });
    Print(set, NameOf(dtype), "accumulate", 2, 10, [&](size_t count) {
      AccumulateWide(dtype, ReduceOp::kSum, buffers.wide.data(), buffers.a.data(), count);
    });
    Print(set, NameOf(dtype), "narrow", 2, 6,
          [&](size_t count) { Narrow(dtype, buffers.a.data(), buffers.wide.data(), 0.25, count); });
  }
}

}  // namespace

int main() {
  Buffers buffers;
  Print("libc", "bytes", "memcpy", 1, 2,
        [&](size_t count) { std::memcpy(buffers.a.data(), buffers.b.data(), count); });
  for (const char* set : {"scalar", "neon", "avx2", "avx512"}) {
    if (!tfring::UseKernels(set)) continue;
    MeasureReductions(set, buffers);
    MeasureScaling(set, buffers);
    MeasureHalf(set, buffers);
  }
  return 0;
}
