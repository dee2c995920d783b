#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace tfring {
namespace {

std::atomic<int> least_level{static_cast<int>(LogLevel::kWarning)};
std::atomic<int> own_rank{-1};

const char* Label(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug: ";
    case LogLevel::kInfo:
      return "";
    case LogLevel::kWarning:
      return "warning: ";
    case LogLevel::kError:
      return "error: ";
  }
  return "";
}

}  // namespace

void ConfigureLog(LogLevel least, int rank) {
  least_level.store(static_cast<int>(least), std::memory_order_relaxed);
  own_rank.store(rank, std::memory_order_relaxed);
}

bool LogEnabled(LogLevel level) {
  return static_cast<int>(level) >= least_level.load(std::memory_order_relaxed);
}

void Log(LogLevel level, const std::string& message) {
  if (!LogEnabled(level)) return;
  const int saved_errno = errno;
  const int rank = own_rank.load(std::memory_order_relaxed);
  std::string line = rank < 0 ? "[tfring] " : "[tfring rank " + std::to_string(rank) + "] ";
  line += Label(level) + message;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  // One write, so that the lines of several processes do not mix.
  const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);  // there is nobody to tell
  errno = saved_errno;
}

}  // namespace tfring
