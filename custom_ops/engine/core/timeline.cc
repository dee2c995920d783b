#include "core/timeline.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/log.h"

namespace tfring {
namespace {

// Memory for records: twice 950 KB. The writer is woken when half of it is full.
constexpr size_t kBufferRecords = 4096;
constexpr std::chrono::milliseconds kWriteInterval{200};

// Says whose Clock this is: the kernel's, as seen from this time namespace. Containers and
// network namespaces of one machine share it.
std::string ClockIdentity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space{};
  const bool known = !boot.empty() && stat("/proc/self/ns/time", &space) == 0;
  return known ? boot + "/" + std::to_string(space.st_ino) : std::string();
}

template <size_t size>
void CopyText(char (&to)[size], const std::string& text) {
  std::memcpy(to, text.data(), std::min(text.size(), size - 1));
}

TimelineHeader HeaderOf(const TimelineOptions& options) {
  TimelineHeader header;
  header.rank = options.rank;
  header.pid = static_cast<int32_t>(getpid());
  header.detail = options.detail ? 1 : 0;
  header.begin = Nanoseconds(Clock::now());
  header.begin_unix = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  char host[sizeof(header.host)] = {};
  gethostname(host, sizeof(host) - 1);
  CopyText(header.host, host);
  CopyText(header.clock, ClockIdentity());
  return header;
}

}  // namespace

void SetText(TimelineRecord* record, const std::string& text) {
  constexpr size_t kRoom = sizeof(record->text);
  if (text.size() <= kRoom) {
    std::memcpy(record->text, text.data(), text.size());
    return;
  }
  std::memcpy(record->text, "...", 3);
  std::memcpy(record->text + 3, text.data() + text.size() - (kRoom - 3), kRoom - 3);
}

Timeline::~Timeline() { static_cast<void>(Stop()); }

Status Timeline::Start(const TimelineOptions& options) {
  std::lock_guard<std::mutex> one_at_a_time(start_mutex_);
  if (writer_.joinable()) return {Code::kInvalidArgument, "a timeline is being recorded already"};
  if (options.most_records < 1) {
    return {Code::kInvalidArgument, "timeline: expected room for at least 1 record, received " +
                                        std::to_string(options.most_records)};
  }
  file_ = Fd(open(options.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file_.get() < 0) {
    return {Code::kIo, "timeline " + options.path + ": " + std::strerror(errno)};
  }
  error_ = Status::Ok();
  const TimelineHeader header = HeaderOf(options);
  Write(&header, sizeof(header));
  if (!error_.ok()) return error_;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    records_.clear();
    records_.reserve(kBufferRecords);
    taken_ = done_ = dropped_ = 0;
    most_records_ = options.most_records;
    stopping_ = hurry_ = false;
  }
  writer_ = std::thread([this] { Run(); });
  detail_ = options.detail;
  recording_ = true;
  return Status::Ok();
}

Status Timeline::Stop() {
  std::lock_guard<std::mutex> one_at_a_time(start_mutex_);
  if (!writer_.joinable()) return Status::Ok();
  recording_ = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  writer_.join();
  file_.Reset();
  return error_;
}

void Timeline::Add(const TimelineRecord& record) {
  if (!recording()) return;
  bool half_full = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool full = records_.size() == kBufferRecords ||
                      taken_ + static_cast<int64_t>(records_.size()) >= most_records_;
    if (full) {
      ++dropped_;
      return;
    }
    records_.push_back(record);
    half_full = records_.size() == kBufferRecords / 2;
    hurry_ |= half_full;
  }
  if (half_full) wake_.notify_one();
}

void Timeline::AddInstant(int level, const std::string& text) {
  if (!recording()) return;
  TimelineRecord record;
  record.type = static_cast<uint8_t>(RecordType::kInstant);
  record.code = static_cast<uint8_t>(level);
  record.begin = record.end = Nanoseconds(Clock::now());
  SetText(&record, text);
  Add(record);
}

void Timeline::Flush() {
  if (!recording()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  const int64_t until = taken_ + static_cast<int64_t>(records_.size());
  hurry_ = true;
  wake_.notify_one();
  // A disk that hangs must not hold up whoever shuts down.
  written_.wait_for(lock, std::chrono::seconds(5), [&] { return done_ >= until || stopping_; });
}

// ---- The writer ------------------------------------------------------------------------

void Timeline::Run() {
  std::vector<TimelineRecord> batch;
  batch.reserve(kBufferRecords);
  bool last = false;
  while (!last) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait_for(lock, kWriteInterval, [this] { return stopping_ || hurry_; });
      hurry_ = false;
      last = stopping_;
      batch.clear();
      batch.swap(records_);
      taken_ += static_cast<int64_t>(batch.size());
    }
    Write(batch.data(), batch.size() * sizeof(TimelineRecord));
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = taken_;
    written_.notify_all();
  }
  TimelineRecord end;
  end.type = static_cast<uint8_t>(RecordType::kEnd);
  end.begin = end.end = Nanoseconds(Clock::now());
  end.bytes = dropped_;
  Write(&end, sizeof(end));
}

void Timeline::Write(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0 && error_.ok()) {
    const ssize_t written = write(file_.get(), at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      // Training goes on; its timeline ends here.
      error_ = Status(Code::kIo, std::string("timeline: ") + std::strerror(errno));
      Log(LogLevel::kWarning, error_.message() + "; nothing more is recorded");
      recording_ = false;
      return;
    }
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

}  // namespace tfring
