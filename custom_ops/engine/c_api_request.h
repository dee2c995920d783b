// From the C API's request to the engine's.
#pragma once

#include "base/status.h"
#include "c_api.h"
#include "core/request.h"

namespace tfring {

// Copies everything but tensors' memory. kInvalidArgument for what no Request can hold:
// null pointers, numbers that name no kind, type or operation.
Result<Request> CopyRequest(const tfr_request* request);

}  // namespace tfring
