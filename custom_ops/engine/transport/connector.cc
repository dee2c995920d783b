#include "transport/connector.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "base/socket.h"

namespace tfring {
namespace {

constexpr uint64_t kTcpToken = Connector::kFirstToken;
constexpr uint64_t kUnixToken = Connector::kFirstToken + 1;
constexpr uint64_t kFirstCandidate = Connector::kFirstToken + 2;

constexpr Duration kRetryPause{100};
constexpr Duration kAcceptPause{500};
// Incoming connections that have not proved the secret; beyond it the oldest goes.
constexpr size_t kMostStrangers = 256;
// A rank in a crowd of strangers may be taken for one of them, but hardly so often.
constexpr int kMostRefusals = 3;

}  // namespace

Connector::Connector(const MeshOptions& options, Listeners listeners,
                     std::vector<PeerAddress> addresses, Poller* poller)
    : options_(options),
      listeners_(std::move(listeners)),
      poller_(poller),
      peers_(addresses.size()),
      next_id_(kFirstCandidate) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    peers_[i].same_host = addresses[i].host_id == options.host_id;
    peers_[i].address = std::move(addresses[i]);
  }
}

Status Connector::Listen() {
  listening_ = true;
  TFR_RETURN_IF_ERROR(poller_->Add(listeners_.tcp.get(), EPOLLIN, kTcpToken));
  return poller_->Add(listeners_.local.get(), EPOLLIN, kUnixToken);
}

// ---- Calling ---------------------------------------------------------------------------

void Connector::Call(int peer) {
  if (!at(peer).wanted) {
    at(peer).wanted = true;
    at(peer).give_up = Deadline(options_.timeout);
  }
  if (at(peer).state != State::kIdle) return;
  const Status status = StartCall(peer);
  if (!status.ok()) GiveUp(peer, status);
}

Status Connector::StartCall(int peer) {
  Peer& entry = at(peer);
  const PeerAddress& address = entry.address;
  const bool local = entry.same_host;
  if (!local && IsLoopback(address.address) && !IsLoopback(listeners_.address.address)) {
    return {Code::kInvalidArgument,
            "rank " + std::to_string(peer) + " listens on " + address.address +
                ", which other hosts can't reach: it must reach the store by an address that "
                "they can, or be given a listen address"};
  }
  Identity identity;
  identity.generation = options_.generation;
  identity.rank = options_.rank;
  identity.size = options_.size;
  identity.target = peer;
  auto candidate = Candidate::Call(address, local, options_.ring_bytes, options_.secret, identity);
  if (!candidate.ok()) {
    Retry(peer, candidate.status());
    return Status::Ok();
  }
  if (entry.problem.empty()) entry.problem = Where(peer) + ": no answer yet";
  entry.state = State::kCalling;
  entry.candidate = next_id_++;
  return Add(entry.candidate, std::move(candidate.value()));
}

std::string Connector::Where(int peer) const {
  const PeerAddress& address = at(peer).address;
  return at(peer).same_host ? "unix socket @" + address.unix_name
                            : AddressText(address.address, address.port);
}

void Connector::Retry(int peer, const Status& why) {
  const Status annotated = why.Annotate(Where(peer));
  at(peer).problem = annotated.message();
  if (at(peer).give_up.passed()) {
    GiveUp(peer, annotated);
    return;
  }
  at(peer).state = State::kWaiting;
  retries_.emplace_back(Deadline(kRetryPause), peer);
}

void Connector::GiveUp(int peer, const Status& why) {
  at(peer).state = State::kGone;
  at(peer).problem = why.message();
  outcomes_.push_back({peer, why});
}

void Connector::FailCall(int peer, const Status& why, Verdict verdict) {
  if (verdict == Verdict::kCrossed) {
    Retry(peer, why);  // its call is on the way
    return;
  }
  const bool refused = why.code() == Code::kUnauthenticated;
  if (why.code() == Code::kInvalidArgument || (refused && ++at(peer).refusals >= kMostRefusals)) {
    GiveUp(peer, why);
    return;
  }
  Retry(peer, why);
}

