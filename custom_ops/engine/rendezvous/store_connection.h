// One client of a StoreServer: handshake, then a request at a time.
#pragma once

#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/status.h"
#include "rendezvous/handshake.h"
#include "rendezvous/store_protocol.h"

namespace tfring {

class StoreConnection {
 public:
  // A stranger has so long to prove that he is none.
  static constexpr std::chrono::seconds kHandshakeTime{10};

  StoreConnection(Fd fd, Handshake handshake);

  int fd() const { return fd_.get(); }
  bool authenticated() const { return handshake_.done(); }
  bool silent() const { return handshake_.heard_nothing(); }

  // Moves what the socket gives and takes; an error means: close it. Stops at a complete
  // request, until that has been answered.
  Status Advance();

  // A complete request that has not been answered.
  bool has_request() const { return has_request_; }
  const StoreRequest& request() const { return request_; }
  const std::string& key() const { return key_; }
  std::string& value() { return value_; }
  bool gathers() const { return has_request_ && request_.operation == StoreRequest::kGather; }
  int gather_rank = 0;  // of a parked kGather
  void Answer(Code code, const std::string& payload);

  // A kGet waits for its key, a kGather for the other ranks.
  void Park(std::chrono::milliseconds timeout) { parked_until_.emplace(Deadline(timeout)); }
  bool parked() const { return has_request_ && parked_until_.has_value(); }

  // When this connection's handshake or parked request has waited long enough.
  const Deadline* expiry() const;

  // Events to wait for next.
  uint32_t events() const;
  uint32_t armed = 0;  // what the poller waits for

 private:
  Status Flush();
  Status ReadRequest();
  Status Fill(size_t size);

  Fd fd_;
  Handshake handshake_;
  const Deadline handshake_until_{kHandshakeTime};
  std::optional<Deadline> parked_until_;
  bool has_header_ = false;
  bool has_request_ = false;
  StoreRequest request_;
  std::string input_;
  std::string key_;
  std::string value_;
  std::string output_;
  size_t output_at_ = 0;
};

}  // namespace tfring
