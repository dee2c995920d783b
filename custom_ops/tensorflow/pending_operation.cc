#include "pending_operation.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "tickets.h"
#include "translate.h"

namespace tfring {
namespace {

// TensorFlow passes a pointer to its own std::function<void()>, which lives on the stack of
// the caller of the compute function and dangles once that has returned. An asynchronous
// kernel therefore has to copy the function. The C API has no call for that, but the pointer
// is a plain cast (tensorflow/c/kernels.cc), and std::function has one layout in all of
// libstdc++. This is the only place that knows; the op tests run it under every TensorFlow.
std::function<void()> CopyOf(TF_AsyncOpKernelDoneCallback* done) {
  return *reinterpret_cast<std::function<void()>*>(done);
}

std::vector<int64_t> DimsOf(const TF_Tensor* tensor) {
  std::vector<int64_t> dims(static_cast<size_t>(TF_NumDims(tensor)));
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = TF_Dim(tensor, static_cast<int>(i));
  return dims;
}

size_t SizeOf(tfr_dtype dtype) {
  switch (dtype) {
    case TFR_INT8:
    case TFR_UINT8:
    case TFR_BOOL:
      return 1;
    case TFR_FLOAT16:
    case TFR_BFLOAT16:
      return 2;
    case TFR_FLOAT32:
    case TFR_INT32:
      return 4;
    case TFR_FLOAT64:
    case TFR_INT64:
      return 8;
  }
  return 0;
}

}  // namespace

PendingOperation::PendingOperation(const OpAttributes& attributes, tfr_kind kind,
                                   TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done)
    : attributes_(attributes),
      name_(attributes.name),
      kind_(kind),
      context_(context),
      done_(CopyOf(done)) {}

TensorPointer PendingOperation::Input(int index) {
  TF_Tensor* tensor = nullptr;
  TF_GetInput(context_, index, &tensor, status_);
  TensorPointer input(tensor);
  if (!status_.ok()) return nullptr;
  type_ = TF_TensorType(tensor);
  if (!FromTensorFlow(type_, &dtype_)) {
    const std::string message = "tensor \"" + name_ + "\" has the data type " +
                                std::to_string(type_) + " of TensorFlow, which tfring lacks";
    TF_SetStatus(status_, TF_INVALID_ARGUMENT, message.c_str());
    return nullptr;
  }
  return input;
}

bool PendingOperation::AddInPlace(int index) {
  TensorPointer input = Input(index);
  if (input == nullptr) return false;
  const std::vector<int64_t> dims = DimsOf(input.get());
  // TensorFlow gives an input's memory away only while nobody else holds it; nor may we.
  input.reset();
  int forwarded = -1;
  TensorPointer output(TF_ForwardInputOrAllocateOutput(
      context_, &index, 1, index, dims.data(), static_cast<int>(dims.size()), &forwarded, status_));
  if (!status_.ok()) return false;
  if (forwarded != index) {
    input = Input(index);
    if (input == nullptr) return false;
  }
  dims_.push_back(dims);
  const void* source = TF_TensorData(input != nullptr ? input.get() : output.get());
  tensors_.push_back({source, TF_TensorData(output.get()), nullptr, 0});
  inputs_.push_back(std::move(input));
  outputs_.push_back(std::move(output));
  return true;
}

bool PendingOperation::AddInput(int index) {
  TensorPointer input = Input(index);
  if (input == nullptr) return false;
  dims_.push_back(DimsOf(input.get()));
  tensors_.push_back({TF_TensorData(input.get()), nullptr, nullptr, 0});
  inputs_.push_back(std::move(input));
  return true;
}

bool PendingOperation::GiveTicket(int index) {
  const int64_t ticket = NextTicket(attributes_.process_set, name_);
  const TensorPointer output(
      TF_AllocateOutput(context_, index, TF_INT64, nullptr, 0, sizeof(ticket), status_));
  if (!status_.ok()) return false;
  std::memcpy(TF_TensorData(output.get()), &ticket, sizeof(ticket));
  return true;
}

bool PendingOperation::TakeTicket(int index) {
  TF_Tensor* tensor = nullptr;
  TF_GetInput(context_, index, &tensor, status_);
  const TensorPointer input(tensor);
  if (!status_.ok()) return false;
  int64_t ticket = 0;
  std::memcpy(&ticket, TF_TensorData(tensor), sizeof(ticket));
  name_ = NameWithTicket(name_, ticket);
  return true;
}

void PendingOperation::Submit(std::unique_ptr<PendingOperation> operation) {
  PendingOperation& self = *operation;
  for (size_t i = 0; i < self.tensors_.size(); ++i) {
    self.tensors_[i].dims = self.dims_[i].data();
    self.tensors_[i].rank = static_cast<int32_t>(self.dims_[i].size());
  }
  tfr_request request = {};
  request.struct_size = sizeof(request);
  request.name = self.name_.c_str();
  request.process_set = self.attributes_.process_set;
  request.kind = self.kind_;
  request.dtype = self.dtype_;
  request.reduce_op = self.attributes_.reduce_op;
  request.root = self.attributes_.root;
  request.prescale = self.attributes_.prescale;
  request.postscale = self.attributes_.postscale;
  request.tensors = self.tensors_.data();
  request.num_tensors = static_cast<int32_t>(self.tensors_.size());
  request.allocate = self.kind_ == TFR_ALLGATHER ? &OnAllocate : nullptr;
  request.allocate_arg = &self;
  // The callback may already have run, and freed the operation, when tfr_submit returns.
  PendingOperation* released = operation.release();
  const tfr_code code = tfr_submit(&request, &OnDone, released);
  if (code != TFR_OK) OnDone(released, code, tfr_last_error());
}

void PendingOperation::Abandon(std::unique_ptr<PendingOperation> operation) {
  Finish(std::move(operation));
}

void PendingOperation::OnDone(void* self, tfr_code code, const char* message) {
  std::unique_ptr<PendingOperation> operation(static_cast<PendingOperation*>(self));
  // A failed allocation says more than the engine's account of it.
  if (code != TFR_OK && operation->status_.ok()) {
    TF_SetStatus(operation->status_, ToTensorFlow(code), message);
  }
  Finish(std::move(operation));
}

void PendingOperation::Finish(std::unique_ptr<PendingOperation> operation) {
  if (!operation->status_.ok()) {
    TF_OpKernelContext_Failure(operation->context_, operation->status_);
  }
  const std::function<void()> done = std::move(operation->done_);
  // The context is gone after `done`, and our references keep memory from being reused.
  operation.reset();
  done();
}

void* PendingOperation::OnAllocate(void* self, int32_t index, const int64_t* first_dims,
                                   int32_t members) {
  return static_cast<PendingOperation*>(self)->AllocateGathered(index, first_dims, members);
}

void* PendingOperation::AllocateGathered(int index, const int64_t* first_dims, int32_t members) {
  std::vector<int64_t> dims = dims_[static_cast<size_t>(index)];
  if (dims.empty()) dims.resize(1);
  dims[0] = std::accumulate(first_dims, first_dims + members, int64_t{0});
  const size_t elements = static_cast<size_t>(
      std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<int64_t>()));
  TensorPointer gathered(TF_AllocateOutput(context_, index, type_, dims.data(),
                                           static_cast<int>(dims.size()), elements * SizeOf(dtype_),
                                           status_));
  if (!status_.ok()) return nullptr;

  // The second half of the op's outputs: how many rows came from each member.
  const int64_t count = members;
  const size_t bytes = static_cast<size_t>(count) * sizeof(int64_t);
  const int rows_index = static_cast<int>(tensors_.size()) + index;
  TensorPointer rows(TF_AllocateOutput(context_, rows_index, TF_INT64, &count, 1, bytes, status_));
  if (!status_.ok()) return nullptr;
  std::memcpy(TF_TensorData(rows.get()), first_dims, bytes);

  void* memory = TF_TensorData(gathered.get());
  outputs_.push_back(std::move(gathered));
  return memory;
}

}  // namespace tfring
