#include "rendezvous/table.h"

#include <charconv>

namespace tfring {

Status CheckKey(const std::string& key) {
  if (!key.empty() && key.size() <= kMaxKeyBytes) return Status::Ok();
  return {Code::kInvalidArgument, "a store key has 1 to " + std::to_string(kMaxKeyBytes) +
                                      " bytes, received " + std::to_string(key.size())};
}

Status CheckValue(const std::string& key, size_t value_bytes) {
  if (value_bytes <= kMaxValueBytes) return Status::Ok();
  return {Code::kInvalidArgument, "value of store key \"" + key + "\": expected at most " +
                                      std::to_string(kMaxValueBytes) + " bytes, received " +
                                      std::to_string(value_bytes)};
}

Result<int64_t> Table::Add(const std::string& key, int64_t delta) {
  std::string& text = values_[key];
  int64_t value = 0;
  if (!text.empty()) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return Status(Code::kInvalidArgument,
                    "store key \"" + key + "\" holds no counter that could be added to");
    }
  }
  if (__builtin_add_overflow(value, delta, &value)) {
    return Status(Code::kInvalidArgument, "the counter of store key \"" + key + "\" overflows");
  }
  text = std::to_string(value);
  return value;
}

}  // namespace tfring
