// What every store does, in one process and over TCP.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/hash_store.h"
#include "rendezvous/store_server.h"
#include "rendezvous/table.h"
#include "rendezvous/tcp_store.h"
#include "test.h"

namespace tfring {
namespace test {
namespace {

constexpr Duration kLong{60000};

// A store and as many clients of it as are asked for.
class Service {
 public:
  explicit Service(bool tcp) {
    if (!tcp) return;
    auto server = StoreServer::Start("127.0.0.1", 0, "secret");
    EXPECT_OK(server);
    server_ = std::move(server.value());
  }

  Store& Client() {
    if (!server_) return hash_store_;
    auto client = TcpStore::Connect("127.0.0.1", server_->port(), "secret", kLong);
    EXPECT_OK(client);
    clients_.push_back(std::move(client.value()));
    return *clients_.back();
  }

 private:
  HashStore hash_store_;
  std::unique_ptr<StoreServer> server_;
  std::vector<std::unique_ptr<TcpStore>> clients_;
};

const std::vector<std::string> kKinds = {"hash", "tcp"};

TEST_EACH(StoreKeepsWhatIsSet, kKinds) {
  Service service(param == "tcp");
  Store& a = service.Client();
  Store& b = service.Client();
  EXPECT_OK(a.Set("key", "value"));
  EXPECT_EQ(b.Get("key", kLong).value(), "value");
  EXPECT_OK(b.Set("key", std::string("new\0value", 9)));
  EXPECT_EQ(a.Get("key", Duration(0)).value(), std::string("new\0value", 9));
  EXPECT_OK(a.Set("empty", ""));
  EXPECT_EQ(a.Get("empty", Duration(0)).value(), "");
}

TEST_EACH(StoreHandsOutLargeValues, kKinds) {
  Service service(param == "tcp");
  Store& store = service.Client();
  const std::string most(kMaxValueBytes, 'x');
  EXPECT_OK(store.Set("most", most));
  EXPECT_TRUE(service.Client().Get("most", kLong).value() == most);
  EXPECT_CODE(store.Set("more", most + "x"), Code::kInvalidArgument);
  EXPECT_OK(store.Set("key", "the connection is still good"));
}

TEST_EACH(StoreRefusesBadKeys, kKinds) {
  Service service(param == "tcp");
  Store& store = service.Client();
  EXPECT_CODE(store.Set("", "x"), Code::kInvalidArgument);
  EXPECT_CODE(store.Get(std::string(kMaxKeyBytes + 1, 'k'), kLong), Code::kInvalidArgument);
  EXPECT_OK(store.Set(std::string(kMaxKeyBytes, 'k'), "x"));
}

TEST_EACH(StoreGetWaitsForTheKey, kKinds) {
  Service service(param == "tcp");
  Store& reader = service.Client();
  Store& writer = service.Client();
  std::thread thread([&] { EXPECT_EQ(reader.Get("late", kLong).value(), "here"); });
  EXPECT_CODE(writer.Get("never", Duration(20)), Code::kTimeout);
  EXPECT_OK(writer.Set("late", "here"));
  thread.join();
}

TEST_EACH(StoreGetNamesTheKeyThatIsMissing, kKinds) {
  Service service(param == "tcp");
  const auto result = service.Client().Get("gen0/mesh/3", Duration(1));
  EXPECT_CODE(result, Code::kTimeout);
  EXPECT_CONTAINS(result.status().message(), "gen0/mesh/3");
}

TEST_EACH(StoreCounts, kKinds) {
  Service service(param == "tcp");
  Store& store = service.Client();
  EXPECT_EQ(store.Add("counter", 5).value(), 5);
  EXPECT_EQ(store.Add("counter", -7).value(), -2);
  EXPECT_EQ(store.Get("counter", Duration(0)).value(), "-2");
  EXPECT_OK(store.Set("text", "not a number"));
  const auto sum = store.Add("text", 1);
  EXPECT_CODE(sum, Code::kInvalidArgument);
  EXPECT_CONTAINS(sum.status().message(), "text");
  EXPECT_OK(store.Set("big", std::to_string(INT64_MAX)));
  EXPECT_CODE(store.Add("big", 1), Code::kInvalidArgument);
}

TEST_EACH(StoreCountsEveryAdditionOfManyThreads, kKinds) {
  Service service(param == "tcp");
  std::vector<std::thread> threads;
  Store& shared = service.Client();
  for (int i = 0; i < 4; ++i) {
    Store& own = service.Client();
    threads.emplace_back([&shared, &own, i] {
      for (int n = 0; n < 50; ++n) EXPECT_OK((i % 2 == 0 ? shared : own).Add("n", 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared.Add("n", 0).value(), 200);
}

TEST_EACH(StoreAddWakesThoseWhoWait, kKinds) {
  Service service(param == "tcp");
  Store& reader = service.Client();
  Store& writer = service.Client();
  std::thread thread([&] { EXPECT_EQ(reader.Get("n", kLong).value(), "1"); });
  EXPECT_OK(writer.Add("n", 1));
  thread.join();
}

TEST_EACH(StoreForgetsWhatIsDeleted, kKinds) {
  Service service(param == "tcp");
  Store& store = service.Client();
  EXPECT_OK(store.Delete("never set"));
  EXPECT_OK(store.Set("key", "value"));
  EXPECT_OK(store.Delete("key"));
  EXPECT_CODE(store.Get("key", Duration(0)), Code::kTimeout);
  EXPECT_EQ(store.Add("key", 1).value(), 1);
}

TEST_EACH(StoreTakesTimeoutsOfAnyLength, kKinds) {
  Service service(param == "tcp");
  Store& store = service.Client();
  EXPECT_CODE(store.Get("key", Duration(-5)), Code::kTimeout);
  EXPECT_OK(store.Set("key", "value"));
  EXPECT_EQ(store.Get("key", Duration(int64_t{1} << 50)).value(), "value");
}

TEST_EACH(StoreServesManyWhoWaitForOneKey, kKinds) {
  Service service(param == "tcp");
  Store& writer = service.Client();
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    Store& reader = service.Client();
    threads.emplace_back([&reader] { EXPECT_EQ(reader.Get("go", kLong).value(), "now"); });
  }
  EXPECT_OK(writer.Set("go", "now"));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace test
}  // namespace tfring
