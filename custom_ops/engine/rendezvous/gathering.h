// A gather under way in a store: values that ranks have put in, while they wait for the rest.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"

namespace tfring {

constexpr int kMaxGatherRanks = 1 << 20;

class Gathering {
 public:
  // kInvalidArgument when the rank has come already, or others gave another size.
  Status Join(int rank, int size, const std::string& value);
  // The rank does not wait any more; what it put in goes.
  void Leave(int rank);

  bool empty() const { return values_.empty(); }
  bool complete() const { return static_cast<int>(values_.size()) == size_; }

  // kTimeout, with the ranks that have not come. Whoever has run out of patience first is not
  // the one to be blamed.
  Status Missing() const;

  // All values, by rank; only when complete.
  std::vector<std::string> Take();

 private:
  // "rank 1, rank 4" of all ranks that the predicate holds for; "" when there are none.
  template <class Predicate>
  std::string Name(Predicate predicate) const;

  int size_ = 0;
  std::map<int, std::string> values_;
  std::set<int> left_;  // were here, and are not any more
};

// The same as one value, for the wire.
std::string EncodeGathered(const std::vector<std::string>& values);
Result<std::vector<std::string>> DecodeGathered(const std::string& bytes, int size);

}  // namespace tfring
