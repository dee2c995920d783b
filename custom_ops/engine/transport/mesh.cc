#include "transport/mesh.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/deadline.h"
#include "base/poller.h"
#include "transport/connector.h"
#include "transport/meeting.h"
#include "transport/mesh_link.h"
#include "transport/pending_link.h"
#include "transport/shm/shm_link.h"
#include "transport/tcp/tcp_link.h"

namespace tfring {
namespace {

// While nothing but shared memory is in use, Poll asks the poller (a system call) only
// every so many times: it has no more to tell than that a peer has gone, or wants to connect.
constexpr unsigned kPollsPerCheck = 64;

class DropFrames : public FrameSink {
 public:
  void OnFrame(int, const FrameHeader&, const uint8_t*) override {}
  void OnClosed(int, const Status&) override {}
};

class PeerMesh : public Mesh {
 public:
  PeerMesh(const MeshOptions& options, std::unique_ptr<Poller> poller)
      : options_(options), poller_(std::move(poller)) {}

  Status Join(Store& store);

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  const std::vector<int>& hosts() const override { return hosts_; }
  Link& link(int peer) override { return *peers_[static_cast<size_t>(peer)].link; }
  const std::vector<int>& neighbours() const override { return neighbours_; }
  bool in_touch(int peer) const override;
  void Dismiss(int peer) override;

  bool Poll(FrameSink& sink) override;
  bool Arm() override;
  bool Disarm() override;
  void Sleep(Duration timeout) override;
  void Rise() override;
  void Wake() override;
  void Close(Duration timeout) override;

 private:
  struct Peer {
    Link* link = nullptr;  // the one below, or `pending`
    std::unique_ptr<MeshLink> connected;
    std::unique_ptr<PendingLink> pending;
  };

  Status Adopt(int peer, Connection connection);
  bool TakeOutcomes(FrameSink& sink);
  void Deliver(const Poller::Events& events);
  bool AnybodyLetIn() const;
  template <class Condition>
  void PollUntil(const Deadline& deadline, Condition condition);

  const MeshOptions options_;
  std::unique_ptr<Poller> poller_;
  std::vector<Peer> peers_;  // by rank
  std::vector<int> hosts_;
  std::vector<int> neighbours_;
  std::unique_ptr<Connector> connector_;  // null at size 1
  std::vector<MeshLink*> live_;           // may have closed since the last Poll
  unsigned polls_ = 0;
  std::atomic<bool> armed_{false};
  bool delivered_ = false;      // by Rise, just now
  Poller::Events waited_ = {};  // what ended the last Sleep

