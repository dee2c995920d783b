// FNV-1a, 64 bits: names and descriptors, equal on every machine. Not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tfring {

class Hasher {
 public:
  void Add(const void* data, size_t size) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < size; ++i) value_ = (value_ ^ bytes[i]) * 0x100000001b3ULL;
  }

  void Add(int64_t number) { Add(&number, sizeof(number)); }

  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace tfring