// ---- Answering -------------------------------------------------------------------------

void Connector::AcceptAll(int listener, bool local) {
  while (listening_) {
    auto socket = Accept(listener);
    if (!socket.ok()) {
      // Out of descriptors: pause, rather than turn around in the poller.
      Log(LogLevel::kWarning, "connections have to wait: " + socket.status().message());
      poller_->Remove(listeners_.tcp.get());
      poller_->Remove(listeners_.local.get());
      listening_ = false;
      accept_again_ = Deadline(kAcceptPause);
      return;
    }
    if (!socket.value().valid()) return;
    DropOldestStranger();
    const uint64_t id = next_id_++;
    auto candidate =
        Candidate::Answer(std::move(socket.value()), local, options_.secret,
                          [this, id](const Identity& identity) { return Judge(id, identity); });
    if (candidate.ok()) {
      const Status added = Add(id, std::move(candidate.value()));
      if (!added.ok()) Log(LogLevel::kWarning, added.message());
    }
  }
}

void Connector::DropOldestStranger() {
  const auto stranger = [](const Candidates::value_type& entry) {
    return !entry.second.outgoing() && !entry.second.authenticated();
  };
  const auto strangers = std::count_if(candidates_.begin(), candidates_.end(), stranger);
  if (static_cast<size_t>(strangers) < kMostStrangers + peers_.size()) return;
  // Rather one that has said nothing than one that may be about to prove itself.
  auto oldest = std::find_if(candidates_.begin(), candidates_.end(), [&](const auto& entry) {
    return stranger(entry) && entry.second.silent();
  });
  if (oldest == candidates_.end()) {
    oldest = std::find_if(candidates_.begin(), candidates_.end(), stranger);
  }
  candidates_.erase(oldest);
}

Verdict Connector::Judge(uint64_t candidate, const Identity& caller) {
  if (caller.generation != options_.generation) return Verdict::kOtherGeneration;
  if (caller.size != options_.size) return Verdict::kOtherSize;
  if (caller.target != options_.rank || caller.rank == options_.rank || caller.rank < 0 ||
      caller.rank >= options_.size) {
    return Verdict::kBadRank;
  }
  Peer& entry = at(caller.rank);
  if (entry.state == State::kGone) return Verdict::kRankTaken;
  // Up: the caller has let this rank's call in meanwhile, and does not wait for this answer.
  const bool lower = caller.rank < options_.rank;
  if (entry.state == State::kUp || (entry.state == State::kCalling && lower)) {
    return Verdict::kCrossed;
  }
  // The own call, or one of the same rank that it has given up by now.
  if (entry.state == State::kCalling || entry.state == State::kAnswering) Drop(entry.candidate);
  entry.state = State::kAnswering;
  entry.candidate = candidate;
  return Verdict::kWelcome;
}

// ---- Both ------------------------------------------------------------------------------

Status Connector::Add(uint64_t id, Candidate candidate) {
  TFR_RETURN_IF_ERROR(poller_->Add(candidate.fd(), candidate.events(), id));
  candidates_.emplace(id, std::move(candidate));
  return Status::Ok();
}

void Connector::Drop(uint64_t candidate) {
  const auto found = candidates_.find(candidate);
  if (found == candidates_.end()) return;
  poller_->Remove(found->second.fd());
  candidates_.erase(found);
}

bool Connector::IsLetIn(const Candidates::value_type& entry) const {
  const int peer = entry.second.peer();
  return !entry.second.outgoing() && peer >= 0 && peer < options_.size &&
         at(peer).state == State::kAnswering && at(peer).candidate == entry.first;
}

void Connector::OnEvent(uint64_t token) {
  if (token == kTcpToken) {
    AcceptAll(listeners_.tcp.get(), false);
  } else if (token == kUnixToken) {
    AcceptAll(listeners_.local.get(), true);
  } else {
    const auto found = candidates_.find(token);
    if (found != candidates_.end()) Advance(found);
  }
}

