// Reductions of types whose arithmetic the processor has: all but the half types.
// Included by one source file per instruction set, see vectors.h.
#pragma once

#include "codec/vectors.h"

namespace tfring {
namespace {

template <class T, class Op>
void ReduceNumbers(void* dst, const void* a, const void* b, size_t count) {
  using V = Vector<T>;
  constexpr size_t kUnroll = 4;
  auto* out = static_cast<unsigned char*>(dst);
  auto* left = static_cast<const unsigned char*>(a);
  auto* right = static_cast<const unsigned char*>(b);
  const size_t bytes = count * sizeof(T);
  size_t at = 0;
  for (; at + kUnroll * sizeof(V) <= bytes; at += kUnroll * sizeof(V)) {
    for (size_t i = 0; i < kUnroll * sizeof(V); i += sizeof(V)) {
      Store(out + at + i, Op::Apply(Load<V>(left + at + i), Load<V>(right + at + i)));
    }
  }
  for (; at + sizeof(V) <= bytes; at += sizeof(V)) {
    Store(out + at, Op::Apply(Load<V>(left + at), Load<V>(right + at)));
  }
  for (; at < bytes; at += sizeof(T)) {
    Store(out + at, Op::Apply(Load<T>(left + at), Load<T>(right + at)));
  }
}

}  // namespace
}  // namespace tfring
