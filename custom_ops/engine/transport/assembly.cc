#include "transport/assembly.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/log.h"
#include "base/poller.h"
#include "base/socket.h"
#include "transport/address_lookup.h"
#include "transport/candidate.h"
#include "transport/listeners.h"
#include "transport/roll.h"

namespace tfring {
namespace {

// Tokens of the poller: listeners, then connected ranks, then candidates.
constexpr uint64_t kTcpToken = 0;
constexpr uint64_t kUnixToken = 1;
constexpr uint64_t kFirstRankToken = 2;
constexpr uint64_t kFirstCandidate = uint64_t{1} << 32;

constexpr Duration kRetryPause{100};
// Incoming connections that have not proved the secret; beyond it the oldest goes.
constexpr size_t kMostStrangers = 256;
// A rank in a crowd of strangers may be taken for one of them, but hardly so often.
constexpr int kMostRefusals = 3;
constexpr char kAllConnected = 'R';

class Assembler {
 public:
  Assembler(const MeshOptions& options, Store& store)
      : options_(options),
        store_(store),
        deadline_(options.timeout),
        roll_(options.rank, options.size, options.generation) {}

  Result<std::vector<Connection>> Run();

 private:
  using Candidates = std::map<uint64_t, Candidate>;

  std::string Key(int rank) const {
    return "gen" + std::to_string(options_.generation) + "/mesh/" + std::to_string(rank);
  }

  Status Publish();
  Status Meet();
  Status Round();
  Duration UntilNextExpiry() const;
  Status CallThoseFound();
  Status Call(int peer, const PeerAddress& address);
  void Retry(int peer, const Status& why);
  Status AcceptAll(int listener, bool local);
  void DropOldestStranger();
  Status Add(Candidate candidate);
  Status Advance(Candidates::iterator at);
  Status FailCandidate(Candidates::iterator at, const Status& why);
  Status Establish(Candidates::iterator at);
  void Hear(int peer);
  void Lose(int peer);
  void SayReady();

