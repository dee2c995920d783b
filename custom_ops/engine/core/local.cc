#include "core/local.h"

#include <cstring>

#include "codec/reduce.h"

namespace tfring {
namespace {

Status RunTensor(const Request& request, int index) {
  const Tensor& tensor = request.tensors[index];
  const size_t count = static_cast<size_t>(ElementsOf(tensor.dims));
  const size_t bytes = count * SizeOf(request.dtype);
  uint8_t* output = tensor.output;
  if (request.kind == Kind::kAllgather) {
    const int64_t first = tensor.dims.empty() ? 1 : tensor.dims[0];
    output = static_cast<uint8_t*>(request.allocate(index, {first}));
    if (output == nullptr && bytes > 0) {
      return {Code::kInternal, std::string("allgather \"") + request.name +
                                   "\": no memory for tensor " + std::to_string(index)};
    }
  }
  const double factor = request.prescale * request.postscale;
  if (request.kind == Kind::kAllreduce && factor != 1) {
    Scale(request.dtype, output, tensor.input, factor, count);
  } else if (output != tensor.input && bytes > 0) {
    std::memcpy(output, tensor.input, bytes);
  }
  return Status::Ok();
}

}  // namespace

void RunAlone(Request& request, Counters& counters) {
  Status status;
  for (size_t i = 0; i < request.tensors.size() && status.ok(); ++i) {
    status = RunTensor(request, static_cast<int>(i));
  }
  counters.Change([&](CounterValues& values) {
    ++(status.ok() ? values.operations : values.failures);
    if (request.kind == Kind::kAllreduce) ++values.allreduce_operations;
  });
  request.done(status);
}

}  // namespace tfring
