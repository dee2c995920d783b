// A store that a StoreServer keeps, over one TCP connection. Any thread may call; one
// request is under way at a time, so a waiting Get holds up the others.
#pragma once

#include <memory>
#include <mutex>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/interruption.h"
#include "rendezvous/store.h"
#include "rendezvous/store_protocol.h"

namespace tfring {

class TcpStore : public Store {
 public:
  // Tries again until `timeout` has passed, since the server may start later. Errors:
  // kUnauthenticated (the secrets differ, at once), kTimeout (nobody answered) or kIo
  // (refused, unreachable, unknown host); the message names host and port.
  // `interruption`, if any, ends the waits of this and of all calls.
  static Result<std::unique_ptr<TcpStore>> Connect(
      const std::string& host, int port, const std::string& secret, Duration timeout,
      std::shared_ptr<const Interruption> interruption = nullptr);

  Status Set(const std::string& key, const std::string& value) override;
  Result<std::string> Get(const std::string& key, Duration timeout) override;
  Result<int64_t> Add(const std::string& key, int64_t delta) override;
  Status Delete(const std::string& key) override;
  Result<std::vector<std::string>> Gather(const std::string& key, int rank, int size,
                                          const std::string& value, Duration timeout) override;
  std::string local_address() const override { return local_address_; }

 private:
  TcpStore(Fd fd, std::string address, std::string local_address,
           std::shared_ptr<const Interruption> interruption);

  // Sends the request and waits for its response, `timeout` beyond what a round trip may
  // take. After a failure of the connection all further calls fail alike.
  Result<std::string> Call(StoreRequest request, const std::string& key, const std::string& value,
                           Duration timeout);
  Result<std::string> Exchange(const std::string& request, const Deadline& deadline);
  Status SendAll(const std::string& bytes, const Deadline& deadline);
  Result<std::string> ReceiveExactly(size_t size, const Deadline& deadline);

  std::mutex mutex_;
  Fd fd_;
  Status broken_;
  const std::string address_;
  const std::string local_address_;
  const std::shared_ptr<const Interruption> interruption_;
};

}  // namespace tfring
