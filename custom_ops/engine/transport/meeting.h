// How the ranks of a generation come together.
//
// Every rank listens on TCP and on an abstract unix socket. All put their addresses into one
// gather of the store, so each has the addresses of all after one round trip. Then each rank
// connects to its neighbours, the higher calling the lower, and a second, empty gather tells
// when everybody is done: nobody can leave before everybody has arrived.
#pragma once

#include <memory>
#include <vector>

#include "base/poller.h"
#include "base/status.h"
#include "rendezvous/store.h"
#include "transport/connection.h"
#include "transport/connector.h"
#include "transport/mesh.h"

namespace tfring {

struct Meeting {
  std::unique_ptr<Connector> connector;  // listens
  std::vector<int> hosts;                // by rank: the number of its host, in order of appearance
  std::vector<int> neighbours;
  std::vector<Connection> connections;  // of the neighbours, in their order; not in the poller
};

// `options` and `poller` outlive the connector. The errors are those of Mesh::Connect.
Result<Meeting> Meet(const MeshOptions& options, Store& store, Poller* poller);

}  // namespace tfring
