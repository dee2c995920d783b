// Does not compile unless our declarations of TensorFlow's C API agree with its own headers.
// test_tf_c_api.py compiles it against the TensorFlow that is installed.
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#include "xla/service/custom_call_status_internal.h"
#include "xla/service/custom_call_target_registry.h"

// A second declaration of a C function with another signature is an error.
#define TFRING_TYPES_FROM_TENSORFLOW
#include "tf_c_api.h"

namespace ours {
#include "tf_c_types.h"
}

#define SAME(name) static_assert(static_cast<int>(ours::name) == static_cast<int>(name), #name)
SAME(TF_FLOAT);
SAME(TF_DOUBLE);
SAME(TF_INT32);
SAME(TF_UINT8);
SAME(TF_INT8);
SAME(TF_INT64);
SAME(TF_BOOL);
SAME(TF_BFLOAT16);
SAME(TF_HALF);

// TensorFlow has these as macros for TSL's names, so ours bear TSL's here too.
SAME(TF_OK);
SAME(TF_CANCELLED);
SAME(TF_UNKNOWN);
SAME(TF_INVALID_ARGUMENT);
SAME(TF_DEADLINE_EXCEEDED);
SAME(TF_FAILED_PRECONDITION);
SAME(TF_ABORTED);
SAME(TF_INTERNAL);
SAME(TF_UNAVAILABLE);
SAME(TF_UNAUTHENTICATED);

// xla_api.h declares these once more; here they are XLA's own.
static_assert(sizeof(XlaCustomCallStatus_) == sizeof(std::optional<std::string>), "status");
static xla::CustomCallTargetRegistry* (*const global)() = &xla::CustomCallTargetRegistry::Global;
static void (xla::CustomCallTargetRegistry::* const add)(
    const std::string&, void*, const std::string&) = &xla::CustomCallTargetRegistry::Register;
