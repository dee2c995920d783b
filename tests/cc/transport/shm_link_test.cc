// Links through shared memory whose peer is raw: it writes what it likes.
#include "transport/shm/shm_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "test.h"
#include "transport/ranks.h"

namespace tfring {
namespace test {
namespace {

std::pair<Fd, Fd> SocketPair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

// A link, and the same memory mapped once more as its peer has it.
struct Pair {
  explicit Pair(size_t ring_bytes = 1) {
    auto sockets = SocketPair();
    auto made = SharedRings::Make(ring_bytes);
    EXPECT_OK(made);
    auto attached = SharedRings::Attach(Fd(dup(made.value()->fd())));
    EXPECT_OK(attached);
    far_rings = std::move(attached.value());
    far = std::move(sockets.second);
    link = std::make_unique<ShmLink>(1, std::move(sockets.first), std::move(made.value()));
    poller = std::move(Poller::Make().value());
    EXPECT_OK(link->Attach(poller.get(), 0));
  }
  ~Pair() { link.reset(); }

  void PollUntilClosed(Recorder& recorder) {
    while (recorder.closed.empty()) {
      for (const Poller::Event& event : poller->Wait(std::chrono::milliseconds(0))) {
        link->OnEvents(event.events);
      }
      link->Poll(recorder);
    }
  }

