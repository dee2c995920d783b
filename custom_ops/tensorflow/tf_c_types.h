// The types of TensorFlow's C API that our ops use, declared here so that building needs no
// TensorFlow. Values and layouts are TensorFlow's own and part of its stable interface;
// tests/python/test_tf_c_api.py compares them with the headers of an installed TensorFlow.
//
// No include guard and no namespace: that test includes the file inside one of its own.
#include <stddef.h>
#include <stdint.h>

enum TF_DataType {
  TF_FLOAT = 1,
  TF_DOUBLE = 2,
  TF_INT32 = 3,
  TF_UINT8 = 4,
  TF_INT8 = 6,
  TF_INT64 = 9,
  TF_BOOL = 10,
  TF_BFLOAT16 = 14,
  TF_HALF = 19,
};

enum TF_Code {
  TF_OK = 0,
  TF_CANCELLED = 1,
  TF_UNKNOWN = 2,
  TF_INVALID_ARGUMENT = 3,
  TF_DEADLINE_EXCEEDED = 4,
  TF_FAILED_PRECONDITION = 9,
  TF_ABORTED = 10,
  TF_INTERNAL = 13,
  TF_UNAVAILABLE = 14,
  TF_UNAUTHENTICATED = 16,
};

struct TF_Status;
struct TF_Tensor;
struct TF_KernelBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;
struct TF_OpDefinitionBuilder;
struct TF_ShapeHandle;
struct TF_ShapeInferenceContext;
