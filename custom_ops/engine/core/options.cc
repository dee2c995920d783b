#include "core/options.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>

namespace tfring {
namespace {

Status BadValue(const std::string& key, const std::string& value, const std::string& expected) {
  return {Code::kInvalidArgument,
          "option " + key + ": expected " + expected + ", received \"" + value + "\""};
}

Status ReadInteger(const std::string& key, const std::string& value, int64_t lowest,
                   int64_t highest, int64_t* out) {
  char* end = nullptr;
  errno = 0;
  const long long parsed = std::strtoll(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || errno != 0 || parsed < lowest || parsed > highest) {
    return BadValue(
        key, value,
        "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }
  *out = parsed;
  return Status::Ok();
}

Status ReadInt(const std::string& key, const std::string& value, int lowest, int* out) {
  int64_t wide = 0;
  TFR_RETURN_IF_ERROR(ReadInteger(key, value, lowest, 1 << 20, &wide));
  *out = static_cast<int>(wide);
  return Status::Ok();
}

Status ReadSeconds(const std::string& key, const std::string& value, Duration* out) {
  constexpr double kLongest = 1e9;
  char* end = nullptr;
  const double seconds = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !(seconds >= 0 && seconds <= kLongest)) {
    return BadValue(key, value, "seconds, 0 or more");
  }
  *out = Duration(static_cast<int64_t>(std::ceil(seconds * 1000)));
  return Status::Ok();
}

Status ReadStore(const std::string& key, const std::string& value, EngineOptions* options) {
  const size_t colon = value.rfind(':');
  if (colon == std::string::npos || colon == 0) return BadValue(key, value, "host:port");
  int64_t port = 0;
  TFR_RETURN_IF_ERROR(ReadInteger(key + " (port)", value.substr(colon + 1), 1, 65535, &port));
  options->store_host = value.substr(0, colon);
  if (options->store_host.front() == '[' && options->store_host.back() == ']') {
    options->store_host = options->store_host.substr(1, options->store_host.size() - 2);
  }
  options->store_port = static_cast<int>(port);
  return Status::Ok();
}

Status ReadLogLevel(const std::string& key, const std::string& value, LogLevel* out) {
  static const std::map<std::string, LogLevel> kLevels = {{"debug", LogLevel::kDebug},
                                                          {"info", LogLevel::kInfo},
                                                          {"warning", LogLevel::kWarning},
                                                          {"error", LogLevel::kError}};
  const auto found = kLevels.find(value);
  if (found == kLevels.end()) return BadValue(key, value, "debug, info, warning or error");
  *out = found->second;
  return Status::Ok();
}

Status ReadFamily(const std::string& key, const std::string& value, AllreduceFamily* out) {
  for (AllreduceFamily family : kAllreduceFamilies) {
    if (value != NameOf(family)) continue;
    *out = family;
    return Status::Ok();
  }
  return BadValue(key, value, "any, exchange, doubling, direct or ring");
}

using Reader = std::function<Status(const std::string&, const std::string&, EngineOptions*)>;

Reader Int(int EngineOptions::* field, int lowest) {
  return [=](const std::string& key, const std::string& value, EngineOptions* options) {
    return ReadInt(key, value, lowest, &(options->*field));
  };
}

Reader Seconds(Duration EngineOptions::* field) {
  return [=](const std::string& key, const std::string& value, EngineOptions* options) {
    return ReadSeconds(key, value, &(options->*field));
  };
}

Reader Text(std::string EngineOptions::* field) {
  return [=](const std::string&, const std::string& value, EngineOptions* options) {
    options->*field = value;
    return Status::Ok();
  };
}

const std::map<std::string, Reader>& Readers() {
  static const std::map<std::string, Reader> readers = {
      {"rank", Int(&EngineOptions::rank, 0)},
      {"size", Int(&EngineOptions::size, 1)},
      {"local_rank", Int(&EngineOptions::local_rank, 0)},
      {"local_size", Int(&EngineOptions::local_size, 1)},
      {"cross_rank", Int(&EngineOptions::cross_rank, 0)},
      {"cross_size", Int(&EngineOptions::cross_size, 1)},
      {"host_id", Text(&EngineOptions::host_id)},
      {"store", [](const std::string& key, const std::string& value,
                   EngineOptions* options) { return ReadStore(key, value, options); }},
      {"store_serve",
       [](const std::string& key, const std::string& value, EngineOptions* options) {
         int64_t serve = 0;
         TFR_RETURN_IF_ERROR(ReadInteger(key, value, 0, 1, &serve));
         options->store_serve = serve == 1;
         return Status::Ok();
       }},
      {"secret", Text(&EngineOptions::secret)},
      {"generation",
       [](const std::string& key, const std::string& value, EngineOptions* options) {
         return ReadInteger(key, value, 0, int64_t{1} << 40, &options->generation);
       }},
      {"listen_address", Text(&EngineOptions::listen_address)},
      {"start_timeout_s", Seconds(&EngineOptions::start_timeout)},
      {"stall_warning_s", Seconds(&EngineOptions::stall_warning)},
      {"stall_shutdown_s", Seconds(&EngineOptions::stall_shutdown)},
      {"heartbeat_timeout_s", Seconds(&EngineOptions::heartbeat_timeout)},
      {"spin_us",
       [](const std::string& key, const std::string& value, EngineOptions* options) {
         int64_t spin = 0;
         TFR_RETURN_IF_ERROR(ReadInteger(key, value, 0, 1000000, &spin));
         options->spin = std::chrono::microseconds(spin);
         return Status::Ok();
       }},
      {"allreduce_algorithm",
       [](const std::string& key, const std::string& value, EngineOptions* options) {
         return ReadFamily(key, value, &options->algorithms.family);
       }},
      {"log_level",
       [](const std::string& key, const std::string& value, EngineOptions* options) {
         return ReadLogLevel(key, value, &options->log_level);
       }},
  };
  return readers;
}

Status Below(const char* name, int value, const char* bound_name, int bound) {
  if (value < bound) return Status::Ok();
  return {Code::kInvalidArgument, std::string("option ") + name + ": expected less than " +
                                      bound_name + " (" + std::to_string(bound) + "), received " +
                                      std::to_string(value)};
}

Status Validate(const EngineOptions& options) {
  TFR_RETURN_IF_ERROR(Below("rank", options.rank, "size", options.size));
  TFR_RETURN_IF_ERROR(Below("local_rank", options.local_rank, "local_size", options.local_size));
  TFR_RETURN_IF_ERROR(Below("cross_rank", options.cross_rank, "cross_size", options.cross_size));
  if (options.size > 1 && options.store_port == 0) {
    return {Code::kInvalidArgument, "option store: expected host:port, since size is " +
                                        std::to_string(options.size) + "; received none"};
  }
  return Status::Ok();
}

}  // namespace

Result<EngineOptions> ParseOptions(const std::string& text) {
  EngineOptions options;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    const std::string key = line.substr(0, equals);
    const auto reader = Readers().find(key);
    if (equals == std::string::npos || reader == Readers().end()) {
      return Status(Code::kInvalidArgument, "unknown option \"" + key + "\"");
    }
    Status status = reader->second(key, line.substr(equals + 1), &options);
    if (!status.ok()) return status;
  }
  Status status = Validate(options);
  if (!status.ok()) return status;
  return options;
}

}  // namespace tfring
