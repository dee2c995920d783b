// The two doors of a rank: TCP for other hosts, an abstract unix socket for its own.
#pragma once

#include "base/fd.h"
#include "base/status.h"
#include "rendezvous/store.h"
#include "transport/mesh.h"
#include "transport/peer_address.h"

namespace tfring {

struct Listeners {
  Fd tcp;
  Fd local;
  PeerAddress address;  // of both

  static Result<Listeners> Open(const MeshOptions& options, const Store& store);
};

}  // namespace tfring
