// Numbers and strings as they are on the wire: little-endian, lengths in front. The
// reader never looks beyond its bytes and allocates nothing that it has not got.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace tfring {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire format is little-endian");

class WireWriter {
 public:
  template <class T>
  WireWriter& Number(T value) {
    static_assert(std::is_integral_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }

  // Without a length: the reader has to know it.
  WireWriter& Raw(const void* data, size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }

  WireWriter& String(const std::string& text) {
    Number(static_cast<uint32_t>(text.size()));
    bytes_ += text;
    return *this;
  }

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// A read that the bytes do not suffice for gives zeros and makes ok() false for good, so
// one check after all reads is enough.
class WireReader {
 public:
  WireReader(const void* data, size_t size) : at_(static_cast<const char*>(data)), left_(size) {}
  explicit WireReader(const std::string& bytes) : WireReader(bytes.data(), bytes.size()) {}

  template <class T>
  T Number() {
    static_assert(std::is_integral_v<T>);
    T value = 0;
    if (Has(sizeof(value))) std::memcpy(&value, Advance(sizeof(value)), sizeof(value));
    return value;
  }

  std::string Raw(size_t size) {
    return Has(size) ? std::string(Advance(size), size) : std::string();
  }

  std::string String() { return Raw(Number<uint32_t>()); }

  // Everything that is left.
  std::string Rest() { return Raw(left_); }

  size_t left() const { return left_; }
  bool ok() const { return ok_; }
  // All was there, and nothing more.
  bool complete() const { return ok_ && left_ == 0; }

 private:
  bool Has(size_t size) {
    ok_ = ok_ && size <= left_;
    return ok_;
  }

  const char* Advance(size_t size) {
    const char* from = at_;
    at_ += size;
    left_ -= size;
    return from;
  }

  const char* at_;
  size_t left_;
  bool ok_ = true;
};

}  // namespace tfring
