#include "rendezvous/store_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/socket.h"

namespace tfring {
namespace {

constexpr uint64_t kListenerToken = 0;

// Connections that have not proved the secret; beyond it the oldest goes.
constexpr size_t kMostStrangers = 256;

constexpr std::chrono::milliseconds kIdle{3600 * 1000};
constexpr std::chrono::milliseconds kAcceptPause{500};

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::Start(const std::string& host, int port,
                                                        const std::string& secret) {
  std::unique_ptr<StoreServer> server(new StoreServer());
  auto listener = ListenTcp(host, port);
  if (!listener.ok()) return listener.status().Annotate("store");
  auto bound = LocalPort(listener.value().get());
  if (!bound.ok()) return bound.status().Annotate("store");
  auto poller = Poller::Make();
  if (!poller.ok()) return poller.status().Annotate("store");
  server->secret_ = secret;
  server->listener_ = std::move(listener.value());
  server->port_ = bound.value();
  server->poller_ = std::move(poller.value());
  TFR_RETURN_IF_ERROR(
      server->poller_->Add(server->listener_.get(), EPOLLIN, kListenerToken).Annotate("store"));
  server->thread_ = std::thread([raw = server.get()] { raw->Run(); });
  return server;
}

StoreServer::~StoreServer() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  poller_->Wake();
  thread_.join();
}

void StoreServer::Run() {
  while (!stopping_.load()) {
    for (const Poller::Event& event : poller_->Wait(UntilNextExpiry())) {
      if (event.token == kListenerToken) {
        AcceptAll();
      } else {
        Serve(event.token, event.events);
      }
    }
    ExpireAll();
  }
  // A child of this process may hold the sockets as well: closing alone would not end them.
  shutdown(listener_.get(), SHUT_RDWR);
  for (const auto& entry : connections_) shutdown(entry.second->fd(), SHUT_RDWR);
  connections_.clear();
}

void StoreServer::AcceptAll() {
  while (true) {
    auto fd = Accept(listener_.get());
    if (!fd.ok()) {
      // Out of descriptors: pause, rather than spin on the queue.
      Log(LogLevel::kWarning, "store: " + fd.status().message());
      accepting_ = false;
      poller_->Remove(listener_.get());
      return;
    }
    if (!fd.value().valid()) return;
    SetNoDelay(fd.value().get());
    auto handshake = Handshake::Accept(Purpose::kStore, secret_,
                                       [](const Identity&) { return Verdict::kWelcome; });
    if (!handshake.ok()) continue;
    DropOldestStranger();
    const uint64_t id = next_id_++;
    auto connection =
        std::make_unique<StoreConnection>(std::move(fd.value()), std::move(handshake.value()));
    connection->armed = connection->events();
    if (!poller_->Add(connection->fd(), connection->armed, id).ok()) continue;
    connections_.emplace(id, std::move(connection));
  }
}

void StoreServer::DropOldestStranger() {
  size_t strangers = 0;
  auto oldest = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    if (at->second->authenticated()) continue;
    ++strangers;
    // Rather one that has said nothing than one that may be about to prove itself.
    const auto order = [](const Connections::value_type& entry) {
      return std::pair(!entry.second->silent(), entry.first);
    };
    if (oldest == connections_.end() || order(*at) < order(*oldest)) oldest = at;
  }
  if (strangers >= kMostStrangers) Drop(oldest);
}

void StoreServer::Serve(uint64_t id, uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;  // dropped in this round
  StoreConnection& connection = *found->second;
  const bool leaves = (events & (EPOLLHUP | EPOLLERR)) != 0 ||
                      ((events & EPOLLRDHUP) != 0 && connection.has_request());
  Status status = leaves ? Status(Code::kIo, "closed by the client") : connection.Advance();
  while (status.ok() && connection.has_request() && !connection.parked()) {
    Execute(connection);
    status = connection.Advance();
  }
  if (!status.ok()) {
    Log(connection.authenticated() ? LogLevel::kDebug : LogLevel::kInfo,
        "store: connection closed: " + status.message());
    Drop(found);
    return;
  }
  Arm(id, connection);
}

