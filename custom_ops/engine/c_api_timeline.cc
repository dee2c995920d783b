// The C face of the timeline.
#include "base/log.h"
#include "c_api.h"
#include "c_api_error.h"
#include "core/job.h"

using tfring::Code;
using tfring::Job;
using tfring::Report;

extern "C" {

tfr_code tfr_timeline_start(const char* path, int rank, int detail, int64_t most_records) {
  if (path == nullptr) return Report({Code::kInvalidArgument, "tfr_timeline_start: path is null"});
  tfring::TimelineOptions options;
  options.path = path;
  options.rank = rank;
  options.detail = detail != 0;
  options.most_records = most_records;
  return Report(Job::Get().timeline().Start(options));
}

tfr_code tfr_timeline_stop(void) { return Report(Job::Get().timeline().Stop()); }

int tfr_timeline_recording(void) { return Job::Get().timeline().recording() ? 1 : 0; }

void tfr_timeline_span(const char* name, int64_t begin, int64_t end, int64_t number) {
  if (name == nullptr || !Job::Get().timeline().recording()) return;
  tfring::TimelineRecord record;
  record.type = static_cast<uint8_t>(tfring::RecordType::kSpan);
  record.begin = begin;
  record.end = end;
  record.bytes = number;
  tfring::SetText(&record, name);
  Job::Get().timeline().Add(record);
}

void tfr_timeline_instant(const char* text) {
  if (text == nullptr) return;
  Job::Get().timeline().AddInstant(static_cast<int>(tfring::LogLevel::kInfo), text);
}

}  // extern "C"
