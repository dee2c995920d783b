#include "rendezvous/gathering.h"

#include <sstream>
#include <utility>

#include "base/wire.h"

namespace tfring {
namespace {

constexpr int kMostNamed = 16;

}  // namespace

Status Gathering::Join(int rank, int size, const std::string& value) {
  if (size < 1 || size > kMaxGatherRanks || rank < 0 || rank >= size) {
    return {Code::kInvalidArgument, "expected a rank from 0 to size - 1, received rank " +
                                        std::to_string(rank) + " and size " + std::to_string(size)};
  }
  if (!values_.empty() && size != size_) {
    return {Code::kInvalidArgument, "rank " + std::to_string(rank) + " expects a job of " +
                                        std::to_string(size) + " ranks, the others one of " +
                                        std::to_string(size_)};
  }
  if (values_.count(rank) != 0) {
    return {Code::kInvalidArgument, "another process is rank " + std::to_string(rank) + " already"};
  }
  size_ = size;
  values_.emplace(rank, value);
  left_.erase(rank);
  return Status::Ok();
}

void Gathering::Leave(int rank) {
  values_.erase(rank);
  left_.insert(rank);
}

template <class Predicate>
std::string Gathering::Name(Predicate predicate) const {
  std::ostringstream text;
  int named = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (!predicate(rank) || ++named > kMostNamed) continue;
    text << (named > 1 ? ", rank " : "rank ") << rank;
  }
  if (named > kMostNamed) text << " and " << named - kMostNamed << " more";
  return text.str();
}

Status Gathering::Missing() const {
  const std::string left = Name([&](int rank) { return left_.count(rank) != 0; });
  const std::string missing =
      Name([&](int rank) { return values_.count(rank) == 0 && left_.count(rank) == 0; });
  std::string text;
  if (!missing.empty()) text += "these ranks have not connected: " + missing + ";";
  if (missing.empty() && !left.empty()) {
    text += "these ranks were here, but have left: " + left + ";";
  }
  return {Code::kTimeout, text + " the job has " + std::to_string(size_) + " ranks"};
}

std::vector<std::string> Gathering::Take() {
  std::vector<std::string> values;
  values.reserve(values_.size());
  for (auto& entry : values_) values.push_back(std::move(entry.second));
  values_.clear();
  return values;
}

std::string EncodeGathered(const std::vector<std::string>& values) {
  WireWriter writer;
  for (const std::string& value : values) writer.String(value);
  return writer.Take();
}

Result<std::vector<std::string>> DecodeGathered(const std::string& bytes, int size) {
  WireReader reader(bytes);
  std::vector<std::string> values;
  while (reader.ok() && reader.left() > 0) values.push_back(reader.String());
  if (!reader.complete() || static_cast<int>(values.size()) != size) {
    return Status(Code::kIo, "the store's response to a gather is malformed");
  }
  return values;
}

}  // namespace tfring
