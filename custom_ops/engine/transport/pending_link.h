// The link to a rank that there may be no connection to yet: the first use makes one.
//
// Control frames wait here meanwhile, and data frames are refused. Once the connection is
// there everything goes to its link; new operations get that link itself (Mesh::link).
#pragma once

#include <deque>
#include <string>

#include "transport/link.h"

namespace tfring {

// Makes connections.
class Caller {
 public:
  virtual ~Caller() = default;
  // Nothing when there is a connection, or one is on its way.
  virtual void Call(int peer) = 0;
};

class PendingLink : public Link {
 public:
  PendingLink(int peer, bool same_host, Caller* caller)
      : peer_(peer), same_host_(same_host), caller_(caller) {}

  bool CanSend(size_t bytes) const override;
  void Send(const FrameHeader& header, const ConstBytes* pieces, size_t count,
            uint64_t* completed) override;
  void SendControl(const FrameHeader& header, const std::string& payload) override;
  void Release(const uint64_t* completed) override;
  bool Keep() override { return target_ != nullptr && target_->Keep(); }
  void FreeKept(const uint8_t* payload) override;
  void Call() override;
  bool closed() const override { return target_ != nullptr ? target_->closed() : closed_; }
  bool same_host() const override { return same_host_; }
  const char* transport_name() const override { return same_host_ ? "shm" : "tcp"; }

  // The connection is there.
  void Adopt(Link* target);
  // There will be none: what is sent is dropped.
  void Close();

 private:
  struct Control {
    FrameHeader header;
    std::string payload;
  };

  const int peer_;
  const bool same_host_;
  Caller* const caller_;
  Link* target_ = nullptr;
  bool closed_ = false;
  std::deque<Control> queue_;
};

}  // namespace tfring
