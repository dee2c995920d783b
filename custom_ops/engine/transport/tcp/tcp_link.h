// A link over one TCP connection.
//
// At most one data frame waits here at a time, the one that the socket took only a part
// of; control frames queue up behind it. Payloads are received straight into an aligned
// buffer, together with the next frame's header, so that a large frame costs one system
// call and no copy.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "transport/mesh_link.h"

namespace tfring {

class TcpLink : public MeshLink {
 public:
  TcpLink(int peer, Fd socket);
  ~TcpLink() override { TcpLink::Close(); }

  bool CanSend(size_t) const override { return dead_end() || queue_.empty(); }
  void Send(const FrameHeader& header, const ConstBytes* pieces, size_t count,
            uint64_t* completed) override;
  void SendControl(const FrameHeader& header, const std::string& payload) override;
  void Release(const uint64_t* completed) override;
  bool closed() const override { return closed_; }
  const char* transport_name() const override { return "tcp"; }
  bool same_host() const override { return false; }

  bool Poll(FrameSink& sink) override;
  Status Attach(Poller* poller, uint64_t token) override;
  void OnEvents(uint32_t events) override;
  bool needs_poller() const override { return !closed_; }
  bool PrepareToSleep() override;
  void EndSleep() override {}
  bool flushed() const override { return dead_end() || queue_.empty(); }
  void FinishSending() override;
  void Close() override;

 private:
  struct Frame {
    FrameHeader header;
    std::vector<ConstBytes> pieces;
    std::string owned;              // the payload, when there are no pieces
    uint64_t* completed = nullptr;  // null: nobody counts
    size_t sent = 0;                // of header and payload
  };

  // Nothing can be sent any more; there may be something to receive.
  bool dead_end() const { return closed_ || !send_error_.ok(); }
  // Adds to *sent what the socket takes; true when all has gone.
  bool WriteSome(const FrameHeader& header, const ConstBytes* pieces, size_t count, size_t* sent);
  bool Flush();
  void Enqueue(Frame frame);
  void DropQueue();
  void Arm(bool for_writing);

  enum class Received { kNothing, kSome, kEnd };
  Received ReceiveSome(Status* why);
  // A frame is of use when it is complete: the poller need not tell of every packet.
  void SetLowWater();
  // Hands on the frame that is complete; false when there is none.
  bool Deliver(FrameSink& sink, Status* violation);
  void Fail(FrameSink& sink, const Status& why);

  struct FreeMemory {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };

  const int peer_;
  Fd socket_;
  Poller* poller_ = nullptr;
  uint64_t token_ = 0;

  std::deque<Frame> queue_;
  bool armed_for_writing_ = false;
  bool writable_ = true;
  Status send_error_;
  std::vector<iovec> iov_;  // scratch

  bool readable_ = true;
  FrameHeader header_;                             // of the frame under way, when complete
  std::array<char, sizeof(FrameHeader)> partial_;  // of the next header
  size_t partial_got_ = 0;
  bool has_header_ = false;
  std::unique_ptr<uint8_t, FreeMemory> payload_;  // kMaxFrameBytes
  size_t payload_got_ = 0;
  size_t low_water_ = 1;  // SO_RCVLOWAT
  bool closed_ = false;
};

}  // namespace tfring
