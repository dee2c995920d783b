// All links of one rank, and the one place where its progress thread sleeps.
//
// In the beginning a rank is connected to its neighbours alone (overlay.h). All other
// connections are made when they are first used, by either side, from within Poll.
//
// One thread at a time moves bytes: the driver. The progress thread may sleep meanwhile,
// so that whoever waits for an operation can drive and need not be woken.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/interruption.h"
#include "base/status.h"
#include "rendezvous/store.h"
#include "transport/link.h"

namespace tfring {

struct MeshOptions {
  int rank = 0;
  int size = 1;
  // Ranks with equal host ids share memory. It is what the launcher says it is.
  std::string host_id;
  int64_t generation = 0;  // keys of the store and handshakes carry it
  std::string secret;      // HMAC key of the handshakes
  // Address to listen on and to tell the others; empty: Store::local_address().
  std::string listen_address;
  Duration timeout{120000};         // to meet the others; later, for a connection to be made
  size_t ring_bytes = 1024 * 1024;  // shared-memory ring, each way, each pair
  std::shared_ptr<const Interruption> interruption;  // ends Connect; may be null
};

class Mesh {
 public:
  // Meets the other ranks in the store and connects to the neighbours: shared memory where
  // host ids are equal, TCP elsewhere. Every rank must call it, and none returns before all
  // are connected; the error of a timeout names the ranks that are missing.
  static Result<std::unique_ptr<Mesh>> Connect(const MeshOptions& options, Store& store);
  virtual ~Mesh() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // By rank: a number of its host, the same on all ranks.
  virtual const std::vector<int>& hosts() const = 0;

  // peer != rank(). Valid as long as the mesh, whether there is a connection yet or not; the
  // object may be another one when there is. If a connection can't be made within the
  // timeout, OnClosed says why, as for one that has gone.
  virtual Link& link(int peer) = 0;

  // The ranks connected from the start. They stay so until one of both goes.
  virtual const std::vector<int>& neighbours() const = 0;
  // Whether there is a connection to the rank, or one on its way.
  virtual bool in_touch(int peer) const = 0;
  // The rank has left: there will be no connection to it any more.
  virtual void Dismiss(int peer) = 0;

  // Moves bytes on every link and hands frames to `sink`; true when anything moved.
  // A bounded amount per link and call, so that no link starves another.
  virtual bool Poll(FrameSink& sink) = 0;

  // The driver: asks all links to end the next Sleep when something can move. False when
  // something can move already.
  virtual bool Arm() = 0;
  // The driver: Poll will look by itself, no link need wake anybody. True when they were asked
  // to.
  virtual bool Disarm() = 0;

  // The progress thread alone, driver or not: sleeps until an armed link can move, Wake is
  // called or the time is up. Nothing that happened since Arm, and no Wake since the last
  // Sleep, is slept through.
  virtual void Sleep(Duration timeout) = 0;
  // The driver: makes use of what ended the last Sleep, and disarms.
  virtual void Rise() = 0;

  // All in one, for a progress thread that is the only driver.
  void Wait(Duration timeout) {
    Sleep(Arm() ? timeout : Duration(0));
    Rise();
  }

  // From any thread: ends Sleep, now or the next one.
  virtual void Wake() = 0;

  // Sends what is queued, for at most `timeout`, then closes every link. Frames that come
  // in meanwhile are dropped.
  virtual void Close(Duration timeout) = 0;
};

}  // namespace tfring
