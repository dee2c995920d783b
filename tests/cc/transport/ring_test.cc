#include "transport/shm/ring.h"

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "test.h"
#include "transport/ranks.h"

namespace tfring {
namespace test {
namespace {

// A ring in the memory of one process, so that ThreadSanitizer sees both ends of it.
class Ring {
 public:
  explicit Ring(size_t capacity)
      : memory_((capacity + sizeof(RingControl)) / kRingAlign + 1), capacity_(capacity) {}

  RingControl* control() { return reinterpret_cast<RingControl*>(memory_.data()); }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(memory_.data()) + sizeof(RingControl); }
  RingProducer Producer() { return RingProducer(control(), data(), capacity_); }
  RingConsumer Consumer() { return RingConsumer(control(), data(), capacity_); }

 private:
  struct alignas(kRingAlign) Line {
    uint8_t bytes[kRingAlign] = {};
  };
  std::vector<Line> memory_;
  const size_t capacity_;
};

void Write(RingProducer& producer, const std::string& text) {
  const ConstBytes piece{reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  producer.Write(DataHeader(text.size()), &piece, 1);
}

std::string Payload(size_t number) {
  std::mt19937 random(static_cast<uint32_t>(number));
  std::string text(random() % 900, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

TEST(RingHandsOverFramesInOrder) {
  Ring ring(LeastRingCapacity(900));
  RingProducer producer = ring.Producer();
  RingConsumer consumer = ring.Consumer();
  size_t written = 0;
  size_t read = 0;
  while (read < 500) {
    while (producer.Fits(Payload(written).size())) Write(producer, Payload(written++));
    EXPECT_LT(read, written) << "the ring takes the largest frame at any position";
    FrameHeader header;
    const uint8_t* payload = nullptr;
    while (consumer.Read(&header, &payload) == RingConsumer::Outcome::kFrame) {
      const std::string got(reinterpret_cast<const char*>(payload), header.bytes);
      ASSERT_TRUE(got == Payload(read)) << "frame " << read;
      ++read;
      consumer.Free();
    }
    EXPECT_TRUE(consumer.empty());
  }
}

TEST(RingKeepsAFrameWhileLaterOnesPass) {
  Ring ring(8 * kRingAlign);
  RingProducer producer = ring.Producer();
  RingConsumer consumer = ring.Consumer();
  FrameHeader header;
  const uint8_t* kept = nullptr;
  Write(producer, "kept");
  ASSERT_TRUE(consumer.Read(&header, &kept) == RingConsumer::Outcome::kFrame);
  ASSERT_TRUE(consumer.Keep());
  const uint8_t* payload = nullptr;
  EXPECT_TRUE(consumer.Read(&header, &payload) == RingConsumer::Outcome::kEmpty);
  Write(producer, "passes");
  ASSERT_TRUE(consumer.Read(&header, &payload) == RingConsumer::Outcome::kFrame);
  EXPECT_TRUE(std::memcmp(payload, "passes", 6) == 0);
  consumer.Free();
  EXPECT_FALSE(consumer.crowded());
  EXPECT_TRUE(std::memcmp(kept, "kept", 4) == 0);
  // Two records of the ring's four are still taken.
  Write(producer, "third");
  Write(producer, "fourth");
  EXPECT_FALSE(producer.Fits(1));
  ASSERT_TRUE(consumer.Read(&header, &payload) == RingConsumer::Outcome::kFrame);
  consumer.Free();
  EXPECT_TRUE(consumer.crowded()) << "what is kept holds up the producer by now";
  consumer.FreeKept(kept);
  EXPECT_FALSE(consumer.crowded());
  EXPECT_TRUE(producer.Fits(1));
}

TEST(RingKeepsNoMoreThanHalfOfItself) {
  Ring ring(8 * kRingAlign);
  RingProducer producer = ring.Producer();
  RingConsumer consumer = ring.Consumer();
  FrameHeader header;
  const uint8_t* payload = nullptr;
  for (int i = 0; i < 3; ++i) Write(producer, "x");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(consumer.Read(&header, &payload) == RingConsumer::Outcome::kFrame);
    EXPECT_TRUE(consumer.Keep() == (i < 2)) << "frame " << i;
  }
}

TEST(RingHandsOverFramesBetweenThreads) {
  constexpr size_t kCount = 5000;
  Ring ring(LeastRingCapacity(900));
  std::thread writer([&ring] {
    RingProducer producer = ring.Producer();
    for (size_t i = 0; i < kCount; ++i) {
      const std::string text = Payload(i);
      while (!producer.Fits(text.size())) std::this_thread::yield();
      Write(producer, text);
    }
  });
  RingConsumer consumer = ring.Consumer();
  for (size_t i = 0; i < kCount;) {
    FrameHeader header;
    const uint8_t* payload = nullptr;
    if (consumer.Read(&header, &payload) != RingConsumer::Outcome::kFrame) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_TRUE(std::string(reinterpret_cast<const char*>(payload), header.bytes) == Payload(i));
    consumer.Free();
    ++i;
  }
  writer.join();
}

TEST(RingTellsTheConsumerThatWaitsOnce) {
  Ring ring(1024);
  RingProducer producer = ring.Producer();
  RingConsumer consumer = ring.Consumer();
  Write(producer, "a");
  EXPECT_FALSE(producer.TakeConsumerWaits());
  EXPECT_TRUE(consumer.WaitForFrames()) << "there is one already";
  consumer.StopWaiting();
  FrameHeader header;
  const uint8_t* payload = nullptr;
  ASSERT_TRUE(consumer.Read(&header, &payload) == RingConsumer::Outcome::kFrame);
  consumer.Free();
  EXPECT_FALSE(consumer.WaitForFrames());
  Write(producer, "b");
  EXPECT_TRUE(producer.TakeConsumerWaits());
  EXPECT_FALSE(producer.TakeConsumerWaits());
}

TEST(RingTellsTheProducerWhenThereIsTheRoomItWaitsFor) {
  Ring ring(LeastRingCapacity(400));
  RingProducer producer = ring.Producer();
  RingConsumer consumer = ring.Consumer();
  while (producer.Fits(100)) Write(producer, std::string(100, 'x'));
  EXPECT_FALSE(producer.WaitForRoom(400));
  FrameHeader header;
  const uint8_t* payload = nullptr;
  while (!consumer.TakeProducerWaits()) {
    ASSERT_TRUE(consumer.Read(&header, &payload) == RingConsumer::Outcome::kFrame);
    consumer.Free();
  }
  EXPECT_TRUE(producer.Fits(400));
  EXPECT_FALSE(consumer.empty()) << "there must be something left to do meanwhile";
  EXPECT_FALSE(consumer.TakeProducerWaits()) << "once";
}

TEST(RingConsumerNoticesPositionsThatCannotBe) {
  for (const uint64_t published : {uint64_t{1}, uint64_t{1024 + 64}, ~uint64_t{0}}) {
    Ring ring(1024);
    RingConsumer consumer = ring.Consumer();
    ring.control()->published.store(published);
    FrameHeader header;
    const uint8_t* payload = nullptr;
    EXPECT_TRUE(consumer.Read(&header, &payload) == RingConsumer::Outcome::kCorrupt) << published;
  }
}

TEST(RingProducerNoticesPositionsThatCannotBe) {
  for (const uint64_t consumed : {uint64_t{4096}, ~uint64_t{0}}) {
    Ring ring(1024);
    RingProducer producer = ring.Producer();
    while (producer.Fits(100)) Write(producer, std::string(100, 'x'));
    ring.control()->consumed.store(consumed);
    EXPECT_FALSE(producer.Fits(100));
    EXPECT_TRUE(producer.corrupt());
  }
}

// Whatever a peer writes over the ring, reading it stays within it and ends.
TEST(RingConsumerSurvivesRandomContent) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    Ring ring(512);
    RingProducer producer = ring.Producer();
    RingConsumer consumer = ring.Consumer();
    while (producer.Fits(50)) Write(producer, std::string(50, 'x'));
    for (int i = 0; i < 4; ++i) {
      uint8_t* at = ring.data() + random() % 8 * kRingAlign + random() % 24;
      *at = static_cast<uint8_t>(random() % 2 == 0 ? random() : random() % 3 * 64);
    }
    FrameHeader header;
    const uint8_t* payload = nullptr;
    int frames = 0;
    while (consumer.Read(&header, &payload) == RingConsumer::Outcome::kFrame) {
      EXPECT_TRUE(payload >= ring.data() && payload + header.bytes <= ring.data() + 512);
      consumer.Free();
      ASSERT_LT(++frames, 100);
    }
  }
}

}  // namespace
}  // namespace test
}  // namespace tfring
