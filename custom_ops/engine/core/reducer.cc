#include "core/reducer.h"

#include <cstring>

#include "codec/reduce.h"

namespace tfring {

void Reducer::Prepare(const Program& program) {
  accumulator_offset_ = program.accumulator_offset;
  const size_t elements = program.accumulator_bytes / SizeOf(dtype_);
  const size_t width = IsHalf(dtype_) ? sizeof(float) : SizeOf(dtype_);
  accumulator_.reset(elements == 0 ? nullptr : new uint8_t[elements * width]);
}

void Reducer::Apply(const FlatBuffer& buffer, const Receive& receive, size_t at,
                    const uint8_t* data, size_t bytes) {
  const size_t offset = receive.offset + at;
  if (receive.action == Receive::Action::kAccumulate) {
    Accumulate(receive, offset, data, bytes);
    if (receive.last) WriteAccumulator(buffer, offset, bytes);
    return;
  }
  buffer.ForEach(offset, bytes, [&](const FlatBuffer::Piece& piece) {
    const size_t count = piece.bytes / SizeOf(dtype_);
    switch (receive.action) {
      case Receive::Action::kReduceFirst:
        Reduce(dtype_, op_, piece.output, piece.input, data, count);
        break;
      case Receive::Action::kReduce:
        Reduce(dtype_, op_, piece.output, piece.output, data, count);
        break;
      default:
        std::memcpy(piece.output, data, piece.bytes);
        break;
    }
    if (receive.last && factor_ != 1) Scale(dtype_, piece.output, piece.output, factor_, count);
    data += piece.bytes;
  });
}

void Reducer::Accumulate(const Receive& receive, size_t offset, const uint8_t* data, size_t bytes) {
  const size_t first = (offset - accumulator_offset_) / SizeOf(dtype_);
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

void Reducer::WriteAccumulator(const FlatBuffer& buffer, size_t offset, size_t bytes) {
  const size_t first = (offset - accumulator_offset_) / SizeOf(dtype_);
  const uint8_t* sum =
      accumulator_.get() + first * (IsHalf(dtype_) ? sizeof(float) : SizeOf(dtype_));
  buffer.ForEach(offset, bytes, [&](const FlatBuffer::Piece& piece) {
    const size_t count = piece.bytes / SizeOf(dtype_);
    if (IsHalf(dtype_)) {
      Narrow(dtype_, piece.output, reinterpret_cast<const float*>(sum), factor_, count);
      sum += count * sizeof(float);
    } else if (factor_ != 1) {
      Scale(dtype_, piece.output, sum, factor_, count);
      sum += piece.bytes;
    } else {
      std::memcpy(piece.output, sum, piece.bytes);
      sum += piece.bytes;
    }
  });
}

}  // namespace tfring
