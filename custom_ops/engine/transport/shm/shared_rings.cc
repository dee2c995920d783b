#include "transport/shm/shared_rings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tfring {
namespace {

constexpr size_t kLeastCapacity = LeastRingCapacity(kMaxFrameBytes);
constexpr size_t kMostCapacity = size_t{1} << 30;
// Without them the peer could cut the memory short under us, which is SIGBUS.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

SharedRings::SharedRings(Fd fd, void* memory, size_t bytes, bool maker)
    : fd_(std::move(fd)), memory_(static_cast<uint8_t*>(memory)), bytes_(bytes), maker_(maker) {}

SharedRings::~SharedRings() { munmap(memory_, bytes_); }

Result<std::unique_ptr<SharedRings>> SharedRings::Map(Fd fd, size_t bytes, bool maker) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return ErrnoStatus("mmap of " + std::to_string(bytes) + " bytes");
  return std::unique_ptr<SharedRings>(new SharedRings(std::move(fd), memory, bytes, maker));
}

Result<std::unique_ptr<SharedRings>> SharedRings::Make(size_t payload_bytes) {
  // So much in frames of the largest size, and their headers besides.
  const size_t frames = (payload_bytes + kMaxFrameBytes - 1) / kMaxFrameBytes;
  const size_t wanted = payload_bytes / kRingAlign * kRingAlign + frames * kRingAlign;
  const size_t capacity = std::clamp(wanted, kLeastCapacity, kMostCapacity);
  const size_t bytes = 2 * (sizeof(RingControl) + capacity);
  Fd fd(memfd_create("tfring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoStatus("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return ErrnoStatus("ftruncate");
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return ErrnoStatus("F_ADD_SEALS");
  return Map(std::move(fd), bytes, true);
}

Result<std::unique_ptr<SharedRings>> SharedRings::Attach(Fd fd) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  struct stat info{};
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(fd.get(), &info) != 0) {
    return Status(Code::kIo, "the peer passed a descriptor that is not the memory expected");
  }
  const auto bytes = static_cast<size_t>(std::max<off_t>(info.st_size, 0));
  const size_t capacity = bytes / 2 - std::min(bytes / 2, sizeof(RingControl));
  if (bytes % 2 != 0 || capacity % kRingAlign != 0 || capacity < kLeastCapacity ||
      capacity > kMostCapacity) {
    return Status(Code::kIo, "the peer passed shared memory of " + std::to_string(bytes) +
                                 " bytes, which is no pair of rings");
  }
  return Map(std::move(fd), bytes, false);
}

uint8_t* SharedRings::ring(bool first) const { return first ? memory_ : memory_ + ring_bytes(); }

RingProducer SharedRings::Outgoing() const {
  uint8_t* memory = ring(maker_);
  return RingProducer(reinterpret_cast<RingControl*>(memory), memory + sizeof(RingControl),
                      ring_bytes() - sizeof(RingControl));
}

RingConsumer SharedRings::Incoming() const {
  uint8_t* memory = ring(!maker_);
  return RingConsumer(reinterpret_cast<RingControl*>(memory), memory + sizeof(RingControl),
                      ring_bytes() - sizeof(RingControl));
}

Status SendFd(int socket, int fd) {
  char byte = 'M';
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) return ErrnoStatus("passing a descriptor");
  return Status::Ok();
}

Result<Fd> ReceiveFd(int socket) {
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Fd();
  if (got < 0) return ErrnoStatus("receiving a descriptor");
  if (got == 0) return Status(Code::kIo, "closed instead of passing shared memory");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Status(Code::kIo, "expected a descriptor of shared memory, received none");
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return Fd(fd);
}

}  // namespace tfring
