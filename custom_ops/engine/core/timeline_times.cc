#include "core/timeline_times.h"

namespace tfring {

void OperationTimes::NoteWaiting(bool waits) {
  const TimePoint now = Clock::now();
  if (waits_since != TimePoint{}) link_wait += Nanoseconds(now) - Nanoseconds(waits_since);
  waits_since = waits ? now : TimePoint{};
}

void OperationTimes::AddPiece(PieceKind kind, TimePoint begin, TimePoint end, size_t bytes) {
  TimelineRecord record;
  record.type = static_cast<uint8_t>(RecordType::kPiece);
  record.kind = static_cast<uint8_t>(kind);
  record.begin = Nanoseconds(begin);
  record.end = Nanoseconds(end);
  record.name_id = name_id;
  record.bytes = static_cast<int64_t>(bytes);
  detail->Add(record);
}

}  // namespace tfring
