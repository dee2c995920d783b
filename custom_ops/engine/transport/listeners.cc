#include "transport/listeners.h"

#include <utility>

#include "base/random.h"
#include "base/socket.h"

namespace tfring {

Result<Listeners> Listeners::Open(const MeshOptions& options, const Store& store) {
  PeerAddress address;
  address.host_id = options.host_id;
  address.address = options.listen_address.empty() ? store.local_address() : options.listen_address;
  auto tcp = ListenTcp(address.address, 0);
  if (!tcp.ok()) return tcp.status();
  auto port = LocalPort(tcp.value().get());
  if (!port.ok()) return port.status();
  address.port = static_cast<uint16_t>(port.value());
  auto name = RandomHex(16);
  if (!name.ok()) return name.status();
  address.unix_name = "tfring-" + name.value();
  auto local = ListenUnix(address.unix_name);
  if (!local.ok()) return local.status();
  return Listeners{std::move(tcp.value()), std::move(local.value()), std::move(address)};
}

}  // namespace tfring
