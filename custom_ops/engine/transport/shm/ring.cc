#include "transport/shm/ring.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/stream_copy.h"

namespace tfring {
namespace {

struct RecordHeader {
  uint64_t bytes = 0;  // header and payload, rounded up
  uint64_t padding = 0;
  FrameHeader frame;
  uint8_t unused[kRingAlign - 16 - sizeof(FrameHeader)] = {};
};
static_assert(sizeof(RecordHeader) == kRingAlign, "the layout is shared by processes");

// A smaller payload is copied in no time, and is best read from where it was written.
constexpr size_t kLeastMeasured = 16 * 1024;

template <class Copy>
void CopyPieces(uint8_t* to, const ConstBytes* pieces, size_t count, Copy copy) {
  for (size_t i = 0; i < count; ++i) {
    if (pieces[i].size == 0) continue;
    copy(to, pieces[i].data, pieces[i].size);
    to += pieces[i].size;
  }
}

}  // namespace

uint64_t RingProducer::NeededConsumed(size_t payload) const {
  const size_t record = RecordBytes(payload);
  const size_t to_end = capacity_ - published_ % capacity_;
  const uint64_t end = published_ + record + (record > to_end ? to_end : 0);
  return end > capacity_ ? end - capacity_ : 0;
}

void RingProducer::LoadConsumed() {
  const uint64_t consumed = control_->consumed.load(std::memory_order_acquire);
  // It only grows, and not beyond what there is.
  if (consumed - consumed_ > published_ - consumed_) {
    corrupt_ = true;
  } else {
    consumed_ = consumed;
  }
}

bool RingProducer::Fits(size_t payload) {
  const uint64_t needed = NeededConsumed(payload);
  if (consumed_ < needed) LoadConsumed();
  return consumed_ >= needed;
}

void RingProducer::Write(const FrameHeader& header, const ConstBytes* pieces, size_t count) {
  RecordHeader record;
  record.bytes = RecordBytes(header.bytes);
  const size_t to_end = capacity_ - published_ % capacity_;
  if (record.bytes > to_end) {
    RecordHeader padding;
    padding.bytes = to_end;
    padding.padding = 1;
    std::memcpy(data_ + published_ % capacity_, &padding, sizeof(padding));
    published_ += to_end;
  }
  uint8_t* to = data_ + published_ % capacity_;
  record.frame = header;
  std::memcpy(to, &record, sizeof(record));
  CopyPayload(to + sizeof(record), header.bytes, pieces, count);
  published_ += record.bytes;
  control_->published.store(published_, std::memory_order_seq_cst);
}

void RingProducer::CopyPayload(uint8_t* to, size_t bytes, const ConstBytes* pieces, size_t count) {
  if (bytes < kLeastMeasured) {
    CopyPieces(to, pieces, count, std::memcpy);
    return;
  }
  const CopyChoice::Way way = copy_choice_.Next();
  const auto began = std::chrono::steady_clock::now();
  if (way == CopyChoice::kStreamed) {
    CopyPieces(to, pieces, count, StreamCopy);
  } else {
    CopyPieces(to, pieces, count, std::memcpy);
  }
  copy_choice_.Took(way, bytes, std::chrono::steady_clock::now() - began);
}

bool RingProducer::TakeConsumerWaits() {
  return control_->consumer_waits.load(std::memory_order_seq_cst) != 0 &&
         control_->consumer_waits.exchange(0, std::memory_order_seq_cst) != 0;
}

bool RingProducer::WaitForRoom(size_t payload) {
  // Woken for every frame that is freed, the two sides would take turns; so the producer
  // sleeps until half of the ring is free, while the consumer works on the other half.
  const uint64_t half = published_ > capacity_ / 2 ? published_ - capacity_ / 2 : 0;
  const uint64_t needed = std::max(NeededConsumed(payload), half);
  control_->producer_waits.store(needed, std::memory_order_seq_cst);
  // Not by way of the acquire load: it might be taken before the store above.
  return control_->consumed.load(std::memory_order_seq_cst) >= needed;
}

RingConsumer::Outcome RingConsumer::Read(FrameHeader* header, const uint8_t** payload) {
  while (true) {
    const uint64_t published = control_->published.load(std::memory_order_acquire);
    const uint64_t available = published - read_;
    if (available == 0) return Outcome::kEmpty;
    if (published - consumed_ > capacity_ || available > capacity_ || available % kRingAlign != 0) {
      return Outcome::kCorrupt;
    }
    const size_t at = read_ % capacity_;
    RecordHeader record;
    std::memcpy(&record, data_ + at, sizeof(record));
    if (record.bytes < sizeof(record) || record.bytes % kRingAlign != 0 ||
        record.bytes > available || record.bytes > capacity_ - at) {
      return Outcome::kCorrupt;
    }
    record_bytes_ = record.bytes;
    if (record.padding != 0) {
      Free();
      continue;
    }
    if (record.frame.bytes > record.bytes - sizeof(record)) return Outcome::kCorrupt;
    *header = record.frame;
    *payload = data_ + at + sizeof(record);
    return Outcome::kFrame;
  }
}

void RingConsumer::Free() {
  read_ += record_bytes_;
  Consume();
}

bool RingConsumer::Keep() {
  if (read_ + record_bytes_ - consumed_ > capacity_ / 2) return false;
  kept_.push_back({data_ + read_ % capacity_ + sizeof(RecordHeader), read_});
  read_ += record_bytes_;
  return true;
}

void RingConsumer::FreeKept(const uint8_t* payload) {
  const auto is_it = [payload](const Kept& kept) { return kept.payload == payload; };
  const auto found = std::find_if(kept_.begin(), kept_.end(), is_it);
  if (found == kept_.end()) return;
  kept_.erase(found);
  Consume();
}

void RingConsumer::Consume() {
  const uint64_t consumed = kept_.empty() ? read_ : kept_.front().begin;
  if (consumed == consumed_) return;
  consumed_ = consumed;
  control_->consumed.store(consumed_, std::memory_order_seq_cst);
}

bool RingConsumer::TakeProducerWaits() {
  const uint64_t needed = control_->producer_waits.load(std::memory_order_seq_cst);
  return needed != 0 && consumed_ >= needed &&
         control_->producer_waits.exchange(0, std::memory_order_seq_cst) != 0;
}

bool RingConsumer::WaitForFrames() {
  control_->consumer_waits.store(1, std::memory_order_seq_cst);
  return control_->published.load(std::memory_order_seq_cst) != read_;
}

}  // namespace tfring
