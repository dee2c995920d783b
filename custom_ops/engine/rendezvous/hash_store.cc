#include "rendezvous/hash_store.h"

#include "base/deadline.h"

namespace tfring {

Status HashStore::Set(const std::string& key, const std::string& value) {
  TFR_RETURN_IF_ERROR(CheckKey(key));
  TFR_RETURN_IF_ERROR(CheckValue(key, value.size()));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    table_.Set(key, value);
  }
  changed_.notify_all();
  return Status::Ok();
}

Result<std::string> HashStore::Get(const std::string& key, Duration timeout) {
  TFR_RETURN_IF_ERROR(CheckKey(key));
  const Deadline deadline(timeout);
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (const std::string* value = table_.Find(key)) return *value;
    if (deadline.passed()) {
      return Status(Code::kTimeout, "store key \"" + key + "\" was not set within " +
                                        std::to_string(timeout.count()) + " ms");
    }
    changed_.wait_for(lock, deadline.remaining());
  }
}

Result<int64_t> HashStore::Add(const std::string& key, int64_t delta) {
  TFR_RETURN_IF_ERROR(CheckKey(key));
  Result<int64_t> sum = [&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return table_.Add(key, delta);
  }();
  changed_.notify_all();
  return sum;
}

Status HashStore::Delete(const std::string& key) {
  TFR_RETURN_IF_ERROR(CheckKey(key));
  const std::lock_guard<std::mutex> lock(mutex_);
  table_.Delete(key);
  return Status::Ok();
}

Result<std::vector<std::string>> HashStore::Gather(const std::string& key, int rank, int size,
                                                   const std::string& value, Duration timeout) {
  TFR_RETURN_IF_ERROR(CheckKey(key));
  TFR_RETURN_IF_ERROR(CheckValue(key, value.size()));
  const Deadline deadline(timeout);
  std::unique_lock<std::mutex> lock(mutex_);
  std::shared_ptr<Meeting>& entry = meetings_[key];
  if (entry == nullptr) entry = std::make_shared<Meeting>();
  const std::shared_ptr<Meeting> meeting = entry;
  const auto leave = [&](const Status& why) {
    if (meeting->gathering.empty()) meetings_.erase(key);
    return why;
  };
  const Status joined = meeting->gathering.Join(rank, size, value);
  if (!joined.ok()) return leave(joined);
  if (meeting->gathering.complete()) {
    meeting->values = meeting->gathering.Take();
    meeting->done = true;
    meetings_.erase(key);
    changed_.notify_all();
  }
  while (!meeting->done) {
    if (deadline.passed()) {
      const Status missing = meeting->gathering.Missing();
      meeting->gathering.Leave(rank);
      return leave(missing);
    }
    changed_.wait_for(lock, deadline.remaining());
  }
  return meeting->values;
}

}  // namespace tfring
