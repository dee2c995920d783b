// The unit that a link carries: a fixed header and up to kMaxFrameBytes of payload.
//
// An operation is a conversation named by (name_id, occurrence). Between two ranks it is
// two byte streams, one each way, cut into kData frames in order; all other types are
// control.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tfring {

enum class FrameType : uint8_t {
  kData = 1,          // payload: the next bytes of the operation's stream
  kReady = 2,         // the operation has been submitted here: send beyond the eager window
  kAnnounce = 3,      // payload: descriptor; sent when a name is new or its descriptor changed
  kConflict = 4,      // payload: descriptor of the sender for an operation that can't match
  kAbort = 5,         // payload: code (1 byte) and message: the operation has failed
  kLost = 6,          // payload: rank (4 bytes) and reason: the sender lost that peer
  kQuery = 7,         // has this operation been submitted at your end?
  kAnswer = 8,        // payload: 1 byte, 1 = submitted
  kHeartbeat = 9,     // nothing but a sign of life
  kBye = 10,          // the sender shuts down in good order
  kClock = 11,        // payload: the sender's time (8 bytes); the answer adds the answerer's own
  kInterrupted = 12,  // payload: reason: the job's membership changes
};
constexpr uint8_t kLastFrameType = 12;

// In `flags`: the frame answers one of the same type and asks for no answer itself.
constexpr uint8_t kAnswerFlag = 1;

// As it is on the wire: little-endian, no padding.
struct FrameHeader {
  uint8_t type = 0;
  uint8_t flags = 0;
  uint16_t reserved = 0;
  uint32_t bytes = 0;       // payload that follows
  uint64_t name_id = 0;     // hash of process set and name
  uint32_t occurrence = 0;  // how many operations of that name came before
  uint32_t digest = 0;      // hash of the sender's descriptor
};
static_assert(sizeof(FrameHeader) == 24, "the header's layout is the wire format");

constexpr size_t kMaxFrameBytes = 256 * 1024;

// What may be sent of an operation to a peer that has not said kReady for it; the peer
// stores these bytes until it submits the operation itself.
constexpr size_t kEagerBytes = 64 * 1024;

}  // namespace tfring
