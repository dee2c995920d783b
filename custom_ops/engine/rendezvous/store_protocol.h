// What goes over a connection to the store once the handshake is done.
//
//   request    operation (1 byte), 3 zero bytes, key_bytes (4), number (8), key, value
//              value of a gather: rank (4), size (4), timeout in milliseconds (8), bytes
//   response   code (1 byte, as in base/status.h), 3 zero bytes, bytes (4), payload
//
// One request at a time. `number` is the value's length for kSet and kGather, the timeout in
// milliseconds for kGet, what to add for kAdd and 0 for kDelete; others have no value.
// The payload is the value for kGet, the new value in decimal for kAdd, all ranks' bytes with
// their lengths (4) in front for kGather, the message of an error, and empty otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace tfring {

struct StoreRequest {
  enum Operation : uint8_t { kSet = 1, kGet = 2, kAdd = 3, kDelete = 4, kGather = 5 };
  static constexpr size_t kBytes = 16;

  uint8_t operation = 0;
  uint32_t key_bytes = 0;
  int64_t number = 0;

  std::string Encode() const;
  static StoreRequest Decode(const char* bytes);
  // kInvalidArgument for an unknown operation or lengths out of bounds.
  Status Check() const;
  bool has_value() const { return operation == kSet || operation == kGather; }
  size_t value_bytes() const { return has_value() ? static_cast<size_t>(number) : 0; }
};

// The value of a kGather.
struct GatherValue {
  int32_t rank = 0;
  int32_t size = 0;
  int64_t timeout_ms = 0;
  std::string bytes;

  std::string Encode() const;
  static Result<GatherValue> Decode(const std::string& value);
};

struct StoreResponse {
  static constexpr size_t kBytes = 8;

  uint8_t code = 0;
  uint32_t bytes = 0;

  std::string Encode() const;
  static StoreResponse Decode(const char* bytes);
  Status Check() const;
};

}  // namespace tfring
