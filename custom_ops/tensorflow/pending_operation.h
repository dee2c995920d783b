// One execution of a node, from its kernel's compute function to TensorFlow's callback.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "c_api.h"
#include "op_attributes.h"
#include "tf_handles.h"

namespace tfring {

class PendingOperation {
 public:
  PendingOperation(const OpAttributes& attributes, tfr_kind kind, TF_OpKernelContext* context,
                   TF_AsyncOpKernelDoneCallback* done);

  // Gives output `index` the memory of input `index` when nobody else needs that, else
  // memory of its own, and adds the pair to the request. False when TensorFlow refused.
  bool AddInPlace(int index);

  // Adds input `index` to an allgather, whose output is allocated when the size is known.
  bool AddInput(int index);

  // Writes this execution's ticket to output `index`.
  bool GiveTicket(int index);

  // Names the operation after the ticket in input `index`.
  bool TakeTicket(int index);

  // Hands `operation` to the engine. From here on the engine's callback owns it.
  static void Submit(std::unique_ptr<PendingOperation> operation);

  // Ends `operation` with the failure that an Add function met.
  static void Abandon(std::unique_ptr<PendingOperation> operation);

 private:
  static void OnDone(void* self, tfr_code code, const char* message);
  static void* OnAllocate(void* self, int32_t index, const int64_t* first_dims, int32_t members);

  bool AddTensor(int index, TensorPointer* input, TF_Tensor* output);
  TensorPointer Input(int index);
  void* AllocateGathered(int index, const int64_t* first_dims, int32_t members);
  static void Finish(std::unique_ptr<PendingOperation> operation);

  const OpAttributes& attributes_;
  std::string name_;
  const tfr_kind kind_;
  TF_OpKernelContext* const context_;
  std::function<void()> done_;
  StatusHolder status_;  // what went wrong first

  tfr_dtype dtype_ = TFR_FLOAT32;
  TF_DataType type_ = TF_FLOAT;
  std::vector<TensorPointer> inputs_;  // empty where the output took the memory
  std::vector<TensorPointer> outputs_;
  std::vector<std::vector<int64_t>> dims_;
  std::vector<tfr_tensor> tensors_;
};

}  // namespace tfring
