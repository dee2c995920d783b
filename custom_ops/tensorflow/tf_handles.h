// Owners for what TensorFlow's C API hands out, so that no path forgets to delete it.
#pragma once

#include <memory>

#include "tf_c_api.h"

namespace tfring {

struct StatusDeleter {
  void operator()(TF_Status* status) const { TF_DeleteStatus(status); }
};
struct TensorDeleter {
  void operator()(TF_Tensor* tensor) const { TF_DeleteTensor(tensor); }
};
struct ShapeDeleter {
  void operator()(TF_ShapeHandle* shape) const { TF_DeleteShapeHandle(shape); }
};

using TensorPointer = std::unique_ptr<TF_Tensor, TensorDeleter>;
using ShapePointer = std::unique_ptr<TF_ShapeHandle, ShapeDeleter>;

// A status that starts out ok and converts to the pointer that the C API wants.
class StatusHolder {
 public:
  StatusHolder() : status_(TF_NewStatus()) {}
  operator TF_Status*() const { return status_.get(); }  // NOLINT(google-explicit-constructor)
  bool ok() const { return TF_GetCode(status_.get()) == TF_OK; }

 private:
  std::unique_ptr<TF_Status, StatusDeleter> status_;
};

}  // namespace tfring
