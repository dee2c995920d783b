#include "core/options.h"

#include <string>

#include "test.h"

namespace tfring::test {
namespace {

TEST(OptionsAreRead) {
  const auto parsed = ParseOptions(
      "rank=2\nsize=4\nlocal_rank=0\nlocal_size=2\ncross_rank=1\ncross_size=2\nhost_id=b\n"
      "store=[::1]:2900\nstore_serve=1\nsecret=a=b c\ngeneration=7\nlisten_address=10.0.0.2\n"
      "start_timeout_s=1.5\nstall_warning_s=0\nstall_shutdown_s=0.0001\nheartbeat_timeout_s=3\n"
      "spin_us=0\nallreduce_algorithm=ring\nlog_level=debug\n");
  ASSERT_OK(parsed);
  const EngineOptions& options = parsed.value();
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.size, 4);
  EXPECT_EQ(options.cross_size, 2);
  EXPECT_EQ(options.store_host, std::string("::1"));
  EXPECT_EQ(options.store_port, 2900);
  EXPECT_TRUE(options.store_serve);
  EXPECT_EQ(options.secret, std::string("a=b c"));
  EXPECT_EQ(options.start_timeout.count(), 1500);
  EXPECT_EQ(options.stall_warning.count(), 0);
  EXPECT_EQ(options.stall_shutdown.count(), 1);  // rounded up: 0 would turn it off
  EXPECT_EQ(options.spin.count(), 0);
  EXPECT_EQ(options.algorithms.family, AllreduceFamily::kRing);
  EXPECT_TRUE(options.log_level == LogLevel::kDebug);
}

struct Bad {
  std::string text;
  std::string expected;
};

std::ostream& operator<<(std::ostream& out, const Bad& bad) { return out << bad.text; }

std::vector<Bad> BadOptions() {
  return {{"rank=two", "a whole number"},
          {"rank=-1", "\"-1\""},
          {"size=0", "from 1"},
          {"rank=1", "less than size (1)"},
          {"size=2", "expected host:port"},
          {"store=host", "host:port"},
          {"store=host:0", "from 1 to 65535"},
          {"store=:1", "host:port"},
          {"store_serve=yes", "0 to 1"},
          {"start_timeout_s=-1", "seconds"},
          {"stall_warning_s=nan", "seconds"},
          {"heartbeat_timeout_s=", "seconds"},
          {"allreduce_algorithm=fast", "any, exchange, doubling, direct or ring"},
          {"log_level=loud", "debug, info, warning or error"},
          {"colour=red", "unknown option \"colour\""},
          {"rank", "unknown option"}};
}

TEST_EACH(BadOptionsAreNamed, BadOptions()) {
  const auto parsed = ParseOptions(param.text);
  ASSERT_FALSE(parsed.ok());
  EXPECT_CODE(parsed.status(), Code::kInvalidArgument);
  EXPECT_CONTAINS(parsed.status().message(), param.expected);
}

}  // namespace
}  // namespace tfring::test