void Connector::Advance(Candidates::iterator at) {
  Candidate& candidate = at->second;
  const uint32_t before = candidate.events();
  Status status = candidate.Advance();
  if (status.ok() && candidate.done()) {
    Establish(at);
    return;
  }
  if (status.ok() && candidate.events() != before) {
    status = poller_->Modify(candidate.fd(), candidate.events(), at->first);
  }
  if (!status.ok()) Fail(at, status);
}

void Connector::Fail(Candidates::iterator failed, const Status& why) {
  const uint64_t id = failed->first;
  const bool let_in = IsLetIn(*failed);
  const bool outgoing = failed->second.outgoing();
  const int peer = failed->second.peer();
  const Verdict verdict = failed->second.verdict();
  Drop(id);
  if (outgoing) {
    if (at(peer).state == State::kCalling && at(peer).candidate == id) {
      FailCall(peer, why, verdict);
    }
    return;
  }
  const bool known = why.code() == Code::kInvalidArgument && verdict != Verdict::kCrossed;
  Log(known ? LogLevel::kWarning : LogLevel::kInfo,
      "an incoming connection was dropped: " + why.message());
  if (!let_in) return;
  if (at(peer).wanted) {
    Retry(peer, why);
  } else {
    at(peer).state = State::kIdle;
  }
}

void Connector::Establish(Candidates::iterator established) {
  const int peer = established->second.peer();
  poller_->Remove(established->second.fd());
  at(peer).state = State::kUp;
  at(peer).problem.clear();
  outcomes_.push_back({peer, established->second.TakeConnection()});
  candidates_.erase(established);
}

void Connector::CheckTime() {
  if (!listening_ && listeners_.tcp.valid() && accept_again_.passed() && !Listen().ok()) {
    accept_again_ = Deadline(kAcceptPause);
    listening_ = false;
  }
  for (auto at = candidates_.begin(); at != candidates_.end();) {
    const auto next = std::next(at);
    if (at->second.expiry().passed()) Fail(at, {Code::kIo, "no answer in time"});
    at = next;
  }
  for (size_t i = 0; i < retries_.size();) {
    const int peer = retries_[i].second;
    if (!retries_[i].first.passed()) {
      ++i;
      continue;
    }
    retries_.erase(retries_.begin() + static_cast<std::ptrdiff_t>(i));
    if (at(peer).state != State::kWaiting) continue;
    const Status status = StartCall(peer);
    if (!status.ok()) GiveUp(peer, status);
  }
}

Duration Connector::UntilNextCheck() const {
  Duration wait{3600 * 1000};
  if (!listening_ && listeners_.tcp.valid()) wait = accept_again_.remaining();
  for (const auto& entry : candidates_) wait = std::min(wait, entry.second.expiry().remaining());
  for (const auto& retry : retries_) wait = std::min(wait, retry.first.remaining());
  return wait;
}

// ---- The end ---------------------------------------------------------------------------

void Connector::Dismiss(int peer) {
  Peer& entry = at(peer);
  if (entry.state == State::kCalling || entry.state == State::kAnswering) Drop(entry.candidate);
  entry.state = State::kGone;
}

void Connector::Stop() {
  if (listening_) {
    poller_->Remove(listeners_.tcp.get());
    poller_->Remove(listeners_.local.get());
    listening_ = false;
  }
  listeners_.tcp.Reset();
  listeners_.local.Reset();
  retries_.clear();
  for (auto next = candidates_.begin(); next != candidates_.end();) {
    const auto current = next++;
    if (!IsLetIn(*current)) Drop(current->first);
  }
  for (Peer& entry : peers_) {
    if (entry.state != State::kAnswering && entry.state != State::kUp) entry.state = State::kGone;
  }
}

}  // namespace tfring
