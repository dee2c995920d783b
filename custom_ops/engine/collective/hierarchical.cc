#include "collective/hierarchical.h"

#include <algorithm>
#include <utility>

#include "collective/topology.h"

namespace tfring {
namespace {

// Segments that may be under way in accumulators at the same time.
constexpr size_t kWindow = 8;

// A column: its segments are numbered, and part p is a run of them. All ranks cut alike.
class Column {
 public:
  Column(size_t bytes, int columns, int index, int hosts, size_t max_segment_bytes)
      : range_(PartOf(bytes, columns, index)),
        parts_(static_cast<size_t>(hosts)),
        segment_bytes_(SegmentBytes(LargestPart(range_.bytes, hosts), max_segment_bytes)),
        segments_(CeilDiv(range_.bytes, segment_bytes_)) {}

  const Range& range() const { return range_; }
  size_t segment_bytes() const { return segment_bytes_; }
  size_t segments() const { return segments_; }
  Range Segment(size_t number) const { return SegmentOf(range_, segment_bytes_, number); }
  size_t Begin(int part) const { return segments_ * static_cast<size_t>(part) / parts_; }
  size_t Size(int part) const { return Begin(part + 1) - Begin(part); }

  // Segments part by part: `first`, the part before it, and so on round.
  std::vector<size_t> PartByPart(int first) const {
    std::vector<size_t> order;
    const int parts = static_cast<int>(parts_);
    for (int step = 0; step < parts; ++step) {
      const int part = Wrap(first - step, parts);
      for (size_t i = 0; i < Size(part); ++i) order.push_back(Begin(part) + i);
    }
    return order;
  }

  // The first segments of all parts, then the second ones, ...; each time `first` comes first.
  std::vector<size_t> InTurns(int first) const {
    std::vector<size_t> order;
    const int parts = static_cast<int>(parts_);
    for (size_t i = 0; order.size() < segments_; ++i) {
      for (int step = 0; step < parts; ++step) {
        const int part = Wrap(first + step, parts);
        if (i < Size(part)) order.push_back(Begin(part) + i);
      }
    }
    return order;
  }

 private:
  Range range_;
  size_t parts_;
  size_t segment_bytes_;
  size_t segments_;
};

class HierarchicalPlan {
 public:
  HierarchicalPlan(int self, const HostMap& hosts, size_t bytes, Across across, bool wide,
                   size_t max_segment_bytes)
      : hosts_(hosts),
        across_(across),
        wide_(wide),
        host_(hosts.host_of(self)),
        locals_(hosts.ranks_on(host_)),
        place_(static_cast<int>(std::find(locals_.begin(), locals_.end(), self) - locals_.begin())),
        alone_(locals_.size() == 1) {
    for (int index = 0; index < hosts.fewest(); ++index) {
      columns_.emplace_back(bytes, hosts.fewest(), index, hosts.hosts(), max_segment_bytes);
    }
  }

  Program Make() {
    SendInputs();
    if (OwnsColumn()) {
      last_.assign(Own().segments(), -1);
      PlaceAccumulators();
      for (size_t segment : InputOrder(Own())) ReduceWithinHost(segment);
      if (across_ == Across::kRing) {
        Ring();
      } else {
        Direct();
      }
      SendResults();
    }
    ReceiveResults();
    return std::move(program_);
  }

 private:
  bool OwnsColumn() const { return place_ < static_cast<int>(columns_.size()); }
  const Column& Own() const { return columns_[place_]; }
  int Owner(int host, size_t column) const { return hosts_.ranks_on(host)[column]; }
  int Local(int distance) const {
    return locals_[Wrap(place_ + distance, static_cast<int>(locals_.size()))];
  }