  std::atomic<int64_t> longest_sleep_ms_{0};
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> wake_{false};
};

Status PeerMesh::Join(Store& store) {
  peers_.resize(static_cast<size_t>(options_.size));
  hosts_.assign(peers_.size(), 0);
  if (options_.size == 1) return Status::Ok();
  auto meeting = Meet(options_, store, poller_.get());
  if (!meeting.ok()) return meeting.status();
  connector_ = std::move(meeting.value().connector);
  hosts_ = std::move(meeting.value().hosts);
  neighbours_ = std::move(meeting.value().neighbours);
  for (int peer = 0; peer < options_.size; ++peer) {
    Peer& entry = peers_[static_cast<size_t>(peer)];
    entry.pending =
        std::make_unique<PendingLink>(peer, connector_->same_host(peer), connector_.get());
    entry.link = entry.pending.get();
  }
  for (size_t i = 0; i < neighbours_.size(); ++i) {
    TFR_RETURN_IF_ERROR(Adopt(neighbours_[i], std::move(meeting.value().connections[i])));
  }
  return Status::Ok();
}

// ---- Connections -----------------------------------------------------------------------

Status PeerMesh::Adopt(int peer, Connection connection) {
  Peer& entry = peers_[static_cast<size_t>(peer)];
  if (connection.rings) {
    entry.connected =
        std::make_unique<ShmLink>(peer, std::move(connection.socket), std::move(connection.rings));
  } else {
    entry.connected = std::make_unique<TcpLink>(peer, std::move(connection.socket));
  }
  TFR_RETURN_IF_ERROR(entry.connected->Attach(poller_.get(), static_cast<uint64_t>(peer)));
  entry.link = entry.connected.get();
  entry.pending->Adopt(entry.link);
  live_.push_back(entry.connected.get());
  return Status::Ok();
}

bool PeerMesh::TakeOutcomes(FrameSink& sink) {
  if (connector_ == nullptr || !connector_->has_outcomes()) return false;
  for (Connector::Outcome& outcome : connector_->Take()) {
    Status status = outcome.connection.status();
    if (status.ok()) status = Adopt(outcome.peer, std::move(outcome.connection.value()));
    if (status.ok()) continue;
    peers_[static_cast<size_t>(outcome.peer)].pending->Close();
    sink.OnClosed(outcome.peer,
                  {Code::kPeerLost, "no connection could be made: " + status.message()});
  }
  return true;
}

bool PeerMesh::in_touch(int peer) const {
  const Peer& entry = peers_[static_cast<size_t>(peer)];
  if (entry.connected != nullptr) return !entry.connected->closed();
  return connector_ != nullptr && connector_->IsOnItsWay(peer);
}

void PeerMesh::Dismiss(int peer) {
  connector_->Dismiss(peer);
  if (peers_[static_cast<size_t>(peer)].connected == nullptr) {
    peers_[static_cast<size_t>(peer)].pending->Close();
  }
}

// ---- Moving bytes ----------------------------------------------------------------------

bool PeerMesh::Poll(FrameSink& sink) {
  bool check = ++polls_ % kPollsPerCheck == 0;
  for (const MeshLink* link : live_) check = check || link->needs_poller();
  if (check && !delivered_) Deliver(poller_->Look());
  delivered_ = false;
  bool moved = TakeOutcomes(sink);
  bool any_closed = false;
  for (MeshLink* link : live_) {
    if (link->Poll(sink)) moved = true;
    any_closed = any_closed || link->closed();
  }
  if (any_closed) {
    const auto closed = [](const MeshLink* link) { return link->closed(); };
    live_.erase(std::remove_if(live_.begin(), live_.end(), closed), live_.end());
  }
  return moved;
}

void PeerMesh::Deliver(const Poller::Events& events) {
  for (const Poller::Event& event : events) {
    if (event.token >= Connector::kFirstToken) {
      connector_->OnEvent(event.token);
    } else {
      peers_[event.token].connected->OnEvents(event.events);
    }
  }
  if (connector_ != nullptr) connector_->CheckTime();
}

// ---- Sleeping --------------------------------------------------------------------------

bool PeerMesh::Arm() {
  armed_ = true;
  bool ready = connector_ != nullptr && connector_->has_outcomes();
  for (MeshLink* link : live_) {
    if (!ready) ready = link->PrepareToSleep();
  }
  if (connector_ != nullptr) longest_sleep_ms_ = connector_->UntilNextCheck().count();
  return !ready;
}

bool PeerMesh::Disarm() {
  if (!armed_.exchange(false)) return false;
  for (MeshLink* link : live_) link->EndSleep();
  return true;
}

void PeerMesh::Sleep(Duration timeout) {
  if (connector_ != nullptr) timeout = std::min(timeout, Duration(longest_sleep_ms_));
  // Sequentially consistent, as in Wake: one of the two sees what the other stored.
  sleeping_.store(true);
  const Duration longest = wake_.load() ? Duration(0) : timeout;
  if (armed_) {
    waited_ = poller_->Wait(longest);
  } else {
    // Somebody else drives: what comes in is not for this thread to wake up for, again and again
    // until the driver has read it.
    poller_->WaitForWake(longest);
  }
  sleeping_.store(false);
  // Not a store: reading what Wake has stored makes visible what came before it.
  wake_.exchange(false);
}

void PeerMesh::Rise() {
  Deliver(std::exchange(waited_, {}));
  delivered_ = true;
  Disarm();
}

void PeerMesh::Wake() {
  wake_.store(true);
  if (sleeping_.load()) poller_->Wake();
}

// ---- The end ---------------------------------------------------------------------------

bool PeerMesh::AnybodyLetIn() const {
  for (int peer = 0; connector_ != nullptr && peer < options_.size; ++peer) {
    if (connector_->HasLetIn(peer)) return true;
  }
  return false;
}

template <class Condition>
void PeerMesh::PollUntil(const Deadline& deadline, Condition condition) {
  DropFrames sink;
  while (true) {
    const bool moved = Poll(sink);
    const bool all = std::all_of(live_.begin(), live_.end(),
                                 [&](const MeshLink* link) { return condition(*link); });
    if ((all && !AnybodyLetIn()) || deadline.passed()) return;
    if (!moved) Wait(deadline.remaining());
  }
}

void PeerMesh::Close(Duration timeout) {
  const Deadline deadline(timeout);
  // Who has been let in may take this rank for connected, and has to hear what is queued.
  if (connector_ != nullptr) connector_->Stop();
  PollUntil(deadline, [](const MeshLink& link) { return link.flushed(); });
  for (MeshLink* link : live_) link->FinishSending();
  // Closing a TCP socket that has something unread makes the kernel throw away what the
  // peer has not got yet: so wait for the peer's end of the stream.
  PollUntil(deadline, [](const MeshLink& link) { return !link.needs_poller(); });
  for (MeshLink* link : live_) link->Close();
  live_.clear();
  for (const Peer& peer : peers_) {
    if (peer.pending != nullptr && peer.connected == nullptr) peer.pending->Close();
  }
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::Connect(const MeshOptions& options, Store& store) {
  const std::string context = "rank " + std::to_string(options.rank);
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return Status(Code::kInvalidArgument, "expected a rank from 0 to size - 1, received rank " +
                                              std::to_string(options.rank) + " and size " +
                                              std::to_string(options.size));
  }
  auto poller = Poller::Make();
  if (!poller.ok()) return poller.status().Annotate(context);
  auto mesh = std::make_unique<PeerMesh>(options, std::move(poller.value()));
  Status status = mesh->Join(store);
  if (!status.ok()) return status.Annotate(context);
  return std::unique_ptr<Mesh>(std::move(mesh));
}

}  // namespace tfring