  const MeshOptions& options_;
  Store& store_;
  const Deadline deadline_;
  std::unique_ptr<Poller> poller_;
  Listeners listeners_;
  bool published_ = false;
  Roll roll_;
  Candidates candidates_;
  uint64_t next_id_ = kFirstCandidate;
  std::vector<std::pair<Deadline, int>> retries_;
  std::optional<AddressLookup> lookup_;  // uses the poller, so it goes first
};

Result<std::vector<Connection>> Assembler::Run() {
  Status status = Meet();
  lookup_.reset();
  if (published_) {
    // Everybody has it by now, or nobody needs it.
    const Status deleted = store_.Delete(Key(options_.rank));
    if (!deleted.ok()) Log(LogLevel::kInfo, deleted.message());
  }
  if (!status.ok()) return status;
  return roll_.TakeConnections();
}

Status Assembler::Publish() {
  if (published_) return Status::Ok();
  published_ = true;
  return store_.Set(Key(options_.rank), listeners_.address.Encode());
}

Status Assembler::Meet() {
  auto poller = Poller::Make();
  if (!poller.ok()) return poller.status();
  poller_ = std::move(poller.value());
  auto listeners = Listeners::Open(options_, store_);
  if (!listeners.ok()) return listeners.status();
  listeners_ = std::move(listeners.value());
  TFR_RETURN_IF_ERROR(poller_->Add(listeners_.tcp.get(), EPOLLIN, kTcpToken));
  TFR_RETURN_IF_ERROR(poller_->Add(listeners_.local.get(), EPOLLIN, kUnixToken));
  if (options_.rank > 0) {
    lookup_.emplace(store_, [this](int rank) { return Key(rank); }, poller_.get());
    for (int peer = options_.rank - 1; peer >= 0; --peer) lookup_->Want(peer);
  } else {
    TFR_RETURN_IF_ERROR(Publish());
  }
  while (!roll_.AllReady()) {
    if (deadline_.passed()) return roll_.Missing(options_.timeout);
    TFR_RETURN_IF_ERROR(Round());
  }
  return Status::Ok();
}

Status Assembler::Round() {
  for (const Poller::Event& event : poller_->Wait(UntilNextExpiry())) {
    if (event.token == kTcpToken) {
      TFR_RETURN_IF_ERROR(AcceptAll(listeners_.tcp.get(), false));
    } else if (event.token == kUnixToken) {
      TFR_RETURN_IF_ERROR(AcceptAll(listeners_.local.get(), true));
    } else if (event.token < kFirstCandidate) {
      Hear(static_cast<int>(event.token - kFirstRankToken));
    } else {
      const auto at = candidates_.find(event.token);
      if (at != candidates_.end()) TFR_RETURN_IF_ERROR(Advance(at));
    }
  }
  for (auto at = candidates_.begin(); at != candidates_.end();) {
    const auto next = std::next(at);
    if (at->second.expiry().passed()) {
      TFR_RETURN_IF_ERROR(FailCandidate(at, {Code::kIo, "no answer in time"}));
    }
    at = next;
  }
  for (size_t i = 0; i < retries_.size();) {
    if (!retries_[i].first.passed()) {
      ++i;
      continue;
    }
    lookup_->Want(retries_[i].second);
    retries_.erase(retries_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (lookup_) TFR_RETURN_IF_ERROR(CallThoseFound());
  if (roll_.AllUp()) SayReady();
  return Status::Ok();
}

Duration Assembler::UntilNextExpiry() const {
  Duration wait = deadline_.remaining();
  for (const auto& entry : candidates_) wait = std::min(wait, entry.second.expiry().remaining());
  for (const auto& retry : retries_) wait = std::min(wait, retry.first.remaining());
  return wait;
}

Status Assembler::CallThoseFound() {
  for (AddressLookup::Found& found : lookup_->Take()) {
    if (!found.address.ok()) {
      return found.address.status().Annotate("looking for rank " + std::to_string(found.rank));
    }
    TFR_RETURN_IF_ERROR(Call(found.rank, found.address.value()));
  }
  return Status::Ok();
}

Status Assembler::Call(int peer, const PeerAddress& address) {
  const bool local = address.host_id == options_.host_id;
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
  const std::string where =
      local ? "unix socket @" + address.unix_name : AddressText(address.address, address.port);
  auto candidate = Candidate::Call(address, local, options_.ring_bytes, options_.secret, identity);
  if (!candidate.ok()) {
    Retry(peer, candidate.status().Annotate(where));
    return Status::Ok();
  }
  roll_.at(peer).problem = where + ": no answer yet";
  return Add(std::move(candidate.value()));
}

void Assembler::Retry(int peer, const Status& why) {
  roll_.at(peer).problem = why.message();
  retries_.emplace_back(Deadline(kRetryPause), peer);
}

Status Assembler::AcceptAll(int listener, bool local) {
  while (true) {
    auto socket = Accept(listener);
    if (!socket.ok()) return socket.status();
    if (!socket.value().valid()) return Status::Ok();
    DropOldestStranger();
    const uint64_t id = next_id_;
    auto candidate = Candidate::Answer(
        std::move(socket.value()), local, options_.secret,
        [this, id](const Identity& identity) { return roll_.Judge(id, identity); });
    if (!candidate.ok()) return candidate.status();
    TFR_RETURN_IF_ERROR(Add(std::move(candidate.value())));
  }
}

void Assembler::DropOldestStranger() {
  const auto stranger = [](const Candidates::value_type& entry) {
    return !entry.second.outgoing() && !entry.second.authenticated();
  };
  const auto strangers = std::count_if(candidates_.begin(), candidates_.end(), stranger);
  if (static_cast<size_t>(strangers) < kMostStrangers + static_cast<size_t>(options_.size)) return;
  // Rather one that has said nothing than one that may be about to prove itself.
  auto oldest = std::find_if(candidates_.begin(), candidates_.end(), [&](const auto& entry) {
    return stranger(entry) && entry.second.silent();
  });
  if (oldest == candidates_.end()) {
    oldest = std::find_if(candidates_.begin(), candidates_.end(), stranger);
  }
  candidates_.erase(oldest);
}

Status Assembler::Add(Candidate candidate) {
  const uint64_t id = next_id_++;
  TFR_RETURN_IF_ERROR(poller_->Add(candidate.fd(), candidate.events(), id));
  candidates_.emplace(id, std::move(candidate));
  return Status::Ok();
}

Status Assembler::Advance(Candidates::iterator at) {
  Candidate& candidate = at->second;
  const uint32_t before = candidate.events();
  Status status = candidate.Advance();
  if (!status.ok()) return FailCandidate(at, status);
  if (candidate.done()) return Establish(at);
  if (candidate.events() == before) return Status::Ok();
  return poller_->Modify(candidate.fd(), candidate.events(), at->first);
}

Status Assembler::FailCandidate(Candidates::iterator at, const Status& why) {
  const uint64_t id = at->first;
  const bool outgoing = at->second.outgoing();
  const int peer = at->second.peer();
  candidates_.erase(at);
  roll_.Unclaim(id);
  if (!outgoing) {
    const bool known = why.code() == Code::kInvalidArgument;
    Log(known ? LogLevel::kWarning : LogLevel::kInfo,
        "an incoming connection was dropped: " + why.message());
    return Status::Ok();
  }
  const bool refused = why.code() == Code::kUnauthenticated;
  if (why.code() == Code::kInvalidArgument ||
      (refused && ++roll_.at(peer).refusals >= kMostRefusals)) {
    return why.Annotate("connecting to rank " + std::to_string(peer));
  }
  Retry(peer, why);
  return Status::Ok();
}

Status Assembler::Establish(Candidates::iterator at) {
  const int peer = at->second.peer();
  Roll::Entry& entry = roll_.at(peer);
  entry.connection = at->second.TakeConnection();
  entry.up = true;
  entry.claimed_by = 0;
  candidates_.erase(at);
  TFR_RETURN_IF_ERROR(poller_->Modify(entry.connection.socket.get(), EPOLLIN | EPOLLRDHUP,
                                      kFirstRankToken + static_cast<uint64_t>(peer)));
  return peer == 0 ? Publish() : Status::Ok();
}

// What a connected rank says before it is done is one byte, or that it has gone.
void Assembler::Hear(int peer) {
  Roll::Entry& entry = roll_.at(peer);
  if (!entry.up || entry.ready) return;
  char byte = 0;
  const ssize_t got = recv(entry.connection.socket.get(), &byte, 1, 0);
  if (got == 1 && byte == kAllConnected) {
    entry.ready = true;
    poller_->Remove(entry.connection.socket.get());
  } else if (got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    Lose(peer);
  }
}

void Assembler::Lose(int peer) {
  roll_.Leave(peer);
  // It may start again, and then it is for the higher rank to call.
  if (peer < options_.rank) retries_.emplace_back(Deadline(kRetryPause), peer);
}

void Assembler::SayReady() {
  for (int peer = 0; peer < options_.size; ++peer) {
    Roll::Entry& entry = roll_.at(peer);
    if (peer == options_.rank || entry.told) continue;
    entry.told = true;
    // A fresh socket has room for a byte; failing, it has been closed.
    if (send(entry.connection.socket.get(), &kAllConnected, 1, MSG_NOSIGNAL) != 1) {
      Lose(peer);
      return;  // what was to be said is not true any more
    }
  }
}

}  // namespace

Result<std::vector<Connection>> Assemble(const MeshOptions& options, Store& store) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return Status(Code::kInvalidArgument, "expected a rank from 0 to size - 1, received rank " +
                                              std::to_string(options.rank) + " and size " +
                                              std::to_string(options.size));
  }
  if (options.size == 1) return std::vector<Connection>(1);
  return Assembler(options, store).Run();
}

}  // namespace tfring
