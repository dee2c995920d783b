// What a store stores: the one place that says what its operations mean.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/status.h"

namespace tfring {

constexpr size_t kMaxKeyBytes = 4 * 1024;
constexpr size_t kMaxValueBytes = 16 * 1024 * 1024;

// kInvalidArgument, naming the limit.
Status CheckKey(const std::string& key);
Status CheckValue(const std::string& key, size_t value_bytes);

class Table {
 public:
  void Set(const std::string& key, std::string value) { values_[key] = std::move(value); }

  // Null when there is none.
  const std::string* Find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }

  // A counter is a value in decimal; kInvalidArgument when the key holds something else.
  Result<int64_t> Add(const std::string& key, int64_t delta);

  void Delete(const std::string& key) { values_.erase(key); }

 private:
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace tfring
