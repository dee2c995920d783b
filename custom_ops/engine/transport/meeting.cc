#include "transport/meeting.h"

#include <sys/epoll.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "transport/listeners.h"
#include "transport/overlay.h"

namespace tfring {
namespace {

constexpr size_t kMostNamed = 16;
constexpr uint64_t kInterruptionToken = Connector::kFirstToken - 1;  // above all ranks

class Host {
 public:
  Host(const MeshOptions& options, Store& store, Poller* poller)
      : options_(options), store_(store), poller_(poller), deadline_(options.timeout) {}

  Result<Meeting> Run();

 private:
  std::string Key(const char* name) const {
    return "gen" + std::to_string(options_.generation) + "/" + name;
  }
  Result<std::vector<std::string>> Gather(const char* name, const std::string& value);
  Status ExchangeAddresses();
  Status ConnectToNeighbours();
  Status Round();
  Status TakeOutcomes();
  size_t IndexOf(int peer) const;
  Status Missing() const;

  const MeshOptions& options_;
  Store& store_;
  Poller* const poller_;
  const Deadline deadline_;
  Meeting meeting_;
  size_t connected_ = 0;
};

Result<Meeting> Host::Run() {
  TFR_RETURN_IF_ERROR(ExchangeAddresses());
  meeting_.neighbours = NeighboursOf(options_.rank, options_.size);
  meeting_.connections.resize(meeting_.neighbours.size());
  TFR_RETURN_IF_ERROR(ConnectToNeighbours());
  auto done = Gather("connected", "");
  if (!done.ok()) return done.status();
  for (Connection& connection : meeting_.connections) poller_->Remove(connection.socket.get());
  return std::move(meeting_);
}

Result<std::vector<std::string>> Host::Gather(const char* name, const std::string& value) {
  auto values =
      store_.Gather(Key(name), options_.rank, options_.size, value, deadline_.remaining());
  if (values.ok() || values.status().code() != Code::kTimeout) return values;
  std::ostringstream text;
  text << "after " << static_cast<double>(options_.timeout.count()) / 1000 << " s "
       << values.status().message();
  return Status(Code::kTimeout, text.str());
}

Status Host::ExchangeAddresses() {
  auto listeners = Listeners::Open(options_, store_);
  if (!listeners.ok()) return listeners.status();
  auto values = Gather("addresses", listeners.value().address.Encode());
  if (!values.ok()) return values.status();
  std::vector<PeerAddress> addresses;
  std::map<std::string, int> numbers;
  for (const std::string& value : values.value()) {
    auto address = PeerAddress::Decode(value);
    if (!address.ok()) return address.status();
    const int next = static_cast<int>(numbers.size());
    meeting_.hosts.push_back(numbers.emplace(address.value().host_id, next).first->second);
    addresses.push_back(std::move(address.value()));
  }
  meeting_.connector = std::make_unique<Connector>(options_, std::move(listeners.value()),
                                                   std::move(addresses), poller_);
  return meeting_.connector->Listen();
}

Status Host::ConnectToNeighbours() {
  const Interruption* const interruption = options_.interruption.get();
  if (interruption != nullptr) {
    TFR_RETURN_IF_ERROR(poller_->Add(interruption->fd(), EPOLLIN, kInterruptionToken));
  }
  for (int peer : meeting_.neighbours) {
    if (peer < options_.rank) meeting_.connector->Call(peer);
  }
  while (true) {
    TFR_RETURN_IF_ERROR(TakeOutcomes());
    if (connected_ == meeting_.neighbours.size()) break;
    if (deadline_.passed()) return Missing();
    TFR_RETURN_IF_ERROR(Round());
  }
  if (interruption != nullptr) poller_->Remove(interruption->fd());
  return Status::Ok();
}

Status Host::Round() {
  const Duration wait = std::min(deadline_.remaining(), meeting_.connector->UntilNextCheck());
  for (const Poller::Event& event : poller_->Wait(wait)) {
    if (event.token == kInterruptionToken) return options_.interruption->why();
    if (event.token >= Connector::kFirstToken) {
      meeting_.connector->OnEvent(event.token);
      continue;
    }
    return {Code::kPeerLost,
            "rank " + std::to_string(event.token) + " has gone before all ranks were connected"};
  }
  meeting_.connector->CheckTime();
  return Status::Ok();
}

Status Host::TakeOutcomes() {
  for (Connector::Outcome& outcome : meeting_.connector->Take()) {
    const std::string context = "connecting to rank " + std::to_string(outcome.peer);
    if (!outcome.connection.ok()) {
      const Status& why = outcome.connection.status();
      return deadline_.passed() ? Missing() : why.Annotate(context);
    }
    Connection& connection = meeting_.connections[IndexOf(outcome.peer)];
    connection = std::move(outcome.connection.value());
    // Only the end is of interest now: frames may come already, but nobody takes them.
    TFR_RETURN_IF_ERROR(
        poller_->Add(connection.socket.get(), EPOLLRDHUP, static_cast<uint64_t>(outcome.peer)));
    ++connected_;
  }
  return Status::Ok();
}

size_t Host::IndexOf(int peer) const {
  const auto at = std::lower_bound(meeting_.neighbours.begin(), meeting_.neighbours.end(), peer);
  return static_cast<size_t>(at - meeting_.neighbours.begin());
}

Status Host::Missing() const {
  std::ostringstream text;
  text << "after " << static_cast<double>(options_.timeout.count()) / 1000
       << " s there is no connection to";
  size_t named = 0;
  for (size_t i = 0; i < meeting_.neighbours.size(); ++i) {
    const int peer = meeting_.neighbours[i];
    if (meeting_.connections[i].socket.valid() || ++named > kMostNamed) continue;
    text << (named > 1 ? ", rank " : " rank ") << peer;
    const std::string& problem = meeting_.connector->problem(peer);
    if (!problem.empty()) text << " (" << problem << ")";
  }
  if (named > kMostNamed) text << " and " << named - kMostNamed << " more";
  text << "; the job has " << options_.size << " ranks";
  return {Code::kTimeout, text.str()};
}

}  // namespace

Result<Meeting> Meet(const MeshOptions& options, Store& store, Poller* poller) {
  return Host(options, store, poller).Run();
}

}  // namespace tfring
