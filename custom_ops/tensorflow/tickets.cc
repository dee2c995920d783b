#include "tickets.h"

#include <map>
#include <mutex>
#include <utility>

#include "c_api.h"

namespace tfring {
namespace {

constexpr int64_t kDistinctTickets = 256;

struct Tickets {
  std::mutex mutex;
  int64_t generation = -1;
  std::map<std::pair<int64_t, std::string>, int64_t> next;
};

// Never destroyed: threads of TensorFlow may still run at exit.
Tickets& AllTickets() {
  static auto* tickets = new Tickets;
  return *tickets;
}

}  // namespace

int64_t NextTicket(int64_t process_set, const std::string& name) {
  Tickets& tickets = AllTickets();
  const int64_t generation = tfr_generation();
  const std::lock_guard<std::mutex> lock(tickets.mutex);
  if (generation != tickets.generation) {
    tickets.generation = generation;
    tickets.next.clear();
  }
  return tickets.next[{process_set, name}]++;
}

std::string NameWithTicket(const std::string& name, int64_t ticket) {
  return name + "#" + std::to_string(ticket % kDistinctTickets);
}

}  // namespace tfring
