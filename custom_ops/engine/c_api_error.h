// How the C API's functions report: a code, and a message for the calling thread.
#pragma once

#include "base/status.h"
#include "c_api.h"

namespace tfring {

// Keeps the message for tfr_last_error and gives the code.
tfr_code Report(const Status& status);

}  // namespace tfring
