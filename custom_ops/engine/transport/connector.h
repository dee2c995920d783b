// Makes connections between this rank and others, on demand and while the engine runs: calls,
// answers, shakes hands, tries again. Nothing here blocks.
//
// Either of two ranks may call the other. When both do so at the same time the call of the
// higher rank goes first: it refuses the lower one's, which waits for it instead. Only the
// higher rank decides, so both come to the same end.
//
// Belongs to the thread that drives the mesh.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/poller.h"
#include "base/status.h"
#include "transport/candidate.h"
#include "transport/connection.h"
#include "transport/listeners.h"
#include "transport/mesh.h"
#include "transport/peer_address.h"
#include "transport/pending_link.h"

namespace tfring {

class Connector : public Caller {
 public:
  // Events with tokens from here on are the connector's.
  static constexpr uint64_t kFirstToken = uint64_t{1} << 32;

  // `addresses` is by rank. The options and the poller outlive the connector.
  Connector(const MeshOptions& options, Listeners listeners, std::vector<PeerAddress> addresses,
            Poller* poller);

  Status Listen();

  // Calls the rank until there is a connection, or options.timeout has passed.
  void Call(int peer) override;

  void OnEvent(uint64_t token);
  // What has waited long enough. Cheap when nothing is under way.
  void CheckTime();
  Duration UntilNextCheck() const;

  // What has come about since the last Take: a connection, or why there is none.
  struct Outcome {
    int peer;
    Result<Connection> connection;
  };
  bool has_outcomes() const { return !outcomes_.empty(); }
  std::vector<Outcome> Take() { return std::exchange(outcomes_, {}); }

  // Whether the rank is being called, or has been let in.
  bool IsOnItsWay(int peer) const {
    return at(peer).state == State::kCalling || at(peer).state == State::kAnswering;
  }
  bool HasLetIn(int peer) const { return at(peer).state == State::kAnswering; }
  // What went wrong with the last call, "" when nothing did.
  const std::string& problem(int peer) const { return at(peer).problem; }
  bool same_host(int peer) const { return at(peer).same_host; }

  // The rank is gone: no calls to it nor from it.
  void Dismiss(int peer);
  // No calls and answers any more, but those that have been let in still come.
  void Stop();

 private:
  using Candidates = std::map<uint64_t, Candidate>;
  enum class State {
    kIdle,
    kWaiting,    // to call again
    kCalling,    // by `candidate`
    kAnswering,  // `candidate` has been let in
    kUp,
    kGone,
  };
  struct Peer {
    PeerAddress address;
    bool same_host = false;
    State state = State::kIdle;
    bool wanted = false;  // by this rank
    uint64_t candidate = 0;
    int refusals = 0;  // of this rank's secret
    Deadline give_up{Duration(0)};
    std::string problem;
  };

  Peer& at(int peer) { return peers_[static_cast<size_t>(peer)]; }
  const Peer& at(int peer) const { return peers_[static_cast<size_t>(peer)]; }
  Status StartCall(int peer);
  std::string Where(int peer) const;
  void Retry(int peer, const Status& why);
  void GiveUp(int peer, const Status& why);
  void AcceptAll(int listener, bool local);
  void DropOldestStranger();
  Verdict Judge(uint64_t candidate, const Identity& caller);
  Status Add(uint64_t id, Candidate candidate);
  void Advance(Candidates::iterator at);
  void Fail(Candidates::iterator at, const Status& why);
  void FailCall(int peer, const Status& why, Verdict verdict);
  void Establish(Candidates::iterator at);
  void Drop(uint64_t candidate);
  bool IsLetIn(const Candidates::value_type& entry) const;

  const MeshOptions& options_;
  Listeners listeners_;
  Poller* const poller_;
  std::vector<Peer> peers_;  // by rank
  Candidates candidates_;
  uint64_t next_id_;
  std::vector<std::pair<Deadline, int>> retries_;
  std::vector<Outcome> outcomes_;
  Deadline accept_again_{Duration(0)};  // after a want of descriptors
  bool listening_ = false;
};

}  // namespace tfring