  // The order in which this host reduces the segments of a column: as the ring needs them; or
  // with the own part last, whose accumulators wait for the other hosts.
  std::vector<size_t> InputOrder(const Column& column) const {
    const int first = across_ == Across::kRing ? host_ : host_ - 1;
    return column.PartByPart(Wrap(first, hosts_.hosts()));
  }
  // And in which it has the results.
  std::vector<size_t> ResultOrder(const Column& column) const {
    return across_ == Across::kRing ? column.PartByPart(Wrap(host_ + 1, hosts_.hosts()))
                                    : column.InTurns(host_);
  }

  void SendInputs() {
    for (int distance = 1; distance < static_cast<int>(locals_.size()); ++distance) {
      const int place = Wrap(place_ - distance, static_cast<int>(locals_.size()));
      if (place >= static_cast<int>(columns_.size())) continue;
      for (size_t segment : InputOrder(columns_[place])) {
        Send(locals_[place], Send::From::kInput, columns_[place].Segment(segment), -1);
      }
    }
  }

  void Send(int peer, Send::From from, const Range& range, int after) {
    program_.sends.push_back({peer, from, range.offset, range.bytes, after});
  }

  // Adds a receive of a segment of the own column behind what was last received of it.
  void Add(int peer, Receive::Action action, size_t segment, bool last) {
    const Range range = Own().Segment(segment);
    Receive receive;
    receive.peer = peer;
    receive.action = action;
    receive.offset = range.offset;
    receive.bytes = range.bytes;
    receive.last = last;
    receive.after = last_[segment];
    last_[segment] = static_cast<int>(program_.receives.size());
    program_.receives.push_back(receive);
  }

  void PlaceAccumulators() {
    if (!wide_) return;
    program_.accumulator_offset = Own().range().offset;
    program_.accumulator_bytes = Own().segment_bytes() * std::min(Own().segments(), kWindow);
    users_.assign(kWindow, -1);
  }

  bool InOwnPart(size_t segment) const {
    return segment >= Own().Begin(host_) && segment < Own().Begin(host_ + 1);
  }

  void ReduceWithinHost(size_t segment) {
    const int count = static_cast<int>(locals_.size());
    // The own part goes on in its accumulators when the other hosts' operands come.
    const bool goes_on = wide_ && across_ == Across::kDirect && InOwnPart(segment);
    // Two operands are rounded once anyway.
    if (goes_on || (wide_ && count > 2)) {
      AccumulateWithinHost(segment, goes_on);
    } else {
      for (int distance = 1; distance < count; ++distance) {
        Add(Local(distance),
            distance == 1 ? Receive::Action::kReduceFirst : Receive::Action::kReduce, segment,
            /*last=*/false);
      }
    }
  }

  void AccumulateWithinHost(size_t segment, bool goes_on) {
    const int count = static_cast<int>(locals_.size());
    const size_t slot = segment % kWindow;
    // The accumulators are free when the segment that had them before is done.
    last_[segment] = users_[slot];
    for (int distance = 0; distance < count; ++distance) {
      Add(Local(distance), Receive::Action::kAccumulate, segment,
          /*last=*/distance == count - 1 && !goes_on);
      Receive& receive = program_.receives.back();
      receive.first = distance == 0;
      receive.partial = receive.last;
    }
    for (int distance = 1; goes_on && distance < hosts_.hosts(); ++distance) {
      Add(Owner(Wrap(host_ + distance, hosts_.hosts()), place_), Receive::Action::kAccumulate,
          segment, /*last=*/distance == hosts_.hosts() - 1);
    }
    users_[slot] = last_[segment];
  }

