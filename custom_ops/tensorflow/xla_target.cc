#include "xla_target.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "c_api.h"
#include "xla_api.h"
#include "xla_request.h"

namespace tfring {
namespace {

bool ready = false;

// Operands and results before the tensors: the token that keeps calls in order, twice; see
// tfring/xla.py.
constexpr size_t kTokens = 2;

// The tensors of one data type: one fused operation of the engine.
struct Part {
  tfr_dtype dtype;
  std::string name;
  std::vector<size_t> indices;  // into XlaRequest::tensors
  std::vector<tfr_tensor> tensors;
};

// One execution of a custom call. XLA gives no callback, so the calling thread waits here
// for all parts, which run in the engine at the same time.
class XlaCall {
 public:
  XlaCall(const XlaRequest& request, void** out, const void** in);

  // The first error, or nothing. Every tensor is written when there was none.
  std::optional<std::string> Run();

 private:
  static void OnDone(void* self, tfr_code code, const char* message);
  static void* OnAllocate(void* part_of_call, int32_t index, const int64_t* first_dims,
                          int32_t members);

  struct Allocation {
    XlaCall* call;
    const Part* part;
  };

  void Submit(const Part& part, Allocation* allocation);
  void Fail(const std::string& message);
  void* Gathered(size_t tensor, const int64_t* first_dims, int32_t members);

  const XlaRequest& request_;
  void** const out_;
  std::vector<Part> parts_;

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t pending_ = 0;
  std::optional<std::string> error_;
};

// Names as in tfring/grouping.py: a rank that runs the same operation outside XLA meets us.
std::vector<Part> SplitByType(const XlaRequest& request) {
  std::vector<Part> parts;
  if (request.kind == TFR_BARRIER) parts.push_back({TFR_UINT8, request.name, {}, {}});
  for (size_t i = 0; i < request.tensors.size(); ++i) {
    Part* found = nullptr;
    for (Part& part : parts) {
      if (part.dtype == request.tensors[i].dtype) found = &part;
    }
    if (found == nullptr) {
      const std::string suffix = parts.empty() ? "" : "/" + std::to_string(parts.size());
      parts.push_back({request.tensors[i].dtype, request.name + suffix, {}, {}});
      found = &parts.back();
    }
    found->indices.push_back(i);
  }
  return parts;
}

XlaCall::XlaCall(const XlaRequest& request, void** out, const void** in)
    : request_(request), out_(out), parts_(SplitByType(request)) {
  for (Part& part : parts_) {
    for (size_t i : part.indices) {
      const std::vector<int64_t>& dims = request.tensors[i].dims;
      part.tensors.push_back(
          {in[i + kTokens], out[i + kTokens], dims.data(), static_cast<int32_t>(dims.size())});
    }
  }
}

std::optional<std::string> XlaCall::Run() {
  pending_ = parts_.size();
  std::vector<Allocation> allocations;
  for (const Part& part : parts_) allocations.push_back({this, &part});
  for (size_t i = 0; i < parts_.size(); ++i) Submit(parts_[i], &allocations[i]);
  // Not bounded here: the engine ends every operation when a peer is lost or has stalled,
  // and until then the memory is in its hands.
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return pending_ == 0; });
  return error_;
}

void XlaCall::Submit(const Part& part, Allocation* allocation) {
  tfr_request request = {};
  request.struct_size = sizeof(request);
  request.name = part.name.c_str();
  request.process_set = request_.process_set;
  request.kind = request_.kind;
  request.dtype = part.dtype;
  request.reduce_op = request_.reduce_op;
  request.root = request_.root;
  request.prescale = request_.prescale;
  request.postscale = request_.postscale;
  request.tensors = part.tensors.data();
  request.num_tensors = static_cast<int32_t>(part.tensors.size());
  request.allocate = request_.kind == TFR_ALLGATHER ? &OnAllocate : nullptr;
  request.allocate_arg = allocation;
  const tfr_code code = tfr_submit(&request, &OnDone, this);
  if (code != TFR_OK) OnDone(this, code, tfr_last_error());
}

void XlaCall::OnDone(void* self, tfr_code code, const char* message) {
  auto* call = static_cast<XlaCall*>(self);
  if (code != TFR_OK) call->Fail(message);
  // Notify under the lock: the waiting thread frees the call as soon as it may.
  const std::lock_guard<std::mutex> lock(call->mutex_);
  --call->pending_;
  call->changed_.notify_all();
}

void XlaCall::Fail(const std::string& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!error_) error_ = message;
}

void* XlaCall::OnAllocate(void* part_of_call, int32_t index, const int64_t* first_dims,
                          int32_t members) {
  const auto* allocation = static_cast<const Allocation*>(part_of_call);
  const size_t tensor = allocation->part->indices[static_cast<size_t>(index)];
  return allocation->call->Gathered(tensor, first_dims, members);
}

void* XlaCall::Gathered(size_t tensor, const int64_t* first_dims, int32_t members) {
  const std::vector<int64_t>& dims = request_.tensors[tensor].dims;
  const int64_t own = dims.empty() ? 1 : dims[0];
  const bool equal = std::all_of(first_dims, first_dims + members,
                                 [own](int64_t first_dim) { return first_dim == own; });
  // The second: the function was compiled for another number of ranks.
  if (equal && own * members == request_.tensors[tensor].result_dims[0]) {
    return out_[tensor + kTokens];
  }
  std::string all;
  for (int32_t i = 0; i < members; ++i) {
    all += (i == 0 ? "" : ", ") + std::to_string(first_dims[i]);
  }
  Fail("allgather \"" + request_.name +
       "\": XLA fixes shapes when it compiles, so every rank must bring the same first " +
       "dimension, and there must be as many ranks as then; received the first dimensions " + all +
       ", expected " + std::to_string(request_.tensors[tensor].result_dims[0]) + " rows in all");
  return nullptr;
}

void Collective(void* out, const void** in, const char* opaque, size_t length,
                XlaCustomCallStatus_* status) {
  XlaRequest request;
  if (!ParseXlaRequest(std::string(opaque, length), &request)) {
    status->message = "tfring: not a description of an operation: " + std::string(opaque, length);
    return;
  }
  auto** results = static_cast<void**>(out);
  for (size_t i = 0; i < kTokens; ++i) std::memset(results[i], 0, sizeof(float));
  XlaCall call(request, results, in);
  status->message = call.Run();
}

}  // namespace

bool RegisterXlaTarget() {
  // Tests the address of a weak function of XLA's. A static member's is a plain pointer.
  if (&xla::CustomCallTargetRegistry::Global == nullptr) return false;
  xla::CustomCallTargetRegistry::Global()->Register(kXlaTarget,
                                                    reinterpret_cast<void*>(&Collective), "Host");
  ready = true;
  return true;
}

}  // namespace tfring

extern "C" int tfring_tf_xla_ready(void) { return tfring::ready ? 1 : 0; }
