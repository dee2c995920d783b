// The engine's one error type. A Status is a code and a message; a Result<T> is a
// value or a Status. Both must be looked at ([[nodiscard]]).
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace tfring {

// Numbered as in c_api.h.
enum class Code : int {
  kOk = 0,
  kInvalidArgument = 1,
  kMismatch = 2,
  kPeerLost = 3,
  kStalled = 4,
  kTimeout = 5,
  kShutDown = 6,
  kNotInitialized = 7,
  kUnauthenticated = 8,
  kIo = 9,
  kInternal = 10,
  kInterrupted = 11,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error seen from one level up: "while connecting to rank 3: refused".
  Status Annotate(const std::string& context) const {
    return ok() ? *this : Status(code_, context + ": " + message_);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// Sets errno's text behind `what`: "bind 10.0.0.1:80: Permission denied".
Status ErrnoStatus(const std::string& what);

}  // namespace tfring

#define TFR_RETURN_IF_ERROR(expression)          \
  do {                                           \
    ::tfring::Status tfr_status_ = (expression); \
    if (!tfr_status_.ok()) return tfr_status_;   \
  } while (false)
