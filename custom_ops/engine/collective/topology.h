// Who is whose neighbour, and which bytes are whose: whole-number arithmetic alone.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tfring {

// Parts and segments begin at multiples of this: the largest element, a cache line and a
// vector register of every processor fit into it.
constexpr size_t kAlignment = 64;

struct Range {
  size_t offset = 0;
  size_t bytes = 0;
};

constexpr size_t CeilDiv(size_t a, size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

constexpr size_t AlignUp(size_t bytes) { return CeilDiv(bytes, kAlignment) * kAlignment; }

// `index` into a ring of `size`, from either side.
constexpr int Wrap(int index, int size) { return (index % size + size) % size; }

// The smallest k with 2^k >= n.
constexpr int CeilLog2(int n) {
  int k = 0;
  while ((1LL << k) < n) ++k;
  return k;
}

// Part `index` of `parts` parts of a buffer. They cover it in order, and their sizes differ
// by one unit of kAlignment at most (but for a last, incomplete unit). With fewer units than
// parts some are empty.
constexpr Range PartOf(size_t bytes, int parts, int index) {
  const size_t units = CeilDiv(bytes, kAlignment);
  const auto n = static_cast<size_t>(parts);
  const auto i = static_cast<size_t>(index);
  // units * i / n, without a product that could overflow.
  const size_t begin = (units / n * i + units % n * i / n) * kAlignment;
  const size_t end = (units / n * (i + 1) + units % n * (i + 1) / n) * kAlignment;
  return {std::min(begin, bytes), std::min(end, bytes) - std::min(begin, bytes)};
}

constexpr size_t LargestPart(size_t bytes, int parts) {
  return std::min(bytes,
                  CeilDiv(CeilDiv(bytes, kAlignment), static_cast<size_t>(parts)) * kAlignment);
}

// The size of segments of `bytes`, none larger than `most`: equal but for the last, so that
// no small rest costs a message of its own.
constexpr size_t SegmentBytes(size_t bytes, size_t most) {
  const size_t segments = std::max<size_t>(1, CeilDiv(bytes, most));
  return std::max(kAlignment, AlignUp(CeilDiv(bytes, segments)));
}

// Segment `index` of a range; empty beyond its end.
constexpr Range SegmentOf(const Range& range, size_t segment_bytes, size_t index) {
  const size_t begin = std::min(index * segment_bytes, range.bytes);
  return {range.offset + begin, std::min(segment_bytes, range.bytes - begin)};
}

}  // namespace tfring
