// A connection between two ranks on its way from the first packet to a link: connect, shake
// hands, and then the caller confirms that it has been let in: within a host by passing the
// shared memory, elsewhere by a byte. So a caller that has given up meanwhile is not taken for
// a link that was lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/status.h"
#include "rendezvous/handshake.h"
#include "transport/connection.h"
#include "transport/peer_address.h"

namespace tfring {

class Candidate {
 public:
  // So long may one attempt take, so that neither a stranger who says nothing nor an
  // address that is out of date holds up anything for longer.
  static constexpr std::chrono::seconds kPatience{10};
  // So long may a caller take that has been let in.
  static constexpr std::chrono::seconds kConfirmPatience{60};

  // identity.target is who is called; local: by the unix socket, and pass shared memory
  // with rings of ring_bytes.
  static Result<Candidate> Call(const PeerAddress& address, bool local, size_t ring_bytes,
                                const std::string& secret, const Identity& identity);
  static Result<Candidate> Answer(Fd socket, bool local, const std::string& secret,
                                  Handshake::Judge judge);

  // Does what can be done now. Errors: as of Handshake::Advance.
  Status Advance();
  bool done() const { return stage_ == Stage::kDone; }
  Connection TakeConnection() { return {std::move(socket_), std::move(rings_)}; }

  bool outgoing() const { return outgoing_; }
  bool authenticated() const { return handshake_.done(); }
  bool silent() const { return handshake_.heard_nothing(); }
  Verdict verdict() const { return handshake_.verdict(); }
  // The rank at the other end; of an incoming one known once it is authenticated.
  int peer() const { return outgoing_ ? handshake_.identity().target : handshake_.identity().rank; }
  int fd() const { return socket_.get(); }
  uint32_t events() const;  // to wait for next
  const Deadline& expiry() const { return expiry_; }

 private:
  enum class Stage { kConnecting, kShakingHands, kConfirming, kAwaitingConfirmation, kDone };

  Candidate(Fd socket, bool local, bool outgoing, Stage stage, Handshake handshake)
      : socket_(std::move(socket)),
        local_(local),
        outgoing_(outgoing),
        stage_(stage),
        handshake_(std::move(handshake)) {}

  Status Confirm();
  Status PassMemory();
  Status AwaitConfirmation();
  Status ReceiveMemory();

  Fd socket_;
  bool local_;
  bool outgoing_;
  Stage stage_;
  Handshake handshake_;
  size_t ring_bytes_ = 0;
  std::unique_ptr<SharedRings> rings_;
  Deadline expiry_{kPatience};
};

}  // namespace tfring
