// A store for ranks that are threads of one process: tests, and jobs of size 1.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "rendezvous/gathering.h"
#include "rendezvous/store.h"
#include "rendezvous/table.h"

namespace tfring {

class HashStore : public Store {
 public:
  Status Set(const std::string& key, const std::string& value) override;
  Result<std::string> Get(const std::string& key, Duration timeout) override;
  Result<int64_t> Add(const std::string& key, int64_t delta) override;
  Status Delete(const std::string& key) override;
  Result<std::vector<std::string>> Gather(const std::string& key, int rank, int size,
                                          const std::string& value, Duration timeout) override;
  std::string local_address() const override { return "127.0.0.1"; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Table table_;
  struct Meeting {
    Gathering gathering;
    bool done = false;
    std::vector<std::string> values;
  };
  std::map<std::string, std::shared_ptr<Meeting>> meetings_;
};

}  // namespace tfring
