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

// What an op has to do with tickets (tickets.h).
enum class Ticket { kNone, kGiven, kTaken };

// Inputs are tensors, then a ticket that is taken, then the order handle.
template <tfr_kind kind, Ticket ticket>
bool Prepare(TF_OpKernelContext* context, PendingOperation* operation) {
  const int tensors = TF_NumInputs(context) - (ticket == Ticket::kTaken ? 2 : 1);
  for (int i = 0; i < tensors; ++i) {
    const bool added = kind == TFR_ALLGATHER ? operation->AddInput(i) : operation->AddInPlace(i);
    if (!added) return false;
  }
  if (ticket == Ticket::kTaken) return operation->TakeTicket(tensors);
  // An allgather has a second output for each tensor.
  if (ticket == Ticket::kGiven) {
    return operation->GiveTicket(kind == TFR_ALLGATHER ? 2 * tensors : tensors);
  }
  return true;
}

template <tfr_kind kind, Ticket ticket>
void ComputeCollective(void* kernel, TF_OpKernelContext* context,
                       TF_AsyncOpKernelDoneCallback* done) {
  const auto& attributes = *static_cast<const OpAttributes*>(kernel);
  auto operation = std::make_unique<PendingOperation>(attributes, kind, context, done);
  if (Prepare<kind, ticket>(context, operation.get())) {
    PendingOperation::Submit(std::move(operation));
  } else {
    PendingOperation::Abandon(std::move(operation));
  }
}

void DeleteCollective(void* kernel) { delete static_cast<OpAttributes*>(kernel); }

void* CreateStateless(TF_OpKernelConstruction* /*construction*/) { return nullptr; }

// The rank now, not when the graph was traced: a worker may be given another one.
void ComputeRank(void* /*kernel*/, TF_OpKernelContext* context) {
  const StatusHolder status;
  const int32_t rank = tfr_rank();
  if (rank < 0) {
    TF_SetStatus(status, ToTensorFlow(TFR_NOT_INITIALIZED),
                 "tfring is not initialised: call tfring.init() first (in an elastic job: "
                 "tfring.elastic.run)");
    TF_OpKernelContext_Failure(context, status);
    return;
  }
  const TensorPointer output(
      TF_AllocateOutput(context, 0, TF_INT32, nullptr, 0, sizeof(rank), status));
  if (!status.ok()) return TF_OpKernelContext_Failure(context, status);
  std::memcpy(TF_TensorData(output.get()), &rank, sizeof(rank));
}

// Fails if the engine can't go on. One that is not there yet is none of its business.
void ComputeHealth(void* /*kernel*/, TF_OpKernelContext* context) {
  const tfr_code code = tfr_health();
  if (code == TFR_OK || code == TFR_NOT_INITIALIZED) return;
  const StatusHolder status;
  TF_SetStatus(status, ToTensorFlow(code), tfr_last_error());
  TF_OpKernelContext_Failure(context, status);
}

void DeleteStateless(void* /*kernel*/) {}

void Register(const char* op, TF_KernelBuilder* builder) {
  const StatusHolder status;
  TF_RegisterKernelBuilder(op, builder, status);  // deletes the builder
  if (!status.ok()) std::fprintf(stderr, "tfring: kernel %s: %s\n", op, TF_Message(status));
}

template <void (*compute)(void*, TF_OpKernelContext*)>
void RegisterStateless(const char* op) {
  Register(op, TF_NewKernelBuilder(op, "CPU", &CreateStateless, compute, &DeleteStateless));
}

template <tfr_kind kind, Ticket ticket>
void RegisterCollective(const char* op) {
  Register(op, TF_NewAsyncKernelBuilder(op, "CPU", &CreateCollective<kind>,
                                        &ComputeCollective<kind, ticket>, &DeleteCollective));
}

}  // namespace

void RegisterKernels() {
  RegisterCollective<TFR_ALLREDUCE, Ticket::kGiven>("TfringAllreduce");
  RegisterCollective<TFR_ALLREDUCE, Ticket::kTaken>("TfringAllreduceGradient");
  RegisterCollective<TFR_BROADCAST, Ticket::kGiven>("TfringBroadcast");
  RegisterCollective<TFR_ALLGATHER, Ticket::kGiven>("TfringAllgather");
  RegisterCollective<TFR_BARRIER, Ticket::kNone>("TfringBarrier");
  RegisterStateless<&ComputeRank>("TfringRank");
  RegisterStateless<&ComputeHealth>("TfringHealth");
}

}  // namespace tfring
