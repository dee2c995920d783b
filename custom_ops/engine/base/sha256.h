// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): proofs that a peer knows the secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tfring {

class Sha256 {
 public:
  static constexpr size_t kBytes = 32;
  static constexpr size_t kBlockBytes = 64;
  using Digest = std::array<uint8_t, kBytes>;

  void Add(const void* data, size_t size);
  Digest Finish();  // then the object is spent

 private:
  void Compress(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kBlockBytes> block_{};
  uint64_t total_ = 0;
};

Sha256::Digest HmacSha256(const std::string& key, const std::string& message);

// Takes the same time wherever the two differ.
bool EqualInConstantTime(const void* a, const void* b, size_t size);

}  // namespace tfring
