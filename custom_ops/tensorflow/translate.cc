#include "translate.h"

namespace tfring {

TF_Code ToTensorFlow(tfr_code code) {
  switch (code) {
    case TFR_OK:
      return TF_OK;
    case TFR_INVALID_ARGUMENT:
    case TFR_MISMATCH:
      return TF_INVALID_ARGUMENT;
    // Not TF_UNAVAILABLE, which graphs turn into an internal error unless it comes from an
    // op of TensorFlow's own network.
    case TFR_PEER_LOST:
    case TFR_INTERRUPTED:
    case TFR_IO:
      return TF_ABORTED;
    case TFR_STALLED:
    case TFR_TIMEOUT:
      return TF_DEADLINE_EXCEEDED;
    case TFR_SHUT_DOWN:
      return TF_CANCELLED;
    case TFR_NOT_INITIALIZED:
      return TF_FAILED_PRECONDITION;
    case TFR_UNAUTHENTICATED:
      return TF_UNAUTHENTICATED;
    case TFR_INTERNAL:
      return TF_INTERNAL;
  }
  return TF_UNKNOWN;
}

bool FromTensorFlow(TF_DataType type, tfr_dtype* dtype) {
  switch (type) {
    case TF_HALF:
      *dtype = TFR_FLOAT16;
      return true;
    case TF_BFLOAT16:
      *dtype = TFR_BFLOAT16;
      return true;
    case TF_FLOAT:
      *dtype = TFR_FLOAT32;
      return true;
    case TF_DOUBLE:
      *dtype = TFR_FLOAT64;
      return true;
    case TF_INT8:
      *dtype = TFR_INT8;
      return true;
    case TF_UINT8:
      *dtype = TFR_UINT8;
      return true;
    case TF_INT32:
      *dtype = TFR_INT32;
      return true;
    case TF_INT64:
      *dtype = TFR_INT64;
      return true;
    case TF_BOOL:
      *dtype = TFR_BOOL;
      return true;
  }
  return false;
}

}  // namespace tfring
