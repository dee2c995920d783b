// Frames of all kinds and sizes, in all directions at once, arrive intact and in order.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "test.h"
#include "transport/ranks.h"

namespace tfring {
namespace test {
namespace {

constexpr uint32_t kFrames = 60;  // per direction

// What `from` sends to `to` as its frame of that number: both ends can tell.
struct Plan {
  bool control;
  std::string payload;
};

Plan PlanFor(int from, int to, uint32_t number) {
  std::mt19937 random(static_cast<uint32_t>(from * 1000003 + to * 10007) + number);
  static const size_t kSizes[] = {0,    1,     23,    24,    25,     63,     64,
                                  1000, 65536, 99999, 65535, 262143, 262144, 7};
  const size_t size = kSizes[random() % (sizeof(kSizes) / sizeof(kSizes[0]))];
  Plan plan{random() % 4 == 0, std::string(size, '\0')};
  if (plan.control) plan.payload.resize(std::min<size_t>(size, 5000));
  for (size_t i = 0; i < plan.payload.size(); i += 97) {
    plan.payload[i] = static_cast<char>(random());
  }
  return plan;
}

class Checker : public FrameSink {
 public:
  Checker(int rank, int size) : rank_(rank), next_(static_cast<size_t>(size)) {}

  void OnFrame(int peer, const FrameHeader& header, const uint8_t* payload) override {
    const uint32_t number = next_[static_cast<size_t>(peer)]++;
    const Plan plan = PlanFor(peer, rank_, number);
    EXPECT_EQ(header.occurrence, number) << "from rank " << peer;
    EXPECT_EQ(header.type == static_cast<uint8_t>(FrameType::kAnnounce), plan.control);
    EXPECT_TRUE(reinterpret_cast<uintptr_t>(payload) % 64 == 0);
    EXPECT_TRUE(std::string(reinterpret_cast<const char*>(payload), header.bytes) == plan.payload)
        << "frame " << number << " from rank " << peer << " to " << rank_;
    ++total_;
  }

  void OnClosed(int peer, const Status& why) override {
    // Whoever is done leaves, but not before all that it sent is here.
    EXPECT_EQ(next_[static_cast<size_t>(peer)], kFrames) << why.message();
  }

  uint32_t total() const { return total_; }

 private:
  const int rank_;
  std::vector<uint32_t> next_;
  uint32_t total_ = 0;
};

// Sends one peer its frames as the link takes them, cut into pieces of odd sizes.
class Feeder {
 public:
  Feeder(int rank, int peer, Link& link) : rank_(rank), peer_(peer), link_(link) {}

  void Feed() {
    while (number_ < kFrames) {
      Plan plan = PlanFor(rank_, peer_, number_);
      if (plan.control) {
        link_.SendControl(ControlHeader(plan.payload.size(), number_), plan.payload);
        ++number_;
        continue;
      }
      if (!link_.CanSend(plan.payload.size())) return;
      payloads_.push_back(std::move(plan.payload));
      std::vector<ConstBytes> pieces;
      const std::string& payload = payloads_.back();
      for (size_t at = 0, size = 1; at < payload.size(); at += size, size = size * 3 + 1) {
        pieces.push_back({reinterpret_cast<const uint8_t*>(payload.data()) + at,
                          std::min(size, payload.size() - at)});
      }
      link_.Send(DataHeader(payload.size(), number_), pieces.data(), pieces.size(), &completed_);
      ++number_;
    }
  }

  bool done() const { return number_ == kFrames && completed_ == payloads_.size(); }

 private:
  const int rank_;
  const int peer_;
  Link& link_;
  uint32_t number_ = 0;
  uint64_t completed_ = 0;
  std::vector<std::string> payloads_;
};

void Exchange(Mesh& mesh) {
  const int rank = mesh.rank();
  Checker checker(rank, mesh.size());
  std::vector<Feeder> feeders;
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (peer != rank) feeders.emplace_back(rank, peer, mesh.link(peer));
  }
  PollUntil(mesh, checker, [&] {
    bool sent = true;
    for (Feeder& feeder : feeders) {
      feeder.Feed();
      sent = sent && feeder.done();
    }
    return sent && checker.total() == kFrames * static_cast<uint32_t>(mesh.size() - 1);
  });
  mesh.Close(Duration(30000));
}

TEST_EACH(FramesArriveIntactAndInOrder, MeshCases()) {
  Meshes meshes = ConnectAll(param);
  RunRanks(param.size, [&](int rank) {
    if (meshes[static_cast<size_t>(rank)]) Exchange(*meshes[static_cast<size_t>(rank)]);
  });
}

TEST_EACH(FramesArriveThroughTheSmallestRings,
          std::vector<MeshCase>({{Transport::kShm, 2}, {Transport::kShm, 4}})) {
  Meshes meshes = ConnectAll(param, [](MeshOptions& options) { options.ring_bytes = 1; });
  RunRanks(param.size, [&](int rank) {
    if (meshes[static_cast<size_t>(rank)]) Exchange(*meshes[static_cast<size_t>(rank)]);
  });
}

TEST_EACH(LinksSayWhatTheyAre, MeshCases({3})) {
  Meshes meshes = ConnectAll(param);
  for (int rank = 0; rank < param.size; ++rank) {
    ASSERT_TRUE(meshes[static_cast<size_t>(rank)] != nullptr);
    Mesh& mesh = *meshes[static_cast<size_t>(rank)];
    EXPECT_EQ(mesh.rank(), rank);
    EXPECT_EQ(mesh.size(), param.size);
    for (int peer = 0; peer < param.size; ++peer) {
      if (peer == rank) continue;
      const bool local = OptionsOf(param, rank).host_id == OptionsOf(param, peer).host_id;
      EXPECT_EQ(std::string(mesh.link(peer).transport_name()), local ? "shm" : "tcp");
      EXPECT_EQ(mesh.link(peer).same_host(), local);
      EXPECT_FALSE(mesh.link(peer).closed());
    }
  }
}

}  // namespace
}  // namespace test
}  // namespace tfring
