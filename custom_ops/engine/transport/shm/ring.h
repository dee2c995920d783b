// A single-producer, single-consumer ring of frames in memory that two processes share.
//
// Records are a 64-byte header and a payload rounded up to 64 bytes, so every payload is
// aligned and in one piece: a record that would cross the end is preceded by a padding
// record that fills the rest. Positions are counts of bytes since the beginning, never
// reduced; a position modulo the capacity is its place.
//
// What the other side can write is not trusted: all that is read from shared memory is
// copied, then checked, then used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "transport/frame.h"
#include "transport/link.h"
#include "transport/shm/copy_choice.h"

namespace tfring {

constexpr size_t kRingAlign = 64;

// At the start of a ring's memory, all zero in the beginning.
//
// Each side, before it sleeps, stores here what it waits for, and then looks once more;
// the other side, after it has moved its position, looks here. All four accesses are
// sequentially consistent, so at least one of the two sees the other's.
struct RingControl {
  alignas(kRingAlign) std::atomic<uint64_t> published;       // moved by the producer
  alignas(kRingAlign) std::atomic<uint64_t> consumed;        // moved by the consumer
  alignas(kRingAlign) std::atomic<uint64_t> consumer_waits;  // 1: ring when more is published
  alignas(kRingAlign) std::atomic<uint64_t> producer_waits;  // not 0: ring when `consumed`
                                                             // has got there
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "the atomics are shared by processes");
static_assert(sizeof(RingControl) == 4 * kRingAlign, "the layout is shared by processes");

// Leaves the peer's cache line alone where it can.
inline void ClearWait(std::atomic<uint64_t>& waits) {
  if (waits.load(std::memory_order_relaxed) != 0) waits.store(0, std::memory_order_relaxed);
}

constexpr size_t RecordBytes(size_t payload) {
  return kRingAlign + (payload + kRingAlign - 1) / kRingAlign * kRingAlign;
}

// The least capacity at which a payload of that size finds a place whatever the position.
constexpr size_t LeastRingCapacity(size_t payload) { return 2 * RecordBytes(payload); }

class RingProducer {
 public:
  // capacity: a multiple of kRingAlign.
  RingProducer(RingControl* control, uint8_t* data, size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  // payload: at most what the capacity was made for.
  bool Fits(size_t payload);

  // Call only after Fits(header.bytes). The pieces have header.bytes in all.
  void Write(const FrameHeader& header, const ConstBytes* pieces, size_t count);

  // Whether the consumer must be woken for what has been written; then only once.
  bool TakeConsumerWaits();

  // Before sleeping for want of room: true when there is ample room by now.
  bool WaitForRoom(size_t payload);
  void StopWaiting() { ClearWait(control_->producer_waits); }

  // The consumer has put its position where it can't be.
  bool corrupt() const { return corrupt_; }

 private:
  // How far the producer may get to before it reaches what is not consumed, from the
  // record's end: so much must have been consumed for the payload to fit.
  uint64_t NeededConsumed(size_t payload) const;
  void LoadConsumed();
  void CopyPayload(uint8_t* to, size_t bytes, const ConstBytes* pieces, size_t count);

  RingControl* control_;
  uint8_t* data_;
  const size_t capacity_;
  uint64_t published_ = 0;
  uint64_t consumed_ = 0;  // as last seen
  bool corrupt_ = false;
  CopyChoice copy_choice_;
};

class RingConsumer {
 public:
  RingConsumer(RingControl* control, const uint8_t* data, size_t capacity)
      : control_(control), data_(data), capacity_(capacity) {}

  enum class Outcome { kEmpty, kFrame, kCorrupt };

  // The oldest frame that has not been freed or kept; it stays where it is until Free.
  Outcome Read(FrameHeader* header, const uint8_t** payload);
  void Free();

  // Instead of Free: the payload stays where it is until FreeKept, while later frames are read.
  // False when it would take too much of the ring: kept frames never stop the producer.
  bool Keep();
  void FreeKept(const uint8_t* payload);
  // Later frames have come so far that the producer soon waits for what is kept.
  bool crowded() const { return !kept_.empty() && read_ - consumed_ > capacity_ / 2; }

  bool empty() const { return control_->published.load(std::memory_order_acquire) == read_; }

  // Whether the producer must be woken since the room it waits for is there; only once.
  bool TakeProducerWaits();

  // Before sleeping: true when there is something by now.
  bool WaitForFrames();
  void StopWaiting() { ClearWait(control_->consumer_waits); }

 private:
  struct Kept {
    const uint8_t* payload;
    uint64_t begin;
  };

  void Consume();

  RingControl* control_;
  const uint8_t* data_;
  const size_t capacity_;
  uint64_t read_ = 0;
  uint64_t consumed_ = 0;    // at most read_: what is kept has not been consumed
  std::deque<Kept> kept_;    // in the order they came
  size_t record_bytes_ = 0;  // of the frame that Read gave
};

}  // namespace tfring
