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

}  // namespace tfring
