// Runs the registered tests one after the other under a watchdog.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "test.h"

namespace tfring {
namespace test {
namespace {

struct Test {
  std::string name;
  std::string file;
  double limit_s;
  std::vector<Case> (*expand)();
};

constexpr int kFailuresShown = 10;  // per run of a test

std::vector<Test>& Tests() {
  static std::vector<Test> tests;
  return tests;
}

std::mutex failures_mutex;
int failures = 0;

// Aborts the process, naming the test, when one takes too long: a hang must be seen.
class Watchdog {
 public:
  Watchdog() : thread_([this] { Watch(); }) {}
  ~Watchdog() {
    Set("", 0, /*stop=*/true);
    thread_.join();
  }

  void Begin(const std::string& name, double limit_s) { Set(name, limit_s, /*stop=*/false); }
  void End() { Set("", 0, /*stop=*/false); }

 private:
  using Clock = std::chrono::steady_clock;

  void Set(const std::string& name, double limit_s, bool stop) {
    const std::lock_guard<std::mutex> lock(mutex_);
    name_ = name;
    limit_s_ = limit_s;
    stop_ = stop;
    deadline_ = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(limit_s * 1000));
    changed_.notify_one();
  }

  void Watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop_) {
      if (name_.empty()) {
        changed_.wait(lock);
      } else if (Clock::now() < deadline_) {
        changed_.wait_until(lock, deadline_);
      } else {
        std::printf("HANGS   %s: not done after %g s\n", name_.c_str(), limit_s_);
        std::fflush(stdout);
        std::abort();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string name_;  // empty: nothing to watch
  double limit_s_ = 0;
  Clock::time_point deadline_;
  bool stop_ = false;
  std::thread thread_;
};

bool RunCase(const Case& one, double limit_s, Watchdog& watchdog) {
  {
    const std::lock_guard<std::mutex> lock(failures_mutex);
    failures = 0;
  }
  watchdog.Begin(one.name, limit_s);
  const auto begin = std::chrono::steady_clock::now();
  try {
    one.run();
  } catch (const std::exception& error) {
    Fail(one.name.c_str(), 0, std::string("exception: ") + error.what());
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  watchdog.End();
  const bool passed = !HasFailed();
  std::printf("%s %s (%.3f s)\n", passed ? "passed " : "FAILED ", one.name.c_str(), time.count());
  std::fflush(stdout);
  return passed;
}

// "Name" is the test of that name, with all its parameters; "Name/label" one run of it; a
// trailing * makes it a beginning of names.
bool Matches(const std::string& name, const std::string& filter) {
  if (filter.empty()) return true;
  if (filter.back() == '*')
    return name.compare(0, filter.size() - 1, filter, 0, filter.size() - 1) == 0;
  return name == filter || name.compare(0, filter.size() + 1, filter + "/") == 0;
}

int RunAll(const std::string& filter) {
  int passed = 0;
  std::vector<std::string> failed;
  Watchdog watchdog;
  for (const Test& test : Tests()) {
    for (const Case& one : test.expand()) {
      if (!Matches(one.name, filter)) continue;
      if (RunCase(one, test.limit_s, watchdog)) {
        ++passed;
      } else {
        failed.push_back(one.name);
      }
    }
  }
  for (const std::string& name : failed) std::printf("failed: %s\n", name.c_str());
  if (passed == 0 && failed.empty()) std::printf("no test is called \"%s\"\n", filter.c_str());
  std::printf("%d passed, %zu failed\n", passed, failed.size());
  return failed.empty() && passed > 0 ? 0 : 1;
}

// False when two tests have one name: a filter could not tell them apart.
bool SortTests() {
  std::vector<Test>& tests = Tests();
  // By file, in the order of each file: that of registration depends on the linker.
  std::stable_sort(tests.begin(), tests.end(),
                   [](const Test& a, const Test& b) { return a.file < b.file; });
  std::vector<std::string> names;
  for (const Test& test : tests) names.push_back(test.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin == names.end()) return true;
  std::fprintf(stderr, "two tests are called %s\n", twin->c_str());
  return false;
}

}  // namespace

int Register(const char* name, const char* file, double limit_s,
             std::vector<Case> (*expand)()) noexcept {
  Tests().push_back({name, file, limit_s, expand});
  return 0;
}

void Fail(const char* file, int line, const std::string& text) {
  const std::lock_guard<std::mutex> lock(failures_mutex);
  if (++failures > kFailuresShown) return;
  std::printf("%s:%d: %s\n", file, line, text.c_str());
  if (failures == kFailuresShown) std::printf("(further failures of this run are not shown)\n");
  std::fflush(stdout);
}

bool HasFailed() {
  const std::lock_guard<std::mutex> lock(failures_mutex);
  return failures > 0;
}

int Main(int argc, char** argv) {
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--list") {
      if (!SortTests()) return 2;
      for (const Test& test : Tests()) std::printf("%s\n", test.name.c_str());
      return 0;
    }
    if (argument.rfind("--filter=", 0) == 0) {
      filter = argument.substr(9);
    } else {
      std::fprintf(stderr, "usage: %s [--list] [--filter=NAME | NAME/PARAMETER | BEGINNING*]\n",
                   argv[0]);
      return 2;
    }
  }
  return SortTests() ? RunAll(filter) : 2;
}

}  // namespace test
}  // namespace tfring

int main(int argc, char** argv) { return tfring::test::Main(argc, argv); }
