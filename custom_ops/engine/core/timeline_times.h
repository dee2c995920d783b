// What an operation spends its time with, for the timeline.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/clock.h"
#include "core/timeline.h"
#include "core/timeline_record.h"

namespace tfring {

// Of one operation. Nothing here is touched unless a timeline is being recorded.
struct OperationTimes {
  TimePoint taken{};
  int last_to_start = -1;  // the rank that came last; -1: all were here before this one
  int64_t work[kPieceKinds] = {};
  int64_t early[kPieceKinds] = {};
  int64_t link_wait = 0;
  TimePoint waits_since{};
  Timeline* detail = nullptr;  // takes each piece
  uint64_t name_id = 0;

  void Add(PieceKind kind, TimePoint begin, TimePoint end, size_t bytes) {
    work[static_cast<int>(kind)] += Nanoseconds(end) - Nanoseconds(begin);
    if (detail != nullptr) AddPiece(kind, begin, end, bytes);
  }
  // Everything so far was done before the last rank had come.
  void NoteStarted() {
    for (int kind = 0; kind < kPieceKinds; ++kind) early[kind] = work[kind];
  }
  void NoteWaiting(bool waits);

 private:
  void AddPiece(PieceKind kind, TimePoint begin, TimePoint end, size_t bytes);
};

// Measures a piece of work, until its own end. Does nothing without `times`.
class PieceTimer {
 public:
  PieceTimer(OperationTimes* times, PieceKind kind, size_t bytes)
      : times_(times), kind_(kind), bytes_(bytes) {
    if (times_ != nullptr) begin_ = Clock::now();
  }
  ~PieceTimer() {
    if (times_ != nullptr) times_->Add(kind_, begin_, Clock::now(), bytes_);
  }
  PieceTimer(const PieceTimer&) = delete;
  PieceTimer& operator=(const PieceTimer&) = delete;

 private:
  OperationTimes* const times_;
  const PieceKind kind_;
  const size_t bytes_;
  TimePoint begin_{};
};

}  // namespace tfring
