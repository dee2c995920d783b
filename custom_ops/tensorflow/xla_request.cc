#include "xla_request.h"

#include <charconv>
#include <limits>

#include "op_attributes.h"

namespace tfring {
namespace {

class Fields {
 public:
  explicit Fields(const std::string& text) : text_(text) {}

  bool Next(std::string* field) {
    const size_t end = text_.find(' ', position_);
    if (end == std::string::npos) return false;
    *field = text_.substr(position_, end - position_);
    position_ = end + 1;
    return true;
  }

  bool Next(int64_t low, int64_t high, int64_t* value) {
    std::string field;
    if (!Next(&field)) return false;
    const char* end = field.data() + field.size();
    const auto [rest, error] = std::from_chars(field.data(), end, *value);
    return error == std::errc() && rest == end && *value >= low && *value <= high;
  }

  bool Next(double* value) {
    std::string field;
    return Next(&field) && ParseDouble(field, value);
  }

  std::string Rest() const { return text_.substr(position_); }

 private:
  const std::string& text_;
  size_t position_ = 0;
};

constexpr int64_t kMaxTensors = 1 << 20;
constexpr int64_t kMaxRank = 254;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

bool ParseTensor(Fields* fields, XlaTensor* tensor) {
  int64_t dtype = 0;
  int64_t rank = 0;
  int64_t first = 0;
  if (!fields->Next(TFR_FLOAT16, TFR_BOOL, &dtype) || !fields->Next(0, kMaxRank, &rank) ||
      !fields->Next(0, kMost, &first)) {
    return false;
  }
  tensor->dtype = static_cast<tfr_dtype>(dtype);
  tensor->dims.resize(static_cast<size_t>(rank));
  for (int64_t& dim : tensor->dims) {
    if (!fields->Next(0, kMost, &dim)) return false;
  }
  tensor->result_dims = tensor->dims;
  if (tensor->result_dims.empty()) tensor->result_dims.resize(1);
  tensor->result_dims[0] = first;
  return true;
}

}  // namespace

bool ParseXlaRequest(const std::string& text, XlaRequest* request) {
  Fields fields(text);
  int64_t kind = 0;
  int64_t reduce_op = 0;
  int64_t root = 0;
  int64_t count = 0;
  if (!fields.Next(TFR_ALLREDUCE, TFR_BARRIER, &kind) ||
      !fields.Next(TFR_SUM, TFR_PRODUCT, &reduce_op) || !fields.Next(0, INT32_MAX, &root) ||
      !fields.Next(-kMost, kMost, &request->process_set) || !fields.Next(&request->prescale) ||
      !fields.Next(&request->postscale) || !fields.Next(0, kMaxTensors, &count)) {
    return false;
  }
  request->kind = static_cast<tfr_kind>(kind);
  request->reduce_op = static_cast<tfr_reduce_op>(reduce_op);
  request->root = static_cast<int32_t>(root);
  request->tensors.resize(static_cast<size_t>(count));
  for (XlaTensor& tensor : request->tensors) {
    if (!ParseTensor(&fields, &tensor)) return false;
  }
  request->name = fields.Rest();
  return true;
}

}  // namespace tfring
