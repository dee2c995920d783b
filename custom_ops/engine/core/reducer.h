// Does what a Receive says with the bytes that arrived.
#pragma once

#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "collective/program.h"
#include "core/flat_buffer.h"

namespace tfring {

class Reducer {
 public:
  // Bytes that are only moved (broadcast, allgather).
  Reducer() : Reducer(DType::kUInt8, ReduceOp::kSum, 1) {}
  // `factor` scales a reduction's result.
  Reducer(DType dtype, ReduceOp op, double factor) : dtype_(dtype), op_(op), factor_(factor) {}

  // Makes room for the program's accumulators.
  void Prepare(const Program& program);

  // The bytes [at, at + bytes) of the receive are `data`: a whole number of elements.
  void Apply(const FlatBuffer& buffer, const Receive& receive, size_t at, const uint8_t* data,
             size_t bytes);

  size_t element_bytes() const { return SizeOf(dtype_); }

 private:
  void ReduceInto(const FlatBuffer::Piece& piece, const Receive& receive, const uint8_t* data);
  size_t AccumulatorAt(size_t offset) const;  // in elements
  void Accumulate(const Receive& receive, size_t offset, const uint8_t* data, size_t bytes);
  void WriteAccumulator(const FlatBuffer& buffer, size_t offset, size_t bytes, double factor);

  DType dtype_;
  ReduceOp op_;
  double factor_;
  size_t accumulator_offset_ = 0;
  size_t accumulator_bytes_ = 0;
  std::unique_ptr<uint8_t[]> accumulator_;
};

}  // namespace tfring
