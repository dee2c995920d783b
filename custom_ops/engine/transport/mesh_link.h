// What a Mesh asks of a link beyond what the engine sees.
#pragma once

#include <cstdint>

#include "base/poller.h"
#include "transport/link.h"

namespace tfring {

class MeshLink : public Link {
 public:
  // Takes a handful of frames at most, so that no link starves another; true when anything
  // moved, or room has come for a frame that CanSend refused.
  virtual bool Poll(FrameSink& sink) = 0;

  // Registers the link's socket; the poller outlives the link.
  virtual Status Attach(Poller* poller, uint64_t token) = 0;
  // What the poller found for the token.
  virtual void OnEvents(uint32_t events) = 0;
  // Whether only the poller can tell that there is something to read.
  virtual bool needs_poller() const = 0;

  // Asks the peer to wake this rank; true when Poll can move something already.
  virtual bool PrepareToSleep() = 0;
  virtual void EndSleep() = 0;

  // All that was taken has left this process.
  virtual bool flushed() const = 0;
  // Nothing more will be sent; the peer finds the end of the stream behind the last frame.
  virtual void FinishSending() = 0;
  // The end, without OnClosed.
  virtual void Close() = 0;
};

// kIo unless the header is one that a peer may send.
inline Status CheckFrame(const FrameHeader& header) {
  if (header.type != 0 && header.type <= kLastFrameType && header.bytes <= kMaxFrameBytes) {
    return Status::Ok();
  }
  return {Code::kIo, "protocol violation: frame of type " + std::to_string(header.type) + " with " +
                         std::to_string(header.bytes) + " bytes"};
}

}  // namespace tfring
