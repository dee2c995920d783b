// How the ranks of a generation come to have a connection between each two of them.
//
// Every rank listens on TCP and on an abstract unix socket and publishes both in the
// store. The higher rank of a pair connects to the lower one: by the unix socket, over
// which it then passes shared memory, where their host ids are equal, and by TCP
// elsewhere. A rank publishes its address once rank 0 has let it in; so of two processes
// with the same rank the later is refused before it can mislead anybody.
//
// When a rank has all its connections, it says so on each of them (one byte), and is done
// when it has heard the same from all: nobody can leave before everybody has arrived.
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "rendezvous/store.h"
#include "transport/mesh.h"
#include "transport/shm/shared_rings.h"

namespace tfring {

struct Connection {
  Fd socket;
  std::unique_ptr<SharedRings> rings;  // null: TCP
};

// By rank; the own entry is empty. The errors are those of Mesh::Connect.
Result<std::vector<Connection>> Assemble(const MeshOptions& options, Store& store);

}  // namespace tfring
