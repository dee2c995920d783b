#include "collective/ring.h"

#include <algorithm>

#include "collective/topology.h"

namespace tfring {
namespace {

// In step k a rank passes on what it received in step k - 1: part (position - k).
class RingPlan {
 public:
  // `parts`: by position in the ring, for allreduce; or the block of the rank there.
  RingPlan(int self, const std::vector<int>& order, std::vector<Range> parts,
           size_t max_segment_bytes)
      : size_(static_cast<int>(order.size())),
        position_(static_cast<int>(std::find(order.begin(), order.end(), self) - order.begin())),
        next_(order[Wrap(position_ + 1, size_)]),
        previous_(order[Wrap(position_ - 1, size_)]),
        parts_(std::move(parts)),
        max_segment_bytes_(max_segment_bytes) {}

  Program Allreduce() {
    for (int step = 0; step < 2 * (size_ - 1); ++step) {
      Step(step, step == 0 ? Send::From::kInput : Send::From::kOutput,
           step < size_ - 1 ? Receive::Action::kReduceFirst : Receive::Action::kCopy,
           /*last=*/step == size_ - 2);
    }
    return std::move(program_);
  }

  Program Allgather() {
    for (int step = 0; step < size_ - 1; ++step) {
      Step(step, Send::From::kOutput, Receive::Action::kCopy, /*last=*/false);
    }
    return std::move(program_);
  }

 private:
  void Step(int step, Send::From from, Receive::Action action, bool last) {
    const Range& outgoing = parts_[Wrap(position_ - step, size_)];
    const Range& incoming = parts_[Wrap(position_ - step - 1, size_)];
    const size_t sends = Segments(outgoing);
    const size_t receives = Segments(incoming);
    const int before = first_receive_;
    first_receive_ = static_cast<int>(program_.receives.size());
    // Alternating, for an executor that goes through the lists in order.
    for (size_t i = 0; i < std::max(sends, receives); ++i) {
      if (i < sends) {
        const Range range = SegmentOf(outgoing, SegmentSize(outgoing), i);
        const int after = step == 0 ? -1 : before + static_cast<int>(i);
        program_.sends.push_back({next_, from, range.offset, range.bytes, after});
      }
      if (i < receives) {
        Receive receive;
        const Range range = SegmentOf(incoming, SegmentSize(incoming), i);
        receive.peer = previous_;
        receive.action = action;
        receive.offset = range.offset;
        receive.bytes = range.bytes;
        receive.last = last;
        program_.receives.push_back(receive);
      }
    }
  }

  size_t SegmentSize(const Range& part) const {
    return SegmentBytes(part.bytes, max_segment_bytes_);
  }
  size_t Segments(const Range& part) const { return CeilDiv(part.bytes, SegmentSize(part)); }

  const int size_;
  const int position_;
  const int next_;
  const int previous_;
  const std::vector<Range> parts_;
  const size_t max_segment_bytes_;
  int first_receive_ = 0;  // of the step before
  Program program_;
};

}  // namespace

Program RingAllreduce(int self, const std::vector<int>& order, size_t bytes,
                      size_t max_segment_bytes) {
  const int size = static_cast<int>(order.size());
  std::vector<Range> parts;
  for (int i = 0; i < size; ++i) parts.push_back(PartOf(bytes, size, i));
  return RingPlan(self, order, std::move(parts), max_segment_bytes).Allreduce();
}

Program RingAllgather(int self, const std::vector<int>& order, const std::vector<size_t>& blocks,
                      size_t max_segment_bytes) {
  std::vector<Range> by_rank;
  size_t offset = 0;
  for (size_t bytes : blocks) {
    by_rank.push_back({offset, bytes});
    offset += bytes;
  }
  std::vector<Range> parts;
  for (int rank : order) parts.push_back(by_rank[rank]);
  return RingPlan(self, order, std::move(parts), max_segment_bytes).Allgather();
}

}  // namespace tfring
