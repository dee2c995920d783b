// A 64-bit hash of names and descriptors, equal on every machine. Not for secrets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tfring {

class Hasher {
 public:
  void Add(const void* data, size_t size) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    for (size_t done = 0; done < size; done += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + done, std::min(sizeof(word), size - done));
      Mix(word);
    }
    Mix(size);
  }

  void Add(int64_t number) { Mix(static_cast<uint64_t>(number)); }

  uint64_t value() const { return value_; }

 private:
  // A multiplication carries each bit upwards, the shift brings it down again.
  void Mix(uint64_t word) {
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15ULL;
    value_ ^= value_ >> 29;
  }

  uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace tfring
