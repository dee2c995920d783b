// The key-value service through which the ranks of a generation find each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

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
  // Every rank puts in a value and waits for those of all others; all get all, by rank. A value
  // counts for as long as its rank waits. kTimeout names the ranks that have not come;
  // kInvalidArgument when another process waits as that rank. The key is free again afterwards.
  virtual Result<std::vector<std::string>> Gather(const std::string& key, int rank, int size,
                                                  const std::string& value, Duration timeout) = 0;
  // The address, an IP literal, by which this process reached the store; "127.0.0.1"
  // for an in-process one. It is what a rank tells others to connect to by default.
  virtual std::string local_address() const = 0;
};

}  // namespace tfring
