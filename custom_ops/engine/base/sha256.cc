#include "base/sha256.h"

#include <algorithm>
#include <cstring>

namespace tfring {
namespace {

constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t RotateRight(uint32_t x, int bits) { return (x >> bits) | (x << (32 - bits)); }

uint32_t ReadBigEndian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

void WriteBigEndian(uint32_t value, uint8_t* p) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

}  // namespace

void Sha256::Compress(const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = ReadBigEndian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = RotateRight(w[i - 15], 7) ^ RotateRight(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = RotateRight(w[i - 2], 17) ^ RotateRight(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = RotateRight(e, 6) ^ RotateRight(e, 11) ^ RotateRight(e, 25);
    const uint32_t choice = (e & f) ^ (~e & g);
    const uint32_t t1 = h + s1 + choice + kRoundConstants[i] + w[i];
    const uint32_t s0 = RotateRight(a, 2) ^ RotateRight(a, 13) ^ RotateRight(a, 22);
    const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + s0 + majority;
  }
  const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += add[i];
}

void Sha256::Add(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  while (size > 0) {
    const size_t at = total_ % kBlockBytes;
    const size_t take = std::min(size, kBlockBytes - at);
    std::memcpy(block_.data() + at, bytes, take);
    total_ += take;
    bytes += take;
    size -= take;
    if (total_ % kBlockBytes == 0) Compress(block_.data());
  }
}

Sha256::Digest Sha256::Finish() {
  const uint64_t bits = total_ * 8;
  const uint8_t one = 0x80;
  const uint8_t zero = 0;
  Add(&one, 1);
  while (total_ % kBlockBytes != kBlockBytes - 8) Add(&zero, 1);
  std::array<uint8_t, 8> length;
  WriteBigEndian(static_cast<uint32_t>(bits >> 32), length.data());
  WriteBigEndian(static_cast<uint32_t>(bits), length.data() + 4);
  Add(length.data(), length.size());
  Digest digest;
  for (size_t i = 0; i < 8; ++i) WriteBigEndian(state_[i], digest.data() + 4 * i);
  return digest;
}

Sha256::Digest HmacSha256(const std::string& key, const std::string& message) {
  std::array<uint8_t, Sha256::kBlockBytes> block{};
  if (key.size() <= block.size()) {
    std::copy(key.begin(), key.end(), block.begin());
  } else {
    Sha256 hash;
    hash.Add(key.data(), key.size());
    const Sha256::Digest digest = hash.Finish();
    std::copy(digest.begin(), digest.end(), block.begin());
  }
  for (uint8_t& byte : block) byte ^= 0x36;
  Sha256 inner;
  inner.Add(block.data(), block.size());
  inner.Add(message.data(), message.size());
  const Sha256::Digest inner_digest = inner.Finish();
  for (uint8_t& byte : block) byte ^= 0x36 ^ 0x5c;
  Sha256 outer;
  outer.Add(block.data(), block.size());
  outer.Add(inner_digest.data(), inner_digest.size());
  return outer.Finish();
}

bool EqualInConstantTime(const void* a, const void* b, size_t size) {
  const auto* x = static_cast<const volatile uint8_t*>(a);
  const auto* y = static_cast<const volatile uint8_t*>(b);
  uint8_t difference = 0;
  for (size_t i = 0; i < size; ++i) difference = static_cast<uint8_t>(difference | (x[i] ^ y[i]));
  return difference == 0;
}

}  // namespace tfring
