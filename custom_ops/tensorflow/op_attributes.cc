#include "op_attributes.h"

#include <charconv>
#include <vector>

#include "tf_handles.h"

namespace tfring {
namespace {

bool ReadString(TF_OpKernelConstruction* construction, const char* attribute, TF_Status* status,
                std::string* value) {
  int32_t list_size = 0;
  int32_t length = 0;
  TF_OpKernelConstruction_GetAttrSize(construction, attribute, &list_size, &length, status);
  if (TF_GetCode(status) != TF_OK) return false;
  value->resize(static_cast<size_t>(length));
  TF_OpKernelConstruction_GetAttrString(construction, attribute, value->data(), value->size(),
                                        status);
  return TF_GetCode(status) == TF_OK;
}

bool ReadInteger(TF_OpKernelConstruction* construction, const char* attribute, TF_Status* status,
                 int64_t* value) {
  TF_OpKernelConstruction_GetAttrInt64(construction, attribute, value, status);
  return TF_GetCode(status) == TF_OK;
}

// Factors are text: TensorFlow's float attributes have 32 bits, too few for float64 tensors.
bool ReadFactor(TF_OpKernelConstruction* construction, const char* attribute, TF_Status* status,
                double* value) {
  std::string text;
  if (!ReadString(construction, attribute, status, &text)) return false;
  if (ParseDouble(text, value)) return true;
  const std::string message =
      std::string("expected a number in attribute ") + attribute + ", received \"" + text + "\"";
  TF_SetStatus(status, TF_INVALID_ARGUMENT, message.c_str());
  return false;
}

bool Read(TF_OpKernelConstruction* construction, tfr_kind kind, TF_Status* status,
          OpAttributes* attributes) {
  if (!ReadString(construction, "tensor_name", status, &attributes->name) ||
      !ReadInteger(construction, "process_set", status, &attributes->process_set)) {
    return false;
  }
  int64_t number = 0;
  if (kind == TFR_BROADCAST) {
    if (!ReadInteger(construction, "root_rank", status, &number)) return false;
    attributes->root = static_cast<int32_t>(number);
  }
  if (kind != TFR_ALLREDUCE) return true;
  if (!ReadInteger(construction, "reduce_op", status, &number)) return false;
  attributes->reduce_op = static_cast<tfr_reduce_op>(number);
  return ReadFactor(construction, "prescale", status, &attributes->prescale) &&
         ReadFactor(construction, "postscale", status, &attributes->postscale);
}

}  // namespace

bool ReadAttributes(TF_OpKernelConstruction* construction, tfr_kind kind,
                    OpAttributes* attributes) {
  StatusHolder status;
  if (Read(construction, kind, status, attributes)) return true;
  TF_OpKernelConstruction_Failure(construction, status);
  return false;
}

bool ParseDouble(const std::string& text, double* value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && rest == end;
}

}  // namespace tfring
