// The types of TensorFlow's C API that our ops use, declared here so that building needs no
// TensorFlow. Values and layouts are TensorFlow's own and part of its stable interface;
// tests/cc/tf_c_api_test.cc compares them with the headers of an installed TensorFlow.
//
// No include guard and no namespace: that test includes the file inside one of its own.
#include <stddef.h>
#include <stdint.h>

typedef enum TF_DataType {
  TF_FLOAT = 1,
  TF_DOUBLE = 2,
  TF_INT32 = 3,
  TF_UINT8 = 4,
  TF_INT8 = 6,
  TF_INT64 = 9,
  TF_BOOL = 10,
  TF_BFLOAT16 = 14,
  TF_HALF = 19,
} TF_DataType;

typedef enum TF_Code {
  TF_OK = 0,
  TF_CANCELLED = 1,
  TF_UNKNOWN = 2,
  TF_INVALID_ARGUMENT = 3,
  TF_DEADLINE_EXCEEDED = 4,
  TF_FAILED_PRECONDITION = 9,
  TF_INTERNAL = 13,
  TF_UNAVAILABLE = 14,
  TF_UNAUTHENTICATED = 16,
} TF_Code;

typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;
typedef struct TF_AsyncOpKernelDoneCallback TF_AsyncOpKernelDoneCallback;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeHandle TF_ShapeHandle;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;
