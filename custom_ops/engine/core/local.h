// An operation of a process set with one member: no one to talk to.
#pragma once

#include "core/counters.h"
#include "core/request.h"

namespace tfring {

// Runs a valid request on the calling thread and calls its `done`.
void RunAlone(Request& request, Counters& counters);

}  // namespace tfring
