#include "c_api_request.h"

#include <string>
#include <utility>

namespace tfring {
namespace {

constexpr int kMaxDims = 254;  // as in TensorFlow

Status Invalid(const std::string& what) { return {Code::kInvalidArgument, "tfr_request: " + what}; }

Status CheckNumber(const char* field, int value, int count) {
  if (value >= 0 && value < count) return Status::Ok();
  return Invalid(std::string(field) + ": expected 0 to " + std::to_string(count - 1) +
                 ", received " + std::to_string(value));
}

Status Check(const tfr_request* request) {
  if (request == nullptr) return Invalid("null");
  if (request->struct_size != sizeof(tfr_request)) {
    return Invalid("struct_size: expected " + std::to_string(sizeof(tfr_request)) + ", received " +
                   std::to_string(request->struct_size));
  }
  if (request->name == nullptr) return Invalid("name is null");
  TFR_RETURN_IF_ERROR(CheckNumber("kind", request->kind, kKindCount));
  TFR_RETURN_IF_ERROR(CheckNumber("dtype", request->dtype, kDTypeCount));
  TFR_RETURN_IF_ERROR(CheckNumber("reduce_op", request->reduce_op, kReduceOpCount));
  if (request->num_tensors < 0 || (request->num_tensors > 0 && request->tensors == nullptr)) {
    return Invalid("tensors: null, or a negative number of them");
  }
  if (request->kind == TFR_ALLGATHER && request->allocate == nullptr) {
    return Invalid("an allgather needs allocate");
  }
  return Status::Ok();
}

}  // namespace

Result<Request> CopyRequest(const tfr_request* request) {
  const Status status = Check(request);
  if (!status.ok()) return status;
  Request copy;
  copy.name = request->name;
  copy.process_set = request->process_set;
  copy.kind = static_cast<Kind>(request->kind);
  copy.dtype = static_cast<DType>(request->dtype);
  copy.reduce_op = static_cast<ReduceOp>(request->reduce_op);
  copy.root = request->root;
  copy.prescale = request->prescale;
  copy.postscale = request->postscale;
  copy.tensors.reserve(request->num_tensors);
  for (int32_t i = 0; i < request->num_tensors; ++i) {
    const tfr_tensor& tensor = request->tensors[i];
    if (tensor.rank < 0 || tensor.rank > kMaxDims || (tensor.rank > 0 && tensor.dims == nullptr)) {
      return Invalid("tensor " + std::to_string(i) + ": expected 0 to " + std::to_string(kMaxDims) +
                     " dims, received " + std::to_string(tensor.rank));
    }
    copy.tensors.push_back({static_cast<const uint8_t*>(tensor.input),
                            static_cast<uint8_t*>(tensor.output),
                            std::vector<int64_t>(tensor.dims, tensor.dims + tensor.rank)});
  }
  if (request->allocate != nullptr) {
    copy.allocate = [allocate = request->allocate, arg = request->allocate_arg](
                        int index, const std::vector<int64_t>& first_dims) {
      return allocate(arg, index, first_dims.data(), static_cast<int32_t>(first_dims.size()));
    };
  }
  return copy;
}

}  // namespace tfring
