// Peers that die or fall silent. One rank is a bare mesh here: it never answers.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/cluster.h"
#include "test.h"

namespace tfring::test {
namespace {

constexpr int kSize = 3;
constexpr int kMute = 1;

struct Crowd {
  HashStore store;
  std::vector<Counters> counters{kSize};
  std::vector<std::unique_ptr<Engine>> engines{kSize};
  std::unique_ptr<Mesh> mute;
};

void Gather(Crowd& crowd, bool shared_memory, Duration heartbeat_timeout) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      const std::string host = shared_memory ? "host" : "host" + std::to_string(rank);
      if (rank == kMute) {
        MeshOptions options;
        options.rank = rank;
        options.size = kSize;
        options.host_id = host;
        options.secret = "secret";
        crowd.mute = std::move(Mesh::Connect(options, crowd.store).value());
        return;
      }
      EngineOptions options;
      options.rank = rank;
      options.size = kSize;
      options.host_id = host;
      options.secret = "secret";
      options.log_level = LogLevel::kError;
      options.heartbeat_timeout = heartbeat_timeout;
      crowd.engines[rank] =
          std::move(Engine::Create(options, &crowd.store, crowd.counters[rank]).value());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void ExpectLost(Crowd& crowd, const std::string& reason, const std::function<void()>& trigger) {
  float values[kSize] = {1, 1, 1};
  std::vector<std::unique_ptr<Pending>> pending;
  for (int rank : {0, 2}) {
    pending.push_back(std::make_unique<Pending>(
        *crowd.engines[rank],
        AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &values[rank], &values[rank], 1)));
  }
  trigger();
  for (auto& operation : pending) {
    const Status status = operation->Wait();
    EXPECT_TRUE(status.code() == Code::kPeerLost);
    EXPECT_TRUE(status.message().find("lost rank 1") != std::string::npos);
    EXPECT_TRUE(status.message().find(reason) != std::string::npos);
  }
  // From now on nothing starts, and the reason is the same.
  for (int rank : {0, 2}) {
    EXPECT_TRUE(crowd.engines[rank]->health().code() == Code::kPeerLost);
    const Status status = RunRequest(*crowd.engines[rank], BarrierRequest("b"));
    EXPECT_TRUE(status.code() == Code::kPeerLost);
  }
}

TEST(APeerWhoseSocketsCloseIsLostAtOnce) {
  for (bool shared_memory : {true, false}) {
    Crowd crowd;
    Gather(crowd, shared_memory, Duration(0));
    ExpectLost(crowd, "", [&] { crowd.mute.reset(); });
  }
}

TEST(ASilentPeerIsLostAfterTheHeartbeatTimeout) {
  for (bool shared_memory : {true, false}) {
    Crowd crowd;
    Gather(crowd, shared_memory, Duration(400));
    ExpectLost(crowd, "no sign of life for 0.4", [] {});
  }
}

}  // namespace
}  // namespace tfring::test
