// Runs Plans: one rank's part of one operation, over links it knows only as such.
//
// Between this rank and each peer run two byte streams. A send cuts its bytes into frames
// and appends them to the stream; the peer's receives take them off in the same order.
// What arrives before its turn (an earlier operand is missing, the program has not begun)
// is put aside here, so that a link never waits for one operation while it could serve
// another: that is what makes any order of submission free of deadlock.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "core/flat_buffer.h"
#include "core/plan.h"
#include "core/reducer.h"
#include "core/timeline_times.h"
#include "transport/link.h"

namespace tfring {

using Bytes = std::vector<uint8_t>;

class Executor {
 public:
  // For a process set of `members`, of which this rank is `self`.
  Executor(int members, int self) : peers_(static_cast<size_t>(members)), self_(self) {}

  // For another operation: the one before it is done, or its links have been released.
  // `link_of(member)` gives the link to every other member; `header` is that of the
  // operation's data frames but for the length.
  template <class LinkOf>
  void Renew(const FrameHeader& header, LinkOf link_of) {
    header_ = header;
    times_ = nullptr;
    waits_for_link_ = false;
    sent_bytes_ = received_bytes_ = 0;
    for (int member = 0; member < static_cast<int>(peers_.size()); ++member) {
      peers_[member] = Peer();
      if (member != self_) peers_[member].link = link_of(member);
    }
  }

  // Takes up a plan; the one before it is done. Streams go on where they are.
  void Start(std::shared_ptr<const Plan> plan, const FlatBuffer* buffer, Reducer reducer);

  // Bytes from a member's stream. kInternal when they can't be part of it.
  // `delivered`: they are what the link delivers just now.
  Status OnData(int member, const uint8_t* data, size_t bytes, bool delivered);

  // The member's link keeps nothing for this operation any more.
  void CopyKept(int member);

  // The member takes more than the eager window.
  void OnReady(int member) { peers_[member].ready = true; }

  // Does what can be done now; true when anything was.
  bool Advance();

  // Every receive has arrived and every send has left.
  bool done() const;

  // When it last advanced, sends waited for room on a link or had not left it: Advance
  // again after a Poll.
  bool waits_for_link() const { return waits_for_link_; }

  // Whether more is expected from the member, or has still to go to it.
  bool needs(int member) const;

  // All members that data is expected from have sent some.
  bool all_started() const;

  // Whether the programs so far bring more from the member than the eager window.
  bool expects_much(int member) const { return peers_[member].expected > kEagerBytes; }

  // Measures its work from now on.
  void Measure(OperationTimes* times) { times_ = times; }

  // The links must not refer to the operation's memory any more (it fails).
  void ReleaseLinks();

  int64_t sent_bytes() const { return sent_bytes_; }
  int64_t received_bytes() const { return received_bytes_; }

 private:
  // What came before its turn: the link's memory while that keeps it, else a copy.
  struct Aside {
    const uint8_t* data = nullptr;
    size_t bytes = 0;
    size_t used = 0;
    bool kept = false;
    Bytes copy;
  };
  struct Peer {
    Link* link = nullptr;
    const Plan::Peer* plan = nullptr;
    size_t next_send = 0;
    size_t send_at = 0;  // bytes of the next send already in frames
    size_t next_receive = 0;
    size_t receive_at = 0;  // bytes of the next receive already taken
    std::list<Aside> aside;
    uint64_t frames_taken = 0;  // by the link
    uint64_t frames_left = 0;   // counted by the link
    size_t sent = 0;            // bytes of the whole stream, over all programs
    size_t expected = 0;        // likewise
    size_t arrived = 0;         // likewise, what is aside included
    bool started = false;       // its first bytes are here
    bool ready = false;
    bool blocked = false;  // the link had no room
  };

  const Program& program() const { return plan_->program; }
  bool Receivable(const Receive& receive);
  // Takes what the peer's next receives can use of [data, data + bytes); gives its size.
  size_t Consume(Peer& peer, const uint8_t* data, size_t bytes);
  void FinishReceive(Peer& peer);
  void PutAside(Peer& peer, const uint8_t* data, size_t bytes, size_t used, bool delivered);
  bool ConsumeAside(Peer& peer);
  bool ReceiveFromSelf();
  bool SkipEmptyReceives(Peer& peer);
  bool PumpSends(Peer& peer);
  bool HasFramesToLeave() const;
  bool SendFrame(Peer& peer, const Send& send);
  size_t FrameBytes(const Peer& peer, const Send& send) const;
  bool FirstSendsHaveLeft(int count);

  std::vector<Peer> peers_;
  const int self_;
  FrameHeader header_;
  std::shared_ptr<const Plan> plan_;
  const FlatBuffer* buffer_ = nullptr;
  Reducer reducer_;
  std::vector<char> received_;        // by receive
  std::vector<uint64_t> last_frame_;  // by send: its last frame's number at the peer
  std::vector<char> framed_;          // by send: all its bytes are in frames
  int sends_left_ = 0;                // a prefix of the sends that have left
  size_t receives_open_ = 0;
  bool waits_for_link_ = false;
  OperationTimes* times_ = nullptr;
  std::vector<ConstBytes> pieces_;  // scratch
  int64_t sent_bytes_ = 0;
  int64_t received_bytes_ = 0;
};

}  // namespace tfring
