#include "kernels.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "c_api.h"
#include "op_attributes.h"
#include "pending_operation.h"
#include "tf_handles.h"
#include "translate.h"

namespace tfring {
namespace {

template <tfr_kind kind>
void* CreateCollective(TF_OpKernelConstruction* construction) {
  auto attributes = std::make_unique<OpAttributes>();
  if (!ReadAttributes(construction, kind, attributes.get())) return nullptr;
  return attributes.release();
}

template <tfr_kind kind>
void ComputeCollective(void* kernel, TF_OpKernelContext* context,
                       TF_AsyncOpKernelDoneCallback* done) {
  const auto& attributes = *static_cast<const OpAttributes*>(kernel);
  auto operation = std::make_unique<PendingOperation>(attributes, kind, context, done);
  const int tensors = TF_NumInputs(context) - 1;  // the last input is the order handle
  for (int i = 0; i < tensors; ++i) {
    const bool added = kind == TFR_ALLGATHER ? operation->AddInput(i) : operation->AddInPlace(i);
    if (!added) return PendingOperation::Abandon(std::move(operation));
  }
  PendingOperation::Submit(std::move(operation));
}

void DeleteCollective(void* kernel) { delete static_cast<OpAttributes*>(kernel); }

void* CreateRank(TF_OpKernelConstruction* /*construction*/) { return nullptr; }

// The rank now, not when the graph was traced: a worker may be given another one.
void ComputeRank(void* /*kernel*/, TF_OpKernelContext* context) {
  const StatusHolder status;
  const int32_t rank = tfr_rank();
  if (rank < 0) {
    TF_SetStatus(status, ToTensorFlow(TFR_NOT_INITIALIZED),
                 "tfring is not initialized; call tfring.init() first");
    TF_OpKernelContext_Failure(context, status);
    return;
  }
  const TensorPointer output(
      TF_AllocateOutput(context, 0, TF_INT32, nullptr, 0, sizeof(rank), status));
  if (!status.ok()) return TF_OpKernelContext_Failure(context, status);
  std::memcpy(TF_TensorData(output.get()), &rank, sizeof(rank));
}

void DeleteRank(void* /*kernel*/) {}

void Register(const char* op, TF_KernelBuilder* builder) {
  const StatusHolder status;
  TF_RegisterKernelBuilder(op, builder, status);  // deletes the builder
  if (!status.ok()) std::fprintf(stderr, "tfring: kernel %s: %s\n", op, TF_Message(status));
}

template <tfr_kind kind>
void RegisterCollective(const char* op) {
  Register(op, TF_NewAsyncKernelBuilder(op, "CPU", &CreateCollective<kind>,
                                        &ComputeCollective<kind>, &DeleteCollective));
}

}  // namespace

void RegisterKernels() {
  RegisterCollective<TFR_ALLREDUCE>("TfringAllreduce");
  RegisterCollective<TFR_BROADCAST>("TfringBroadcast");
  RegisterCollective<TFR_ALLGATHER>("TfringAllgather");
  RegisterCollective<TFR_BARRIER>("TfringBarrier");
  Register("TfringRank",
           TF_NewKernelBuilder("TfringRank", "CPU", &CreateRank, &ComputeRank, &DeleteRank));
}

}  // namespace tfring
