// What a link is made of.
#pragma once

#include <memory>

#include "base/fd.h"
#include "transport/shm/shared_rings.h"

namespace tfring {

struct Connection {
  Fd socket;
  std::unique_ptr<SharedRings> rings;  // null: TCP
};

}  // namespace tfring
