#include "base/wire.h"

#include <string>

#include "test.h"

namespace tfring {
namespace {

TEST(WhatIsWrittenIsReadBack) {
  const std::string bytes = WireWriter()
                                .Number(uint8_t{7})
                                .Number(int64_t{-5})
                                .String("name")
                                .Raw("ab", 2)
                                .String("")
                                .Take();
  WireReader reader(bytes);
  EXPECT_EQ(reader.Number<uint8_t>(), 7);
  EXPECT_EQ(reader.Number<int64_t>(), -5);
  EXPECT_EQ(reader.String(), "name");
  EXPECT_EQ(reader.Raw(2), "ab");
  EXPECT_EQ(reader.String(), "");
  EXPECT_TRUE(reader.complete());
}

TEST(NumbersAreLittleEndian) {
  EXPECT_EQ(WireWriter().Number(uint32_t{0x01020304}).Take(), std::string("\x04\x03\x02\x01"));
}

TEST(EveryTruncationIsNoticed) {
  const std::string bytes = WireWriter().Number(uint32_t{1}).String("text").Take();
  for (size_t size = 0; size < bytes.size(); ++size) {
    WireReader reader(bytes.data(), size);
    reader.Number<uint32_t>();
    reader.String();
    EXPECT_FALSE(reader.ok()) << size << " bytes";
  }
}

TEST(ALengthBeyondTheEndGivesNothing) {
  const std::string bytes = WireWriter().Number(~uint32_t{0}).Raw("abc", 3).Take();
  WireReader reader(bytes);
  EXPECT_EQ(reader.String(), "");
  EXPECT_FALSE(reader.ok());
  // A failure lasts, whatever would fit.
  EXPECT_EQ(reader.Raw(1), "");
}

TEST(MoreThanExpectedIsNotComplete) {
  WireReader reader("abcd", 4);
  EXPECT_EQ(reader.Raw(3), "abc");
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.complete());
  EXPECT_EQ(reader.Rest(), "d");
  EXPECT_TRUE(reader.complete());
}

}  // namespace
}  // namespace tfring
