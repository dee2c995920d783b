// The store's part of the C API: a server for the launcher, a client for agents.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "c_api.h"
#include "c_api_error.h"
#include "rendezvous/store_server.h"
#include "rendezvous/tcp_store.h"

using tfring::Code;
using tfring::Duration;
using tfring::Report;
using tfring::StoreServer;
using tfring::TcpStore;

struct tfr_store_server {
  std::unique_ptr<StoreServer> server;
};

struct tfr_store_client {
  std::unique_ptr<TcpStore> store;
};

namespace {

tfr_code NullArgument(const char* function) {
  return Report({Code::kInvalidArgument, std::string(function) + ": an argument is null"});
}

Duration FromSeconds(double seconds) {
  constexpr double kLongest = 1e9;
  const double bounded = seconds > 0 ? std::fmin(seconds, kLongest) : 0;
  return Duration(static_cast<int64_t>(std::ceil(bounded * 1000)));
}

}  // namespace

extern "C" {

tfr_code tfr_store_server_start(const char* host, int port, const char* secret,
                                tfr_store_server** server) {
  if (host == nullptr || secret == nullptr || server == nullptr) {
    return NullArgument("tfr_store_server_start");
  }
  auto started = StoreServer::Start(host, port, secret);
  if (!started.ok()) return Report(started.status());
  *server = new tfr_store_server{std::move(started.value())};
  return TFR_OK;
}

int tfr_store_server_port(const tfr_store_server* server) {
  return server == nullptr ? -1 : server->server->port();
}

void tfr_store_server_stop(tfr_store_server* server) { delete server; }

tfr_code tfr_store_client_connect(const char* host, int port, const char* secret, double timeout_s,
                                  tfr_store_client** client) {
  if (host == nullptr || secret == nullptr || client == nullptr) {
    return NullArgument("tfr_store_client_connect");
  }
  auto connected = TcpStore::Connect(host, port, secret, FromSeconds(timeout_s));
  if (!connected.ok()) return Report(connected.status());
  *client = new tfr_store_client{std::move(connected.value())};
  return TFR_OK;
}

void tfr_store_client_close(tfr_store_client* client) { delete client; }

tfr_code tfr_store_set(tfr_store_client* client, const char* key, const void* value, size_t size) {
  if (client == nullptr || key == nullptr || (value == nullptr && size > 0)) {
    return NullArgument("tfr_store_set");
  }
  return Report(client->store->Set(key, std::string(static_cast<const char*>(value), size)));
}

tfr_code tfr_store_get(tfr_store_client* client, const char* key, double timeout_s, void** value,
                       size_t* size) {
  if (client == nullptr || key == nullptr || value == nullptr || size == nullptr) {
    return NullArgument("tfr_store_get");
  }
  const auto got = client->store->Get(key, FromSeconds(timeout_s));
  if (!got.ok()) return Report(got.status());
  const std::string& text = got.value();
  *value = std::malloc(text.empty() ? 1 : text.size());
  if (*value == nullptr) return Report({Code::kInternal, "tfr_store_get: out of memory"});
  std::memcpy(*value, text.data(), text.size());
  *size = text.size();
  return TFR_OK;
}

tfr_code tfr_store_add(tfr_store_client* client, const char* key, int64_t delta, int64_t* value) {
  if (client == nullptr || key == nullptr || value == nullptr) return NullArgument("tfr_store_add");
  const auto added = client->store->Add(key, delta);
  if (!added.ok()) return Report(added.status());
  *value = added.value();
  return TFR_OK;
}

tfr_code tfr_store_delete(tfr_store_client* client, const char* key) {
  if (client == nullptr || key == nullptr) return NullArgument("tfr_store_delete");
  return Report(client->store->Delete(key));
}

}  // extern "C"
