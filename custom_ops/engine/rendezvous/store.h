// The key-value service through which the ranks of a generation find each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace tfring {

using Duration = std::chrono::milliseconds;

class Store {
 public:
  virtual ~Store() = default;
  virtual Status Set(const std::string& key, const std::string& value) = 0;
  // Waits for the key to exist; kTimeout names the key.
  virtual Result<std::string> Get(const std::string& key, Duration timeout) = 0;
  // Adds to a counter that starts at 0 and returns the new value.
  virtual Result<int64_t> Add(const std::string& key, int64_t delta) = 0;
  virtual Status Delete(const std::string& key) = 0;
  // The address, an IP literal, by which this process reached the store; "127.0.0.1"
  // for an in-process one. It is what a rank tells others to connect to by default.
  virtual std::string local_address() const = 0;
};

}  // namespace tfring
