// A link through a pair of rings in shared memory. A unix socket goes with it: a byte on
// it wakes a sleeping peer, and its end tells that the peer's process has gone.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/fd.h"
#include "transport/mesh_link.h"
#include "transport/shm/shared_rings.h"

namespace tfring {

class ShmLink : public MeshLink {
 public:
  ShmLink(int peer, Fd socket, std::unique_ptr<SharedRings> rings);
  ~ShmLink() override { ShmLink::Close(); }

  bool CanSend(size_t bytes) const override;
  void Send(const FrameHeader& header, const ConstBytes* pieces, size_t count,
            uint64_t* completed) override;
  void SendControl(const FrameHeader& header, const std::string& payload) override;
  void Release(const uint64_t*) override {}  // Send has copied everything
  bool Keep() override;
  void FreeKept(const uint8_t* payload) override;
  bool closed() const override { return closed_; }
  const char* transport_name() const override { return "shm"; }
  bool same_host() const override { return true; }

  bool Poll(FrameSink& sink) override;
  Status Attach(Poller* poller, uint64_t token) override;
  void OnEvents(uint32_t events) override;
  bool needs_poller() const override { return false; }
  bool PrepareToSleep() override;
  void EndSleep() override;
  bool flushed() const override { return queue_.empty() || gone(); }
  void FinishSending() override {}  // the ring is the peer's as much as ours
  void Close() override;

 private:
  struct Control {
    FrameHeader header;
    std::string payload;
  };

  // The peer takes nothing any more; what it has sent may still be in the ring.
  bool gone() const { return closed_ || hung_up_; }
  bool PollFrames(FrameSink& sink);
  bool FlushControl();
  void Write(const FrameHeader& header, const ConstBytes* pieces, size_t count);
  void RingDoorbell();
  void HangUp();
  void Fail(FrameSink& sink, const Status& why);

  const int peer_;
  Fd socket_;
  std::unique_ptr<SharedRings> rings_;
  mutable RingProducer out_;  // CanSend looks how far the peer is
  RingConsumer in_;
  Poller* poller_ = nullptr;
  std::deque<Control> queue_;  // what found no room; nothing overtakes it
  static constexpr size_t kNothing = ~size_t{0};
  mutable size_t refused_ = kNothing;  // the smallest payload that CanSend has refused
  bool keeps_ = false;                 // the frame that is being delivered
  bool hung_up_ = false;
  bool closed_ = false;
};

}  // namespace tfring