  // As in ring.h: in step k a host passes on what it received in step k - 1, part host - k.
  void Ring() {
    const int hosts = hosts_.hosts();
    const int next = Owner(Wrap(host_ + 1, hosts), place_);
    const int previous = Owner(Wrap(host_ - 1, hosts), place_);
    for (int step = 0; step < 2 * (hosts - 1); ++step) {
      const int outgoing = Wrap(host_ - step, hosts);
      const int incoming = Wrap(host_ - step - 1, hosts);
      for (size_t i = 0; i < Own().Size(outgoing); ++i) {
        const size_t segment = Own().Begin(outgoing) + i;
        Send(next, step == 0 ? FromHost() : Send::From::kOutput, Own().Segment(segment),
             last_[segment]);
      }
      const bool reduces = step < hosts - 1;
      for (size_t i = 0; i < Own().Size(incoming); ++i) {
        Add(previous, reduces ? WithHost() : Receive::Action::kCopy, Own().Begin(incoming) + i,
            /*last=*/step == hosts - 2);
      }
    }
  }

  // As in direct.h: part p of the column belongs to host p.
  void Direct() {
    const int hosts = hosts_.hosts();
    for (int distance = 1; distance < hosts; ++distance) {
      const int to = Wrap(host_ - distance, hosts);
      for (size_t i = 0; i < Own().Size(to); ++i) {
        const size_t segment = Own().Begin(to) + i;
        Send(Owner(to, place_), FromHost(), Own().Segment(segment), last_[segment]);
      }
    }
    for (size_t i = 0; i < Own().Size(host_); ++i) {
      const size_t segment = Own().Begin(host_) + i;
      for (int distance = 1; distance < hosts && !wide_; ++distance) {
        Add(Owner(Wrap(host_ + distance, hosts), place_),
            distance == 1 ? WithHost() : Receive::Action::kReduce, segment,
            /*last=*/distance == hosts - 1);
      }
    }
    for (int distance = 1; distance < hosts; ++distance) {
      const int other = Wrap(host_ + distance, hosts);
      const int peer = Owner(other, place_);
      for (size_t i = 0; i < Own().Size(host_); ++i) {
        const size_t segment = Own().Begin(host_) + i;
        Send(peer, Send::From::kOutput, Own().Segment(segment), last_[segment]);
      }
      for (size_t i = 0; i < Own().Size(other); ++i) {
        Add(peer, Receive::Action::kCopy, Own().Begin(other) + i, /*last=*/false);
      }
    }
  }

  // Where the host's operand is.
  Send::From FromHost() const { return alone_ ? Send::From::kInput : Send::From::kOutput; }
  Receive::Action WithHost() const {
    return alone_ ? Receive::Action::kReduceFirst : Receive::Action::kReduce;
  }

  void SendResults() {
    for (int distance = 1; distance < static_cast<int>(locals_.size()); ++distance) {
      for (size_t segment : ResultOrder(Own())) {
        Send(Local(-distance), Send::From::kOutput, Own().Segment(segment), last_[segment]);
      }
    }
  }

  // In place this overwrites the input that was sent to the owner: the owner has used it.
  void ReceiveResults() {
    for (int distance = 1; distance < static_cast<int>(locals_.size()); ++distance) {
      const int place = Wrap(place_ + distance, static_cast<int>(locals_.size()));
      if (place >= static_cast<int>(columns_.size())) continue;
      for (size_t segment : ResultOrder(columns_[place])) {
        const Range range = columns_[place].Segment(segment);
        Receive receive;
        receive.peer = locals_[place];
        receive.offset = range.offset;
        receive.bytes = range.bytes;
        program_.receives.push_back(receive);
      }
    }
  }

  const HostMap& hosts_;
  const Across across_;
  const bool wide_;
  const int host_;
  const std::vector<int>& locals_;  // ranks of this host
  const int place_;                 // of this rank among them
  const bool alone_;
  std::vector<Column> columns_;
  std::vector<int> last_;   // by segment of the own column: its last receive so far
  std::vector<int> users_;  // by slot of the accumulators: the last receive there
  Program program_;
};

}  // namespace

Program HierarchicalAllreduce(int self, const HostMap& hosts, size_t bytes, Across across,
                              bool wide, size_t max_segment_bytes) {
  if (bytes == 0) return {};
  return HierarchicalPlan(self, hosts, bytes, across, wide, max_segment_bytes).Make();
}

}  // namespace tfring