  std::unique_ptr<Poller> poller;
  std::unique_ptr<ShmLink> link;
  std::unique_ptr<SharedRings> far_rings;
  Fd far;
};

TEST(ShmLinkDeliversWhatCameBeforeTheEnd) {
  Pair pair;
  Recorder recorder;
  RingProducer producer = pair.far_rings->Outgoing();
  const std::string text = "last";
  const ConstBytes piece{reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  for (int i = 0; i < 10; ++i) producer.Write(DataHeader(text.size()), &piece, 1);
  pair.far.Reset();
  pair.PollUntilClosed(recorder);
  EXPECT_EQ(recorder.frames.size(), 10u);
  EXPECT_CODE(recorder.closed[0].second, Code::kPeerLost);
  EXPECT_TRUE(pair.link->closed());
  EXPECT_FALSE(pair.link->Poll(recorder)) << "once";
}

TEST(ShmLinkClosesOnHeadersThatAreNone) {
  FrameHeader type = DataHeader(0);
  type.type = kLastFrameType + 1;
  FrameHeader none = DataHeader(0);
  none.type = 0;
  for (const FrameHeader& header : {type, none}) {
    Pair pair;
    Recorder recorder;
    pair.far_rings->Outgoing().Write(header, nullptr, 0);
    pair.PollUntilClosed(recorder);
    EXPECT_TRUE(recorder.frames.empty());
    EXPECT_CODE(recorder.closed[0].second, Code::kIo);
    EXPECT_CONTAINS(recorder.closed[0].second.message(), "protocol violation");
  }
}

TEST(ShmLinkClosesOnPositionsThatCannotBe) {
  const ConstBytes piece{reinterpret_cast<const uint8_t*>(""), 0};
  uint64_t completed = 0;
  for (const bool published : {false, true}) {
    Pair pair;
    Recorder recorder;
    // The rings lie one after the other, each with its positions in front.
    void* memory = mmap(nullptr, sizeof(RingControl), PROT_READ | PROT_WRITE, MAP_SHARED,
                        pair.far_rings->fd(), 0);
    ASSERT_TRUE(memory != MAP_FAILED);
    auto* control = static_cast<RingControl*>(memory);
    if (published) {
      // This link's own ring: only the other one concerns what it reads.
      control->published.store(12345);
      EXPECT_FALSE(pair.link->Poll(recorder));
    }
    control->consumed.store(uint64_t{1} << 60);
    while (pair.link->CanSend(0)) {
      pair.link->Send(DataHeader(0), &piece, 1, &completed);
      if (pair.link->closed()) break;
      pair.link->Poll(recorder);
    }
    pair.PollUntilClosed(recorder);
    EXPECT_CODE(recorder.closed[0].second, Code::kIo);
    munmap(memory, sizeof(RingControl));
  }
}

TEST(ShmLinkDropsAndCountsWhatNobodyTakes) {
  Pair pair;
  Recorder recorder;
  const std::string payload(kMaxFrameBytes, 'x');
  const ConstBytes piece{reinterpret_cast<const uint8_t*>(payload.data()), payload.size()};
  uint64_t completed = 0;
  uint64_t sent = 0;
  for (; pair.link->CanSend(payload.size()); ++sent) {
    pair.link->Send(DataHeader(payload.size()), &piece, 1, &completed);
  }
  EXPECT_EQ(sent, 2u) << "the smallest ring holds two of the largest frames";
  pair.link->SendControl(ControlHeader(5), "hello");
  EXPECT_FALSE(pair.link->flushed());
  pair.far.Reset();
  pair.PollUntilClosed(recorder);
  EXPECT_TRUE(pair.link->flushed());
  ASSERT_TRUE(pair.link->CanSend(payload.size()));
  pair.link->Send(DataHeader(payload.size()), &piece, 1, &completed);
  EXPECT_EQ(completed, sent + 1);
}

TEST(ShmLinkRingsOnlyForASleepingPeer) {
  Pair pair;
  RingConsumer consumer = pair.far_rings->Incoming();
  char byte = 0;
  pair.link->SendControl(ControlHeader(5), "hello");
  EXPECT_EQ(recv(pair.far.get(), &byte, 1, 0), -1);
  FrameHeader header;
  const uint8_t* payload = nullptr;
  ASSERT_TRUE(consumer.Read(&header, &payload) == RingConsumer::Outcome::kFrame);
  consumer.Free();
  EXPECT_FALSE(consumer.WaitForFrames());
  pair.link->SendControl(ControlHeader(5), "hello");
  pair.link->SendControl(ControlHeader(5), "hello");
  EXPECT_EQ(recv(pair.far.get(), &byte, 1, 0), 1);
  EXPECT_EQ(recv(pair.far.get(), &byte, 1, 0), -1) << "one is enough";
}

TEST(ShmLinkSurvivesAFloodOfDoorbells) {
  Pair pair;
  Recorder recorder;
  const std::string bytes(100000, 'D');
  const ssize_t sent = send(pair.far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  EXPECT_GT(sent, 0);
  for (int i = 0; i < 3; ++i) {
    for (const Poller::Event& event : pair.poller->Wait(std::chrono::milliseconds(0))) {
      pair.link->OnEvents(event.events);
    }
    EXPECT_FALSE(pair.link->Poll(recorder));
  }
  EXPECT_TRUE(recorder.closed.empty());
}

Fd Memory(size_t bytes, int seals) {
  Fd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  if (seals != 0) EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(SharedRingsRefuseOtherMemory) {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const size_t good = 2 * (sizeof(RingControl) + LeastRingCapacity(kMaxFrameBytes));
  EXPECT_OK(SharedRings::Attach(Memory(good, seals)));
  EXPECT_CODE(SharedRings::Attach(Memory(good, 0)), Code::kIo);  // could be cut short
  EXPECT_CODE(SharedRings::Attach(Memory(good - 128, seals)), Code::kIo);
  EXPECT_CODE(SharedRings::Attach(Memory(good + 2, seals)), Code::kIo);
  EXPECT_CODE(SharedRings::Attach(Memory(0, seals)), Code::kIo);
  EXPECT_CODE(SharedRings::Attach(Memory(size_t{1} << 40, seals)), Code::kIo);
  auto sockets = SocketPair();
  EXPECT_CODE(SharedRings::Attach(std::move(sockets.first)), Code::kIo);
}

TEST(DescriptorsArePassed) {
  auto sockets = SocketPair();
  auto nothing = ReceiveFd(sockets.second.get());
  ASSERT_OK(nothing);
  EXPECT_FALSE(nothing.value().valid());
  ASSERT_OK(SendFd(sockets.first.get(), Memory(4096, 0).get()));
  auto passed = ReceiveFd(sockets.second.get());
  ASSERT_OK(passed);
  EXPECT_TRUE(passed.value().valid());
  EXPECT_EQ(lseek(passed.value().get(), 0, SEEK_END), 4096);
  EXPECT_EQ(send(sockets.first.get(), "x", 1, 0), 1);
  EXPECT_CODE(ReceiveFd(sockets.second.get()), Code::kIo);
  sockets.first.Reset();
  EXPECT_CODE(ReceiveFd(sockets.second.get()), Code::kIo);
}

}  // namespace
}  // namespace test
}  // namespace tfring
