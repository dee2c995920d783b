// Ranks as threads: meshes over an in-process store, and a sink that remembers.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "rendezvous/store.h"
#include "transport/mesh.h"

namespace tfring {
namespace test {

enum class Transport { kShm, kTcp, kMixed };  // kMixed: two ranks per host

struct MeshCase {
  Transport transport;
  int size;
};
std::ostream& operator<<(std::ostream& out, const MeshCase& value);

// Every transport for each size.
std::vector<MeshCase> MeshCases(const std::vector<int>& sizes = {2, 3, 4, 7});

// Runs body(rank) in a thread of its own for each rank, and waits for all.
void RunRanks(int size, const std::function<void(int rank)>& body);

MeshOptions OptionsOf(const MeshCase& param, int rank);

using Meshes = std::vector<std::unique_ptr<Mesh>>;

// Connects all ranks; failures are noted, and leave their entries empty.
Meshes ConnectAll(const MeshCase& param, const std::function<void(MeshOptions&)>& adjust = nullptr);

// The link still lacks what is expected: polls and waits until `done`.
void PollUntil(Mesh& mesh, FrameSink& sink, const std::function<bool()>& done);

struct Received {
  int peer;
  FrameHeader header;
  std::string payload;
};

class Recorder : public FrameSink {
 public:
  void OnFrame(int peer, const FrameHeader& header, const uint8_t* payload) override;
  void OnClosed(int peer, const Status& why) override;

  std::vector<Received> frames;
  std::vector<std::pair<int, Status>> closed;
};

FrameHeader DataHeader(size_t bytes, uint32_t occurrence = 0);
FrameHeader ControlHeader(size_t bytes, uint32_t occurrence = 0);

}  // namespace test
}  // namespace tfring
