#include "transport/address_lookup.h"

#include <utility>

namespace tfring {

AddressLookup::AddressLookup(Store& store, std::function<std::string(int)> key_of, Poller* poller)
    : store_(store), key_of_(std::move(key_of)), poller_(poller), thread_([this] { Run(); }) {}

AddressLookup::~AddressLookup() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AddressLookup::Want(int rank) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    wanted_.push_front(rank);
  }
  changed_.notify_all();
}

std::vector<AddressLookup::Found> AddressLookup::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(found_, {});
}

void AddressLookup::Run() {
  // Ranks come up at about the same time: so while they do, all that are wanted are asked
  // for without waiting, and only when none was there is one waited for.
  size_t in_vain = 0;
  while (true) {
    int rank = 0;
    size_t count = 0;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !wanted_.empty(); });
      if (stopping_) return;
      rank = wanted_.front();
      wanted_.pop_front();
      count = wanted_.size() + 1;
    }
    const bool wait = in_vain >= count;
    if (Look(rank, wait ? kSlice : Duration(0))) {
      in_vain = 0;
      continue;
    }
    ++in_vain;
    const std::lock_guard<std::mutex> lock(mutex_);
    wanted_.push_back(rank);
  }
}

bool AddressLookup::Look(int rank, Duration timeout) {
  auto value = store_.Get(key_of_(rank), timeout);
  if (!value.ok() && value.status().code() == Code::kTimeout) return false;
  Result<PeerAddress> address =
      value.ok() ? PeerAddress::Decode(value.value()) : Result<PeerAddress>(value.status());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    found_.push_back({rank, std::move(address)});
  }
  poller_->Wake();
  return true;
}

}  // namespace tfring
