#include "core/request.h"

#include <algorithm>

#include "base/hash.h"
#include "codec/reduce.h"

namespace tfring {
namespace {

constexpr size_t kTensorsDescribed = 4;
constexpr size_t kMaxNameBytes = 1024;

std::string DimsText(const std::vector<int64_t>& dims, bool any_first) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += any_first && i == 0 ? "*" : std::to_string(dims[i]);
  }
  return text + "]";
}

Status Invalid(const Request& request, const std::string& what) {
  return {Code::kInvalidArgument,
          std::string(NameOf(request.kind)) + " \"" + request.name + "\": " + what};
}

Status ValidateTensor(const Request& request, size_t index) {
  const Tensor& tensor = request.tensors[index];
  const std::string where = "tensor " + std::to_string(index);
  const int64_t elements = ElementsOf(tensor.dims);
  if (elements < 0) {
    return Invalid(request, where + " has impossible dimensions " + DimsText(tensor.dims, false));
  }
  if (elements == 0) return Status::Ok();
  const bool needs_output = request.kind != Kind::kAllgather;
  if (tensor.input == nullptr || (needs_output && tensor.output == nullptr)) {
    return Invalid(request, where + " has elements but no memory");
  }
  return Status::Ok();
}

}  // namespace

int64_t ElementsOf(const std::vector<int64_t>& dims) {
  // 2^59 elements of 8 bytes still fit in a signed 64-bit byte count.
  constexpr int64_t kMost = int64_t{1} << 59;
  int64_t elements = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) return -1;
    if (dim == 0) {
      empty = true;
    } else if (elements > kMost / dim) {
      return -1;
    } else {
      elements *= dim;
    }
  }
  return empty ? 0 : elements;
}

size_t BytesOf(const Request& request) {
  size_t elements = 0;
  for (const Tensor& tensor : request.tensors) {
    elements += static_cast<size_t>(std::max<int64_t>(ElementsOf(tensor.dims), 0));
  }
  return elements * SizeOf(request.dtype);
}

Status Validate(const Request& request) {
  if (request.name.empty() || request.name.size() > kMaxNameBytes) {
    return Invalid(request, "expected a name of 1 to " + std::to_string(kMaxNameBytes) +
                                " bytes, received " + std::to_string(request.name.size()));
  }
  if (request.kind == Kind::kBarrier) {
    if (request.tensors.empty()) return Status::Ok();
    return Invalid(
        request, "a barrier takes no tensors, received " + std::to_string(request.tensors.size()));
  }
  if (request.tensors.empty()) return Invalid(request, "expected at least one tensor");
  for (size_t i = 0; i < request.tensors.size(); ++i) {
    TFR_RETURN_IF_ERROR(ValidateTensor(request, i));
  }
  if (request.kind != Kind::kAllreduce) return Status::Ok();
  if (!Supports(request.dtype, request.reduce_op)) {
    return Invalid(request, std::string(NameOf(request.reduce_op)) + " is not defined on " +
                                NameOf(request.dtype));
  }
  if (request.dtype == DType::kBool && (request.prescale != 1 || request.postscale != 1)) {
    return Invalid(request, "bool tensors can't be scaled");
  }
  return Status::Ok();
}

std::string Describe(const Request& request) {
  std::string text = NameOf(request.kind);
  if (request.kind == Kind::kBarrier) return text;
  const bool any_first = request.kind == Kind::kAllgather;
  text += std::string(" ") + NameOf(request.dtype);
  const size_t count = request.tensors.size();
  for (size_t i = 0; i < count && i < kTensorsDescribed; ++i) {
    text += (i == 0 ? " " : " + ") + DimsText(request.tensors[i].dims, any_first);
  }
  if (count > kTensorsDescribed) {
    int64_t elements = 0;
    for (const Tensor& tensor : request.tensors) elements += ElementsOf(tensor.dims);
    text += " + " + std::to_string(count - kTensorsDescribed) + " more";
    if (!any_first) text += ", " + std::to_string(elements) + " elements";
  }
  if (request.kind == Kind::kBroadcast) text += ", root " + std::to_string(request.root);
  if (request.kind == Kind::kAllreduce) {
    text += std::string(", ") + NameOf(request.reduce_op);
    if (request.prescale != 1) text += ", prescale " + std::to_string(request.prescale);
    if (request.postscale != 1) text += ", postscale " + std::to_string(request.postscale);
    if (request.algorithm != AllreduceFamily::kAny) {
      text += std::string(", by ") + NameOf(request.algorithm);
    }
  }
  return text;
}

uint32_t DigestOf(const Request& request) {
  Hasher hasher;
  hasher.Add(static_cast<int64_t>(request.kind));
  hasher.Add(static_cast<int64_t>(request.dtype));
  if (request.kind == Kind::kBroadcast) hasher.Add(int64_t{request.root});
  if (request.kind == Kind::kAllreduce) {
    hasher.Add(static_cast<int64_t>(request.reduce_op));
    hasher.Add(&request.prescale, sizeof(double));
    hasher.Add(&request.postscale, sizeof(double));
    hasher.Add(static_cast<int64_t>(request.algorithm));
  }
  hasher.Add(static_cast<int64_t>(request.tensors.size()));
  for (const Tensor& tensor : request.tensors) {
    hasher.Add(static_cast<int64_t>(tensor.dims.size()));
    const size_t skipped = request.kind == Kind::kAllgather ? 1 : 0;
    for (size_t i = skipped; i < tensor.dims.size(); ++i) hasher.Add(tensor.dims[i]);
  }
  const uint64_t digest = hasher.value();
  return static_cast<uint32_t>(digest ^ (digest >> 32));
}

uint64_t NameIdOf(int64_t process_set, const std::string& name) {
  Hasher hasher;
  hasher.Add(process_set);
  hasher.Add(name.data(), name.size());
  return hasher.value();
}

}  // namespace tfring
