#include "base/sha256.h"

#include <string>
#include <vector>

#include "test.h"

namespace tfring {
namespace {

std::string Hex(const Sha256::Digest& digest) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string HashInPieces(const std::string& text, size_t piece) {
  Sha256 hash;
  for (size_t at = 0; at < text.size(); at += piece) {
    const std::string part = text.substr(at, piece);
    hash.Add(part.data(), part.size());
  }
  return Hex(hash.Finish());
}

struct Vector {
  std::string text;
  std::string digest;
};

// NIST, examples for FIPS 180-4, and the million times "a".
TEST(Sha256MatchesThePublishedVectors) {
  const std::vector<Vector> vectors = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
       "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1000000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (const Vector& v : vectors) {
    EXPECT_EQ(HashInPieces(v.text, v.text.size() + 1), v.digest);
    EXPECT_EQ(HashInPieces(v.text, 7), v.digest);
  }
}

std::string Bytes(int first, int count, int step) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>(first + i * step);
  return text;
}

// RFC 4231, test cases 1 to 4, 6 and 7.
TEST(HmacMatchesThePublishedVectors) {
  struct Case {
    std::string key;
    std::string data;
    std::string digest;
  };
  const std::vector<Case> cases = {
      {Bytes(0x0b, 20, 0), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {Bytes(0xaa, 20, 0), Bytes(0xdd, 50, 0),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {Bytes(0x01, 25, 1), Bytes(0xcd, 50, 0),
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {Bytes(0xaa, 131, 0), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {Bytes(0xaa, 131, 0),
       "This is a test using a larger than block-size key and a larger than block-size data. "
       "The key needs to be hashed before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
  };
  for (const Case& c : cases) EXPECT_EQ(Hex(HmacSha256(c.key, c.data)), c.digest) << c.data;
}

TEST(ComparisonInConstantTimeComparesAllBytes) {
  const std::string a(32, 'x');
  EXPECT_TRUE(EqualInConstantTime(a.data(), a.data(), a.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    std::string b = a;
    b[i] = 'y';
    EXPECT_FALSE(EqualInConstantTime(a.data(), b.data(), a.size())) << "byte " << i;
  }
}

}  // namespace
}  // namespace tfring
