// What an engine is told when it is made.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/interruption.h"
#include "base/log.h"
#include "base/status.h"
#include "collective/choose.h"
#include "rendezvous/store.h"

namespace tfring {

class Timeline;

struct EngineOptions {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
  std::string host_id = "localhost";
  std::string store_host;
  int store_port = 0;
  bool store_serve = false;
  std::string secret;
  int64_t generation = 0;
  std::string listen_address;
  Duration start_timeout{120000};
  Duration stall_warning{60000};       // 0: off
  Duration stall_shutdown{0};          // 0: off
  Duration heartbeat_timeout{10000};   // 0: off
  std::chrono::microseconds spin{-1};  // -1: by the number of cores
  LogLevel log_level = LogLevel::kWarning;
  AlgorithmOptions algorithms;                       // equal on all ranks
  Timeline* timeline = nullptr;                      // records what happens; may be null
  std::shared_ptr<const Interruption> interruption;  // ends Engine::Create; may be null
};

// Reads the lines of "key=value" that c_api.h describes.
Result<EngineOptions> ParseOptions(const std::string& text);

}  // namespace tfring
