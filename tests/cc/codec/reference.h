// What the kernels must compute, element by element and in the plainest way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tfring::test {

// The instruction sets of this processor for which there are kernels, "scalar" among them.
std::vector<std::string> InstructionSets();

// Uses one of them while it lives.
class UsingInstructionSet {
 public:
  explicit UsingInstructionSet(const std::string& name);
  ~UsingInstructionSet();
  UsingInstructionSet(const UsingInstructionSet&) = delete;
  UsingInstructionSet& operator=(const UsingInstructionSet&) = delete;

 private:
  std::string before_;
};

// The value of a half number; rounding of a float32 to the nearest one, ties to even.
float WidenReference(DType dtype, uint16_t half);
uint16_t NarrowReference(DType dtype, float value);

void ReduceReference(DType dtype, ReduceOp op, void* dst, const void* a, const void* b,
                     size_t count);
void ScaleReference(DType dtype, void* dst, const void* src, double factor, size_t count);

// Elements with every kind of value: zeros of both signs, the smallest and largest,
// subnormal, infinite, NaN, whole and arbitrary ones.
std::vector<uint8_t> MixedElements(DType dtype, size_t count, uint32_t seed);

// The same bits, or both NaN.
bool SameElement(DType dtype, const void* x, const void* y);

// Index of the first element that differs, `count` when none does.
size_t FirstDifference(DType dtype, const void* x, const void* y, size_t count);

std::string ShowElement(DType dtype, const void* element);

}  // namespace tfring::test