void StoreServer::Execute(StoreConnection& connection) {
  const std::string key = connection.key();
  const StoreRequest request = connection.request();
  switch (request.operation) {
    case StoreRequest::kSet:
      table_.Set(key, std::move(connection.value()));
      connection.Answer(Code::kOk, "");
      Deliver(key);
      return;
    case StoreRequest::kGet:
      if (const std::string* value = table_.Find(key)) {
        connection.Answer(Code::kOk, *value);
      } else {
        connection.Park(std::chrono::milliseconds(request.number));
      }
      return;
    case StoreRequest::kAdd: {
      auto sum = table_.Add(key, request.number);
      connection.Answer(sum.status().code(),
                        sum.ok() ? std::to_string(sum.value()) : sum.status().message());
      if (sum.ok()) Deliver(key);
      return;
    }
    case StoreRequest::kDelete:
      table_.Delete(key);
      connection.Answer(Code::kOk, "");
      return;
    case StoreRequest::kGather:
      Join(connection);
      return;
  }
}

void StoreServer::Join(StoreConnection& connection) {
  const std::string key = connection.key();
  auto gather = GatherValue::Decode(connection.value());
  Status status = gather.status();
  if (status.ok()) {
    status = gatherings_[key].Join(gather.value().rank, gather.value().size, gather.value().bytes);
  }
  if (!status.ok()) {
    const auto begun = gatherings_.find(key);
    if (begun != gatherings_.end() && begun->second.empty()) gatherings_.erase(begun);
    connection.Answer(status.code(), status.message());
    return;
  }
  connection.gather_rank = gather.value().rank;
  connection.Park(std::chrono::milliseconds(gather.value().timeout_ms));
  if (!gatherings_[key].complete()) return;
  const std::string all = EncodeGathered(gatherings_[key].Take());
  gatherings_.erase(key);
  const bool fits = all.size() <= kMaxValueBytes;
  for (auto& [id, other] : connections_) {
    if (!other->parked() || !other->gathers() || other->key() != key) continue;
    other->Answer(fits ? Code::kOk : Code::kInvalidArgument,
                  fits ? all : "the values of store key \"" + key + "\" are too large together");
    if (other.get() != &connection) Arm(id, *other);
  }
}

// What it put in must not be taken for that of a rank that is still there.
void StoreServer::LeaveGathering(const StoreConnection& connection) {
  if (!connection.parked() || !connection.gathers()) return;
  const auto found = gatherings_.find(connection.key());
  if (found == gatherings_.end()) return;
  found->second.Leave(connection.gather_rank);
  if (found->second.empty()) gatherings_.erase(found);
}

void StoreServer::Deliver(const std::string& key) {
  const std::string* value = table_.Find(key);
  for (auto& [id, connection] : connections_) {
    if (!connection->parked() || connection->gathers() || connection->key() != key) continue;
    connection->Answer(Code::kOk, *value);
    Arm(id, *connection);  // the socket is ready, so this is served in the next round
  }
}

void StoreServer::ExpireAll() {
  if (!accepting_) accepting_ = poller_->Add(listener_.get(), EPOLLIN, kListenerToken).ok();
  std::vector<uint64_t> gone;
  for (auto& [id, connection] : connections_) {
    if (connection->expiry() == nullptr || !connection->expiry()->passed()) continue;
    if (!connection->parked()) {
      gone.push_back(id);
      continue;
    }
    const Status expired = Expired(*connection);
    LeaveGathering(*connection);
    connection->Answer(expired.code(), expired.message());
    Arm(id, *connection);
  }
  for (const uint64_t id : gone) Drop(connections_.find(id));
}

Status StoreServer::Expired(const StoreConnection& connection) const {
  if (connection.gathers()) return gatherings_.at(connection.key()).Missing();
  return {Code::kTimeout, "store key \"" + connection.key() + "\" was not set within " +
                              std::to_string(connection.request().number) + " ms"};
}

std::chrono::milliseconds StoreServer::UntilNextExpiry() const {
  std::chrono::milliseconds wait = accepting_ ? kIdle : kAcceptPause;
  for (const auto& [id, connection] : connections_) {
    if (const Deadline* expiry = connection->expiry()) wait = std::min(wait, expiry->remaining());
  }
  return wait;
}

void StoreServer::Arm(uint64_t id, StoreConnection& connection) {
  const uint32_t events = connection.events();
  if (events == connection.armed) return;
  connection.armed = events;
  const Status status = poller_->Modify(connection.fd(), events, id);
  if (!status.ok()) Log(LogLevel::kError, "store: " + status.message());
}

void StoreServer::Drop(Connections::iterator connection) {
  LeaveGathering(*connection->second);
  poller_->Remove(connection->second->fd());
  connections_.erase(connection);
}

}  // namespace tfring
