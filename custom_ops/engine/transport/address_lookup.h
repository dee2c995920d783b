// Waits in the store for other ranks' addresses, in a thread of its own: a store's Get
// blocks, and whoever assembles links has sockets to look after meanwhile.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/poller.h"
#include "rendezvous/store.h"
#include "transport/peer_address.h"

namespace tfring {

class AddressLookup {
 public:
  // key_of: the store's key for a rank. `poller` is woken when there is something to Take.
  AddressLookup(Store& store, std::function<std::string(int)> key_of, Poller* poller);
  // Within kSlice.
  ~AddressLookup();
  AddressLookup(const AddressLookup&) = delete;
  AddressLookup& operator=(const AddressLookup&) = delete;

  void Want(int rank);

  struct Found {
    int rank;
    Result<PeerAddress> address;  // an error is the store's, and final
  };
  std::vector<Found> Take();

 private:
  static constexpr Duration kSlice{250};

  void Run();
  // The address if it comes within `timeout`; true when the rank needs no more looking up.
  bool Look(int rank, Duration timeout);

  Store& store_;
  const std::function<std::string(int)> key_of_;
  Poller* const poller_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> wanted_;  // the next to be looked up in front
  std::vector<Found> found_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tfring
