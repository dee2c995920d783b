// Vectors of kVectorBytes, and the reductions on them. Included by one source file per
// instruction set, which defines TFR_VECTOR_BYTES.
//
// Everything here is in an unnamed namespace: each of those files is compiled for another
// processor, and a function that the linker shared among them would crash on older ones.
// For the same reason nothing from the standard library is called here.
#pragma once

#include <cstddef>
#include <cstdint>

#define TFR_INLINE inline __attribute__((always_inline))

namespace tfring {
namespace {

constexpr size_t kVectorBytes = TFR_VECTOR_BYTES;

// `Lanes` of T, as GCC and Clang know them: arithmetic and comparisons work lane by lane.
template <class T, size_t Lanes>
struct VectorType {
  typedef T Type __attribute__((vector_size(sizeof(T) * Lanes)));
};
template <class T, size_t Lanes = kVectorBytes / sizeof(T)>
using Vector = typename VectorType<T, Lanes>::Type;

// Memory is read and written bytewise: it need not be aligned, and may be of any type.
template <class V>
TFR_INLINE V Load(const unsigned char* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}

template <class V>
TFR_INLINE void Store(unsigned char* to, V value) {
  __builtin_memcpy(to, &value, sizeof(V));
}

template <class To, class From>
TFR_INLINE To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// ---- Reductions; V is a vector or a single number ---------------------------------------

struct SumOp {
  template <class V>
  static TFR_INLINE V Apply(V a, V b) {
    return static_cast<V>(a + b);
  }
};

struct ProductOp {
  template <class V>
  static TFR_INLINE V Apply(V a, V b) {
    return static_cast<V>(a * b);
  }
};

// A processor gives one operand's NaN when both are, and a compiler swaps operands at will.
// One NaN for all: the bits don't depend on where a vector begins, or on the processor.
template <class V>
TFR_INLINE V OneNan(V value) {
  const V same = value;
  return value == same ? value : V{} + __builtin_nanf("");
}

struct FloatSumOp {
  template <class V>
  static TFR_INLINE V Apply(V a, V b) {
    return OneNan(static_cast<V>(a + b));
  }
};

struct FloatProductOp {
  template <class V>
  static TFR_INLINE V Apply(V a, V b) {
    return OneNan(static_cast<V>(a * b));
  }
};

// A NaN in `a` is taken as it is; one in `b` is, because it compares false.
struct MinOp {
  template <class V>
  static TFR_INLINE V Apply(V a, V b) {
    const V same = a;
    return ((a < b) | (a != same)) ? a : b;
  }
};

struct MaxOp {
  template <class V>
  static TFR_INLINE V Apply(V a, V b) {
    const V same = a;
    return ((a > b) | (a != same)) ? a : b;
  }
};

// Of bool: any byte but 0 is true.
struct OrOp {
  template <class V>
  static TFR_INLINE V Apply(V a, V b) {
    return static_cast<V>(((a | b) != 0) & 1);
  }
};

struct AndOp {
  template <class V>
  static TFR_INLINE V Apply(V a, V b) {
    return static_cast<V>((a != 0) & (b != 0) & 1);
  }
};

}  // namespace
}  // namespace tfring
