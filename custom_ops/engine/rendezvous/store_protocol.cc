#include "rendezvous/store_protocol.h"

#include "base/wire.h"
#include "rendezvous/table.h"

namespace tfring {

std::string StoreRequest::Encode() const {
  const char zeros[3] = {};
  return WireWriter()
      .Number(operation)
      .Raw(zeros, sizeof(zeros))
      .Number(key_bytes)
      .Number(number)
      .Take();
}

StoreRequest StoreRequest::Decode(const char* bytes) {
  WireReader reader(bytes, kBytes);
  StoreRequest request;
  request.operation = reader.Number<uint8_t>();
  reader.Raw(3);
  request.key_bytes = reader.Number<uint32_t>();
  request.number = reader.Number<int64_t>();
  return request;
}

Status StoreRequest::Check() const {
  if (operation < kSet || operation > kGather) {
    return {Code::kInvalidArgument, "unknown store operation " + std::to_string(operation)};
  }
  if (key_bytes == 0 || key_bytes > kMaxKeyBytes) {
    return {Code::kInvalidArgument, "store key of " + std::to_string(key_bytes) + " bytes"};
  }
  const int64_t most = static_cast<int64_t>(kMaxValueBytes);
  if (has_value() && (number < 0 || number > most)) {
    return {Code::kInvalidArgument, "store value of " + std::to_string(number) + " bytes"};
  }
  return Status::Ok();
}

std::string GatherValue::Encode() const {
  return WireWriter()
      .Number(rank)
      .Number(size)
      .Number(timeout_ms)
      .Raw(bytes.data(), bytes.size())
      .Take();
}

Result<GatherValue> GatherValue::Decode(const std::string& value) {
  WireReader reader(value);
  GatherValue gather;
  gather.rank = reader.Number<int32_t>();
  gather.size = reader.Number<int32_t>();
  gather.timeout_ms = reader.Number<int64_t>();
  gather.bytes = reader.Rest();
  if (reader.ok() && gather.timeout_ms >= 0) return gather;
  return Status(Code::kInvalidArgument, "malformed gather");
}

std::string StoreResponse::Encode() const {
  const char zeros[3] = {};
  return WireWriter().Number(code).Raw(zeros, sizeof(zeros)).Number(bytes).Take();
}

StoreResponse StoreResponse::Decode(const char* bytes) {
  WireReader reader(bytes, kBytes);
  StoreResponse response;
  response.code = reader.Number<uint8_t>();
  reader.Raw(3);
  response.bytes = reader.Number<uint32_t>();
  return response;
}

Status StoreResponse::Check() const {
  if (code > static_cast<uint8_t>(Code::kInternal) || bytes > kMaxValueBytes) {
    return {Code::kIo, "the store's response is malformed"};
  }
  return Status::Ok();
}

}  // namespace tfring
