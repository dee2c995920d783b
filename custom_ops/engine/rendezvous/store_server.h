// Serves a store over TCP from one thread, to clients that prove the job's secret.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/poller.h"
#include "base/status.h"
#include "rendezvous/gathering.h"
#include "rendezvous/store_connection.h"
#include "rendezvous/table.h"

namespace tfring {

class StoreServer {
 public:
  // host: IP literal or name to bind, "" for all interfaces; port 0: any free one. kIo
  // names the address when it can't be had.
  static Result<std::unique_ptr<StoreServer>> Start(const std::string& host, int port,
                                                    const std::string& secret);
  // Closes all connections.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const { return port_; }

 private:
  using Connections = std::unordered_map<uint64_t, std::unique_ptr<StoreConnection>>;

  StoreServer() = default;
  void Run();
  void AcceptAll();
  void DropOldestStranger();
  void Serve(uint64_t id, uint32_t events);
  void Execute(StoreConnection& connection);
  // Answers those who wait for the key.
  void Deliver(const std::string& key);
  void Join(StoreConnection& connection);
  void LeaveGathering(const StoreConnection& connection);
  Status Expired(const StoreConnection& connection) const;
  void ExpireAll();
  std::chrono::milliseconds UntilNextExpiry() const;
  void Arm(uint64_t id, StoreConnection& connection);
  void Drop(Connections::iterator connection);

  std::string secret_;
  Fd listener_;
  int port_ = 0;
  std::unique_ptr<Poller> poller_;
  std::atomic<bool> stopping_{false};
  Table table_;
  std::unordered_map<std::string, Gathering> gatherings_;
  Connections connections_;
  uint64_t next_id_ = 1;  // ids grow, so the lowest is the oldest
  bool accepting_ = true;
  std::thread thread_;
};

}  // namespace tfring
