#include "codec/reduce.h"

#include <algorithm>

#include "codec/kernels.h"

namespace tfring {
namespace {

// Reduce and Scale alternate in blocks that stay in the first-level cache.
constexpr size_t kBlockBytes = 8 * 1024;

}  // namespace

bool Supports(DType dtype, ReduceOp op) {
  return dtype != DType::kBool || op != ReduceOp::kAverage;
}

void Reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, size_t count) {
  const KernelTable& kernels = Kernels();
  const int index = static_cast<int>(op);
  if (IsHalf(dtype)) {
    kernels.half(dtype).reduce[index](dst, a, b, 1, count);
  } else {
    kernels.numbers[static_cast<int>(dtype)].reduce[index](dst, a, b, count);
  }
}

void ReduceScaled(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, double factor,
                  size_t count) {
  if (IsHalf(dtype)) {
    Kernels().half(dtype).reduce[static_cast<int>(op)](dst, a, b, static_cast<float>(factor),
                                                       count);
    return;
  }
  if (factor == 1) return Reduce(dtype, op, dst, a, b, count);
  auto* out = static_cast<unsigned char*>(dst);
  auto* left = static_cast<const unsigned char*>(a);
  auto* right = static_cast<const unsigned char*>(b);
  const size_t bytes = count * SizeOf(dtype);
  for (size_t at = 0; at < bytes; at += kBlockBytes) {
    const size_t part = std::min(kBlockBytes, bytes - at) / SizeOf(dtype);
    Reduce(dtype, op, out + at, left + at, right + at, part);
    Scale(dtype, out + at, out + at, factor, part);
  }
}

void Scale(DType dtype, void* dst, const void* src, double factor, size_t count) {
  const KernelTable& kernels = Kernels();
  if (IsHalf(dtype)) {
    kernels.half(dtype).scale(dst, src, static_cast<float>(factor), count);
  } else {
    kernels.scale[static_cast<int>(dtype)](dst, src, factor, count);
  }
}

void Widen(DType dtype, float* dst, const void* src, size_t count) {
  Kernels().half(dtype).widen(dst, src, count);
}

void AccumulateWide(DType dtype, ReduceOp op, float* acc, const void* src, size_t count) {
  Kernels().half(dtype).accumulate[static_cast<int>(op)](acc, src, count);
}

void Narrow(DType dtype, void* dst, const float* src, double factor, size_t count) {
  Kernels().half(dtype).narrow(dst, src, static_cast<float>(factor), count);
}

const char* KernelName() { return Kernels().name; }

}  // namespace tfring
