#include "core/reducer.h"

#include <cstring>

#include "codec/reduce.h"

namespace tfring {

void Reducer::Prepare(const Program& program) {
  accumulator_offset_ = program.accumulator_offset;
  accumulator_bytes_ = program.accumulator_bytes;
  const size_t elements = program.accumulator_bytes / SizeOf(dtype_);
  const size_t width = IsHalf(dtype_) ? sizeof(float) : SizeOf(dtype_);
  accumulator_.reset(elements == 0 ? nullptr : new uint8_t[elements * width]);
}

void Reducer::Apply(const FlatBuffer& buffer, const Receive& receive, size_t at,
                    const uint8_t* data, size_t bytes) {
  const size_t offset = receive.offset + at;
  if (receive.action == Receive::Action::kAccumulate) {
    Accumulate(receive, offset, data, bytes);
    if (receive.last) WriteAccumulator(buffer, offset, bytes, receive.partial ? 1 : factor_);
    return;
  }
  buffer.ForEach(offset, bytes, [&](const FlatBuffer::Piece& piece) {
    if (receive.action != Receive::Action::kCopy) {
      ReduceInto(piece, receive, data);
    } else if (receive.last && factor_ != 1) {
      Scale(dtype_, piece.output, data, factor_, piece.bytes / SizeOf(dtype_));
    } else if (piece.output != data) {
      std::memcpy(piece.output, data, piece.bytes);
    }
    data += piece.bytes;
  });
}

void Reducer::ReduceInto(const FlatBuffer::Piece& piece, const Receive& receive,
                         const uint8_t* data) {
  const bool own_is_input = receive.action == Receive::Action::kReduceFirst;
  const uint8_t* own = own_is_input ? piece.input : piece.output;
  const uint8_t* left = receive.data_left ? data : own;
  const uint8_t* right = receive.data_left ? own : data;
  const double factor = receive.last ? factor_ : 1;
  ReduceScaled(dtype_, op_, piece.output, left, right, factor, piece.bytes / SizeOf(dtype_));
}

size_t Reducer::AccumulatorAt(size_t offset) const {
  return (offset - accumulator_offset_) % accumulator_bytes_ / SizeOf(dtype_);
}

void Reducer::Accumulate(const Receive& receive, size_t offset, const uint8_t* data, size_t bytes) {
  const size_t first = AccumulatorAt(offset);
  const size_t count = bytes / SizeOf(dtype_);
  if (IsHalf(dtype_)) {
    float* wide = reinterpret_cast<float*>(accumulator_.get()) + first;
    if (receive.first) {
      Widen(dtype_, wide, data, count);
    } else {
      AccumulateWide(dtype_, op_, wide, data, count);
    }
    return;
  }
  uint8_t* sum = accumulator_.get() + first * SizeOf(dtype_);
  if (receive.first) {
    std::memcpy(sum, data, bytes);
  } else {
    Reduce(dtype_, op_, sum, sum, data, count);
  }
}

void Reducer::WriteAccumulator(const FlatBuffer& buffer, size_t offset, size_t bytes,
                               double factor) {
  const size_t first = AccumulatorAt(offset);
  const uint8_t* sum =
      accumulator_.get() + first * (IsHalf(dtype_) ? sizeof(float) : SizeOf(dtype_));
  buffer.ForEach(offset, bytes, [&](const FlatBuffer::Piece& piece) {
    const size_t count = piece.bytes / SizeOf(dtype_);
    if (IsHalf(dtype_)) {
      Narrow(dtype_, piece.output, reinterpret_cast<const float*>(sum), factor, count);
      sum += count * sizeof(float);
    } else if (factor != 1) {
      Scale(dtype_, piece.output, sum, factor, count);
      sum += piece.bytes;
    } else {
      std::memcpy(piece.output, sum, piece.bytes);
      sum += piece.bytes;
    }
  });
}

}  // namespace tfring
