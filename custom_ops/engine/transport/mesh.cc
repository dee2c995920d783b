#include "transport/mesh.h"

#include <atomic>
#include <map>
#include <utility>

#include "base/deadline.h"
#include "base/poller.h"
#include "transport/assembly.h"
#include "transport/mesh_link.h"
#include "transport/shm/shm_link.h"
#include "transport/tcp/tcp_link.h"

namespace tfring {
namespace {

// While nothing but shared memory is in use, Poll asks the poller (a system call) only
// every so many times: it has no more to tell than that a peer has gone.
constexpr unsigned kPollsPerCheck = 64;

class DropFrames : public FrameSink {
 public:
  void OnFrame(int, const FrameHeader&, const uint8_t*) override {}
  void OnClosed(int, const Status&) override {}
};

Result<std::vector<int>> NumberHosts(const MeshOptions& options, Store& store) {
  const std::string prefix = "host/" + std::to_string(options.generation) + "/";
  TFR_RETURN_IF_ERROR(store.Set(prefix + std::to_string(options.rank), options.host_id));
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (int rank = 0; rank < options.size; ++rank) {
    auto id = store.Get(prefix + std::to_string(rank), options.timeout);
    if (!id.ok()) return id.status();
    const int next = static_cast<int>(numbers.size());
    hosts.push_back(numbers.emplace(id.value(), next).first->second);
  }
  return hosts;
}

class PeerMesh : public Mesh {
 public:
  PeerMesh(int rank, std::vector<int> hosts, std::unique_ptr<Poller> poller)
      : rank_(rank), hosts_(std::move(hosts)), poller_(std::move(poller)) {}

  Status Adopt(std::vector<Connection> connections);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links_.size()); }
  const std::vector<int>& hosts() const override { return hosts_; }
  Link& link(int peer) override { return *links_[static_cast<size_t>(peer)]; }

  bool Poll(FrameSink& sink) override;
  bool Arm() override;
  bool Disarm() override;
  void Sleep(Duration timeout) override;
  void Rise() override;
  void Wake() override;
  void Close(Duration timeout) override;

 private:
  void Deliver(const Poller::Events& events);
  template <class Condition>
  void PollUntil(const Deadline& deadline, Condition condition);

  const int rank_;
  const std::vector<int> hosts_;
  std::unique_ptr<Poller> poller_;
  std::vector<std::unique_ptr<MeshLink>> links_;  // by rank, null for the own one
  unsigned polls_ = 0;
  std::atomic<bool> armed_{false};
  bool delivered_ = false;      // by Rise, just now
  Poller::Events waited_ = {};  // what ended the last Sleep

  std::atomic<bool> sleeping_{false};
  std::atomic<bool> wake_{false};
};

Status PeerMesh::Adopt(std::vector<Connection> connections) {
  for (size_t peer = 0; peer < connections.size(); ++peer) {
    Connection& connection = connections[peer];
    const int number = static_cast<int>(peer);
    if (number == rank_) {
      links_.push_back(nullptr);
      continue;
    }
    if (connection.rings) {
      links_.push_back(std::make_unique<ShmLink>(number, std::move(connection.socket),
                                                 std::move(connection.rings)));
    } else {
      links_.push_back(std::make_unique<TcpLink>(number, std::move(connection.socket)));
    }
    TFR_RETURN_IF_ERROR(links_.back()->Attach(poller_.get(), peer));
  }
  return Status::Ok();
}

bool PeerMesh::Poll(FrameSink& sink) {
  bool check = ++polls_ % kPollsPerCheck == 0;
  for (const auto& link : links_) check = check || (link && link->needs_poller());
  if (check && !delivered_) Deliver(poller_->Look());
  delivered_ = false;
  bool moved = false;
  for (const auto& link : links_) {
    if (link && link->Poll(sink)) moved = true;
  }
  return moved;
}

void PeerMesh::Deliver(const Poller::Events& events) {
  for (const Poller::Event& event : events) links_[event.token]->OnEvents(event.events);
}

bool PeerMesh::Arm() {
  armed_ = true;
  bool ready = false;
  for (const auto& link : links_) {
    if (link && !ready) ready = link->PrepareToSleep();
  }
  return !ready;
}

bool PeerMesh::Disarm() {
  if (!armed_.exchange(false)) return false;
  for (const auto& link : links_) {
    if (link) link->EndSleep();
  }
  return true;
}

void PeerMesh::Sleep(Duration timeout) {
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

template <class Condition>
void PeerMesh::PollUntil(const Deadline& deadline, Condition condition) {
  DropFrames sink;
  while (true) {
    const bool moved = Poll(sink);
    bool all = true;
    for (const auto& link : links_) all = all && (!link || condition(*link));
    if (all || deadline.passed()) return;
    if (!moved) Wait(deadline.remaining());
  }
}

void PeerMesh::Close(Duration timeout) {
  const Deadline deadline(timeout);
  PollUntil(deadline, [](const MeshLink& link) { return link.flushed(); });
  for (const auto& link : links_) {
    if (link) link->FinishSending();
  }
  // Closing a TCP socket that has something unread makes the kernel throw away what the
  // peer has not got yet: so wait for the peer's end of the stream.
  PollUntil(deadline, [](const MeshLink& link) { return !link.needs_poller(); });
  for (const auto& link : links_) {
    if (link) link->Close();
  }
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::Connect(const MeshOptions& options, Store& store) {
  const std::string context = "rank " + std::to_string(options.rank);
  auto poller = Poller::Make();
  if (!poller.ok()) return poller.status().Annotate(context);
  auto connections = Assemble(options, store);
  if (!connections.ok()) return connections.status().Annotate(context);
  auto hosts = NumberHosts(options, store);
  if (!hosts.ok()) return hosts.status().Annotate(context);
  auto mesh =
      std::make_unique<PeerMesh>(options.rank, std::move(hosts.value()), std::move(poller.value()));
  Status status = mesh->Adopt(std::move(connections.value()));
  if (!status.ok()) return status.Annotate(context);
  return std::unique_ptr<Mesh>(std::move(mesh));
}

}  // namespace tfring
