// What a rank's part of a timeline consists of: a header and records, as they are in memory.
//
// tfring/monitoring/timeline/part.py reads them. Times are nanoseconds of Clock, which on
// Linux is CLOCK_MONOTONIC; 0 means never.
#pragma once

#include <cstdint>

namespace tfring {

enum class RecordType : uint8_t {
  kOperation = 1,  // from its submission here to its end
  kPiece = 2,      // one copy, reduction, send or receipt; only in detail
  kSpan = 3,       // a caller's own, such as a training step; `bytes` is a number of theirs
  kInstant = 4,    // a message; `code` is its level
  kClock = 5,      // asked rank 0 for its time at `begin`, it was `taken`, heard at `end`
  kStart = 6,      // an engine has started: `rank` of `bytes`
  kShutDown = 7,   // and ended
  kEnd = 8,        // of the part; `bytes` records were dropped
};

// In the order of WorkTimes.
enum class PieceKind : uint8_t { kCopy = 0, kReduce = 1, kSend = 2, kReceive = 3 };
constexpr int kPieceKinds = 4;

struct TimelineRecord {
  uint8_t type = 0;
  uint8_t kind = 0;  // of an operation: Kind; of a piece: PieceKind
  uint8_t code = 0;  // of an operation: Code; of an instant: LogLevel
  uint8_t reserved = 0;
  int32_t rank = -1;  // of an operation: the rank whose first bytes came last here
  int64_t begin = 0;
  int64_t end = 0;
  uint64_t name_id = 0;
  int64_t process_set = 0;
  uint32_t occurrence = 0;
  int32_t tensors = 0;
  int64_t bytes = 0;
  int64_t taken = 0;                // the engine has begun with it
  int64_t started = 0;              // the first bytes of all needed ranks are here
  int64_t work[kPieceKinds] = {};   // nanoseconds by PieceKind
  int64_t early[kPieceKinds] = {};  // the part of it before `started`
  int64_t link_wait = 0;            // with no room on a link, or frames that have not left
  char text[88] = {};               // ends with a zero unless full
};
static_assert(sizeof(TimelineRecord) == 232, "the layout is that of the file");

struct TimelineHeader {
  char magic[16] = {'t', 'f', 'r', 'i', 'n', 'g', ' ', 't', 'i', 'm', 'e', 'l', 'i', 'n', 'e', '1'};
  uint32_t record_bytes = sizeof(TimelineRecord);
  int32_t rank = 0;
  int32_t pid = 0;
  int32_t detail = 0;
  int64_t begin = 0;       // Clock
  int64_t begin_unix = 0;  // the same moment, nanoseconds since 1970
  char host[64] = {};
  char clock[80] = {};  // equal where two processes read the same Clock
};
static_assert(sizeof(TimelineHeader) == 192, "the layout is that of the file");

}  // namespace tfring
