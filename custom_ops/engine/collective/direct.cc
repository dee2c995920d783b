#include "collective/direct.h"

#include <algorithm>

#include "collective/topology.h"

namespace tfring {
namespace {

class DirectPlan {
 public:
  DirectPlan(int self, int size, size_t bytes, bool wide, size_t max_segment_bytes)
      : self_(self),
        size_(size),
        bytes_(bytes),
        wide_(wide),
        segment_bytes_(SegmentBytes(LargestPart(bytes, size), max_segment_bytes)),
        segments_(CeilDiv(LargestPart(bytes, size), segment_bytes_)),
        reduced_(segments_, -1) {}

  Program Make() {
    if (wide_) {
      program_.accumulator_offset = PartOf(bytes_, size_, self_).offset;
      program_.accumulator_bytes = segment_bytes_ * std::min(segments_, kWindow);
    }
    for (size_t round = 0; round < segments_ + kSegmentsAhead; ++round) {
      if (round < segments_) {
        SendInputs(round);
        ReduceSegment(round);
      }
      if (round >= kSegmentsAhead) {
        SendResult(round - kSegmentsAhead);
        ReceiveResults(round - kSegmentsAhead);
      }
    }
    return std::move(program_);
  }

 private:
  // Segments that are being reduced at the same time.
  static constexpr size_t kWindow = kSegmentsAhead + 1;

  Range Segment(int owner, size_t index) const {
    return SegmentOf(PartOf(bytes_, size_, owner), segment_bytes_, index);
  }

  void SendInputs(size_t index) {
    for (int distance = 1; distance < size_; ++distance) {
      const int owner = Wrap(self_ - distance, size_);
      const Range range = Segment(owner, index);
      if (range.bytes == 0) continue;
      program_.sends.push_back({owner, Send::From::kInput, range.offset, range.bytes, -1});
    }
  }

  void ReduceSegment(size_t index) {
    const Range range = Segment(self_, index);
    if (range.bytes == 0) return;
    // The accumulators are free when the segment that had them before is done.
    int after = wide_ && index >= kWindow ? reduced_[index - kWindow] : -1;
    for (int distance = wide_ ? 0 : 1; distance < size_; ++distance) {
      Receive receive;
      receive.peer = Wrap(self_ + distance, size_);
      receive.action = wide_           ? Receive::Action::kAccumulate
                       : distance == 1 ? Receive::Action::kReduceFirst
                                       : Receive::Action::kReduce;
      receive.offset = range.offset;
      receive.bytes = range.bytes;
      receive.first = wide_ && distance == 0;
      receive.last = distance == size_ - 1;
      receive.after = after;
      after = static_cast<int>(program_.receives.size());
      program_.receives.push_back(receive);
    }
    reduced_[index] = after;
  }

  void SendResult(size_t index) {
    const Range range = Segment(self_, index);
    if (range.bytes == 0) return;
    for (int distance = 1; distance < size_; ++distance) {
      program_.sends.push_back({Wrap(self_ - distance, size_), Send::From::kOutput, range.offset,
                                range.bytes, reduced_[index]});
    }
  }

  // In place this overwrites the input that was sent to the owner: the owner has used it.
  void ReceiveResults(size_t index) {
    for (int distance = 1; distance < size_; ++distance) {
      Receive receive;
      receive.peer = Wrap(self_ + distance, size_);
      const Range range = Segment(receive.peer, index);
      if (range.bytes == 0) continue;
      receive.offset = range.offset;
      receive.bytes = range.bytes;
      program_.receives.push_back(receive);
    }
  }

  const int self_;
  const int size_;
  const size_t bytes_;
  const bool wide_;
  const size_t segment_bytes_;
  const size_t segments_;     // of the largest part
  std::vector<int> reduced_;  // by segment of the own part: its last receive
  Program program_;
};

}  // namespace

Program DirectAllreduce(int self, int size, size_t bytes, bool wide, size_t max_segment_bytes) {
  if (bytes == 0) return {};
  return DirectPlan(self, size, bytes, wide, max_segment_bytes).Make();
}

}  // namespace tfring
