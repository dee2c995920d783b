#include "base/stream_copy.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tfring {

#if defined(__SSE2__)

namespace {

constexpr size_t kLine = 64;

void StreamLine(uint8_t* to, const uint8_t* from) {
  auto* const target = reinterpret_cast<__m128i*>(to);
  const auto* const source = reinterpret_cast<const __m128i*>(from);
  const __m128i a = _mm_loadu_si128(source);
  const __m128i b = _mm_loadu_si128(source + 1);
  const __m128i c = _mm_loadu_si128(source + 2);
  const __m128i d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, a);
  _mm_stream_si128(target + 1, b);
  _mm_stream_si128(target + 2, c);
  _mm_stream_si128(target + 3, d);
}

}  // namespace

void StreamCopy(uint8_t* to, const uint8_t* from, size_t bytes) {
  const size_t past_line = reinterpret_cast<uintptr_t>(to) % kLine;
  const size_t head = std::min(bytes, past_line == 0 ? 0 : kLine - past_line);
  std::memcpy(to, from, head);
  size_t done = head;
  for (; done + kLine <= bytes; done += kLine) StreamLine(to + done, from + done);
  std::memcpy(to + done, from + done, bytes - done);
  _mm_sfence();  // these stores are not ordered by a release store alone
}

#else

void StreamCopy(uint8_t* to, const uint8_t* from, size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace tfring
