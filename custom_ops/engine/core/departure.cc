// Ranks that leave in good order, and those that fall silent.
//
// A rank that leaves says so to all that it has a connection with. These pass it on, so that
// also those learn of it that have none. But what the rank has sent before may still be under
// way on its own link: as long as there is one, only its own word counts.
//
// Heartbeats go to the neighbours in the overlay. A rank some of whose neighbours may have left
// sends them on all its links; whoever has had one expects more.
#include <algorithm>
#include <cstring>

#include "core/control_frame.h"
#include "core/conversations.h"

namespace tfring {

// The payload: ranks (4 bytes each) that have left. None: the sender.
void Conversations::OnBye(int rank, const FrameHeader& header, const uint8_t* payload) {
  if (header.bytes == 0) {
    Depart(rank);
    return;
  }
  for (size_t at = 0; at + sizeof(int32_t) <= header.bytes; at += sizeof(int32_t)) {
    int32_t left = -1;
    std::memcpy(&left, payload + at, sizeof(left));
    if (left < 0 || left >= mesh_.size() || left == mesh_.rank() || departed_[left]) continue;
    if (!mesh_.in_touch(left)) {
      Depart(left);
    } else if (std::find(leaving_.begin(), leaving_.end(), left) == leaving_.end()) {
      leaving_.push_back(left);
    }
  }
}

void Conversations::Depart(int rank) {
  if (departed_[rank]) return;
  departed_[rank] = 1;
  // Where all are connected each has heard it itself.
  if (static_cast<int>(mesh_.neighbours().size()) + 1 < mesh_.size()) departures_.push_back(rank);
  if (!mesh_.in_touch(rank)) mesh_.Dismiss(rank);
  for (auto next = pending_.begin(); next != pending_.end();) {
    Operation& operation = **next++;
    if (operation.set().members[rank] < 0 || !operation.statements.empty()) continue;
    const Status missing = MissingPeer(operation);
    if (!missing.ok()) Fail(NameOfOperation(operation), missing, true);
  }
}

// Together, since ranks use to leave at the same time.
void Conversations::SpreadDepartures() {
  if (departures_.empty()) return;
  std::string payload(departures_.size() * sizeof(int32_t), '\0');
  for (size_t i = 0; i < departures_.size(); ++i) {
    const int32_t rank = departures_[i];
    std::memcpy(payload.data() + i * sizeof(rank), &rank, sizeof(rank));
  }
  departures_.clear();
  SendToConnected(FrameType::kBye, payload);
}

void Conversations::CheckLeaving() {
  const std::vector<int> leaving = std::move(leaving_);
  leaving_.clear();
  for (int rank : leaving) {
    if (departed_[rank]) continue;
    if (mesh_.in_touch(rank)) {
      leaving_.push_back(rank);
    } else {
      Depart(rank);
    }
  }
}

void Conversations::OnClosed(int rank, const Status& why) {
  if (departed_[rank]) return;
  if (std::find(leaving_.begin(), leaving_.end(), rank) != leaving_.end()) {
    Depart(rank);
  } else {
    Lose(rank, why.message());
  }
}

// ---- Signs of life ---------------------------------------------------------------------

void Conversations::SendHeartbeats() {
  const bool incomplete = std::find(departed_.begin(), departed_.end(), 1) != departed_.end();
  if (incomplete) {
    SendToConnected(FrameType::kHeartbeat, "");
    return;
  }
  for (int rank : mesh_.neighbours()) {
    SendControlFrame(mesh_.link(rank), FrameType::kHeartbeat, FrameHeader());
  }
}

void Conversations::CheckSilence(TimePoint now, Duration timeout) {
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    if (!watched_[rank] || departed_[rank] || now - last_heard_[rank] <= timeout) continue;
    Lose(rank,
         "no sign of life for " + std::to_string(timeout.count() / 1000.0).substr(0, 5) + " s");
  }
}

}  // namespace tfring
