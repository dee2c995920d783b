// Records what the engine does, for people to look at: one rank's part of a timeline.
//
// Records have a fixed size and go into memory that was reserved beforehand, under a lock that
// is held for a few instructions; a thread of its own writes them to a file several times a
// second. So what a killed process did is on record up to the last fraction of a second. The
// file is bounded, and so is memory: what does not fit is counted and left out.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "core/clock.h"
#include "core/timeline_record.h"

namespace tfring {

struct TimelineOptions {
  std::string path;
  int rank = 0;
  bool detail = false;  // a record for each piece of work, too
  int64_t most_records = 100000;
};

// Nanoseconds as records have them.
inline int64_t Nanoseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

class Timeline {
 public:
  Timeline() = default;
  ~Timeline();  // as Stop
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Begins a file. kInvalidArgument when recording already.
  Status Start(const TimelineOptions& options);

  // Writes what is left and ends the file; nothing when not recording. An error that the file
  // has met with since Start.
  Status Stop();

  // Returns when everything recorded so far has been written.
  void Flush();

  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  bool detail() const { return detail_.load(std::memory_order_relaxed); }

  // From any thread; does nothing when not recording.
  void Add(const TimelineRecord& record);
  void AddInstant(int level, const std::string& text);

 private:
  void Run();
  void Write(const void* data, size_t bytes);

  std::atomic<bool> recording_{false};
  std::atomic<bool> detail_{false};
  std::mutex start_mutex_;  // one Start or Stop at a time
  std::thread writer_;
  Fd file_;       // the writer's, while it runs
  Status error_;  // likewise

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable written_;
  std::vector<TimelineRecord> records_;  // not yet taken by the writer
  int64_t taken_ = 0;                    // by the writer, all in all
  int64_t done_ = 0;                     // written, or given up
  int64_t most_records_ = 0;
  int64_t dropped_ = 0;
  bool hurry_ = false;
  bool stopping_ = false;
};

// Puts a text into a record: its end, if it is too long.
void SetText(TimelineRecord* record, const std::string& text);

}  // namespace tfring
