// The memory of a pair of ranks: one ring each way, in a memfd without a name, which goes
// from one process to the other over a unix socket. When both have gone, so has it.
#pragma once

#include <cstddef>
#include <memory>

#include "base/fd.h"
#include "base/status.h"
#include "transport/shm/ring.h"

namespace tfring {

class SharedRings {
 public:
  // payload_bytes: of the frames that each ring holds; at least two of the largest.
  static Result<std::unique_ptr<SharedRings>> Make(size_t payload_bytes);
  // The same memory, from the descriptor that the peer passed; checked.
  static Result<std::unique_ptr<SharedRings>> Attach(Fd fd);
  ~SharedRings();
  SharedRings(const SharedRings&) = delete;
  SharedRings& operator=(const SharedRings&) = delete;

  // The maker sends on the first ring and the other one on the second.
  RingProducer Outgoing() const;
  RingConsumer Incoming() const;

  int fd() const { return fd_.get(); }
  void CloseFd() { fd_.Reset(); }

 private:
  SharedRings(Fd fd, void* memory, size_t bytes, bool maker);
  static Result<std::unique_ptr<SharedRings>> Map(Fd fd, size_t bytes, bool maker);
  size_t ring_bytes() const { return bytes_ / 2; }
  uint8_t* ring(bool first) const;

  Fd fd_;
  uint8_t* memory_;
  const size_t bytes_;
  const bool maker_;
};

// One byte and a descriptor with it. The sockets are non-blocking.
Status SendFd(int socket, int fd);
// An invalid Fd when it has not come yet.
Result<Fd> ReceiveFd(int socket);

}  // namespace tfring
