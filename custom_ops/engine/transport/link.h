// A reliable, ordered, non-blocking stream of frames between this rank and one peer.
// Shared memory and TCP implement it; nothing above knows which.
//
// A link belongs to one thread at a time (the one that drives).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "transport/frame.h"

namespace tfring {

struct ConstBytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

// Receives what Poll finds.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // `payload` is valid during the call only, and aligned to 64 bytes. Frames of a peer come
  // in the order sent.
  virtual void OnFrame(int peer, const FrameHeader& header, const uint8_t* payload) = 0;
  // What has been kept of this peer's frames (Link::Keep) stands in the way of others: free it.
  virtual void OnCrowded(int /*peer*/) {}
  // The link is gone, once, and says why: closed, reset, protocol violation.
  virtual void OnClosed(int peer, const Status& why) = 0;
};

class Link {
 public:
  virtual ~Link() = default;

  // Data is expected from the peer, or will be sent: makes the connection, if there is none.
  // Sending does so by itself.
  virtual void Call() {}

  // Whether a data frame of `bytes` (at most kMaxFrameBytes) is taken now.
  virtual bool CanSend(size_t bytes) const = 0;

  // Takes a frame whose payload is the pieces one after the other, header.bytes in all.
  // Call only after CanSend(header.bytes). The pieces' memory must stay as it is until
  // *completed has grown by one, at once or during a later Poll; the array of pieces
  // itself is not kept. On a closed link the frame is dropped and counted.
  virtual void Send(const FrameHeader& header, const ConstBytes* pieces, size_t count,
                    uint64_t* completed) = 0;

  // Takes a control frame at any time, in order with all others; copies the payload, which
  // has header.bytes, at most kMaxFrameBytes.
  virtual void SendControl(const FrameHeader& header, const std::string& payload) = 0;

  // Ends every reference to `completed` and to the payloads counted by it: what has not
  // left yet is copied aside and still goes out.
  virtual void Release(const uint64_t* completed) = 0;

  // During OnFrame: the payload stays valid until FreeKept. False when the link can't do that
  // (now): then copy it.
  virtual bool Keep() { return false; }
  virtual void FreeKept(const uint8_t* /*payload*/) {}

  virtual bool closed() const = 0;
  virtual bool same_host() const = 0;              // memory is shared with the peer
  virtual const char* transport_name() const = 0;  // "shm" or "tcp"
};

}  // namespace tfring
