// Interrupts: what a change of membership does to engines, and to waits on the way to one.
#include <chrono>
#include <thread>
#include <vector>

#include "base/interruption.h"
#include "c_api.h"
#include "core/cluster.h"
#include "rendezvous/hash_store.h"
#include "rendezvous/store_server.h"
#include "rendezvous/tcp_store.h"
#include "test.h"
#include "transport/mesh.h"

namespace tfring::test {
namespace {

const Status kWhy(Code::kInterrupted, "generation 1 is over: a worker joins");

std::shared_ptr<Interruption> MakeInterruption() { return Interruption::Make().value(); }

// Sets it a moment later, while somebody waits.
std::thread SetSoon(std::shared_ptr<Interruption> interruption) {
  return std::thread([interruption] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    interruption->Set(kWhy);
  });
}

TEST(OneInterruptEndsWhatIsPendingOnEveryRank) {
  for (bool shared_memory : {true, false}) {
    Cluster cluster(shared_memory ? OnOneHost(4) : OnHosts(4));
    cluster.Run([&](Engine& engine, int rank) {
      float value = 1;
      // Rank 3 never takes part.
      if (rank == 3) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        engine.Interrupt(kWhy);
      } else {
        const Status status = RunRequest(
            engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &value, &value, 1));
        EXPECT_TRUE(status.code() == Code::kInterrupted);
        EXPECT_CONTAINS(status.message(), "a worker joins");
      }
      EXPECT_TRUE(engine.health().code() == Code::kInterrupted);
      const Status later = RunRequest(engine, BarrierRequest("later"));
      EXPECT_TRUE(later.code() == Code::kInterrupted);
      engine.ShutDown();
    });
  }
}

TEST(AnInterruptedEngineOfOneRankDoesNoMore) {
  Cluster cluster(OnOneHost(1));
  cluster.engine(0).Interrupt(kWhy);
  float value = 1;
  const Status status = RunRequest(
      cluster.engine(0), AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &value, &value, 1));
  EXPECT_TRUE(status.code() == Code::kInterrupted);
}

TEST(TheFirstInterruptCounts) {
  const auto interruption = MakeInterruption();
  EXPECT_TRUE(interruption->why().ok());
  interruption->Set(kWhy);
  interruption->Set({Code::kInterrupted, "another"});
  EXPECT_EQ(interruption->why().message(), kWhy.message());
}

TEST(AnInterruptEndsTheWaitForAStoreThatIsNotThere) {
  const auto interruption = MakeInterruption();
  std::thread setter = SetSoon(interruption);
  const auto store =
      TcpStore::Connect("127.0.0.1", 1, "secret", std::chrono::seconds(60), interruption);
  setter.join();
  EXPECT_TRUE(store.status().code() == Code::kInterrupted);
}

TEST(AnInterruptEndsAGatherInTheStore) {
  const auto server = StoreServer::Start("127.0.0.1", 0, "secret");
  ASSERT_TRUE(server.ok());
  const auto interruption = MakeInterruption();
  const auto store = TcpStore::Connect("127.0.0.1", server.value()->port(), "secret",
                                       std::chrono::seconds(60), interruption);
  ASSERT_TRUE(store.ok());
  std::thread setter = SetSoon(interruption);
  const auto gathered = store.value()->Gather("key", 0, 2, "value", std::chrono::seconds(60));
  setter.join();
  EXPECT_TRUE(gathered.status().code() == Code::kInterrupted);
}

TEST(AnInterruptEndsTheWaitForConnections) {
  HashStore store;
  const auto interruption = MakeInterruption();
  MeshOptions options;
  options.rank = 1;
  options.size = 2;
  options.host_id = "here";
  options.secret = "secret";
  options.interruption = interruption;
  // Rank 0 gives an address, but nobody answers there.
  std::thread nobody([&store, options] {
    MeshOptions other = options;
    other.rank = 0;
    const auto gathered = store.Gather("gen0/addresses", 0, 2, "", std::chrono::seconds(60));
    EXPECT_TRUE(gathered.ok());
  });
  std::thread setter = SetSoon(interruption);
  const auto mesh = Mesh::Connect(options, store);
  nobody.join();
  setter.join();
  EXPECT_TRUE(!mesh.ok());
}

TEST(TheApiInterruptsGenerationsUpToOne) {
  tfr_interrupt(41, "nobody is there");
  EXPECT_TRUE(tfr_init("rank=0\nsize=1\ngeneration=41\n") == TFR_INTERRUPTED);
  EXPECT_CONTAINS(std::string(tfr_last_error()), "generation 41 is over: nobody is there");
  ASSERT_TRUE(tfr_init("rank=0\nsize=1\ngeneration=42\n") == TFR_OK);
  EXPECT_TRUE(tfr_health() == TFR_OK);
  tfr_interrupt(41, "late");
  EXPECT_TRUE(tfr_health() == TFR_OK);
  tfr_interrupt(42, "a worker joins");
  EXPECT_TRUE(tfr_health() == TFR_INTERRUPTED);
  tfr_shutdown();
  ASSERT_TRUE(tfr_init("rank=0\nsize=1\n") == TFR_OK);
  tfr_interrupt(1000, "not of a job that never changes");
  EXPECT_TRUE(tfr_health() == TFR_OK);
  tfr_shutdown();
}

}  // namespace
}  // namespace tfring::test
