#include "transport/ranks.h"

#include <thread>

#include "rendezvous/hash_store.h"
#include "test.h"

namespace tfring {
namespace test {

std::ostream& operator<<(std::ostream& out, const MeshCase& value) {
  const char* const names[] = {"shm", "tcp", "mixed"};
  return out << names[static_cast<int>(value.transport)] << value.size;
}

std::vector<MeshCase> MeshCases(const std::vector<int>& sizes) {
  std::vector<MeshCase> cases;
  for (const int size : sizes) {
    cases.push_back({Transport::kShm, size});
    cases.push_back({Transport::kTcp, size});
    if (size > 2) cases.push_back({Transport::kMixed, size});
  }
  return cases;
}

void RunRanks(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

MeshOptions OptionsOf(const MeshCase& param, int rank) {
  const int ranks_per_host = param.transport == Transport::kShm   ? param.size
                             : param.transport == Transport::kTcp ? 1
                                                                  : 2;
  MeshOptions options;
  options.rank = rank;
  options.size = param.size;
  options.host_id = "host" + std::to_string(rank / ranks_per_host);
  options.secret = "the secret";
  options.timeout = Duration(60000);
  return options;
}

Meshes ConnectAll(const MeshCase& param, const std::function<void(MeshOptions&)>& adjust) {
  HashStore store;
  Meshes meshes(static_cast<size_t>(param.size));
  RunRanks(param.size, [&](int rank) {
    MeshOptions options = OptionsOf(param, rank);
    if (adjust) adjust(options);
    auto mesh = Mesh::Connect(options, store);
    EXPECT_OK(mesh);
    if (mesh.ok()) meshes[static_cast<size_t>(rank)] = std::move(mesh.value());
  });
  return meshes;
}

void PollUntil(Mesh& mesh, FrameSink& sink, const std::function<bool()>& done) {
  while (!done()) {
    if (!mesh.Poll(sink) && !done()) mesh.Wait(Duration(60000));
  }
}

void Recorder::OnFrame(int peer, const FrameHeader& header, const uint8_t* payload) {
  frames.push_back(
      {peer, header, std::string(reinterpret_cast<const char*>(payload), header.bytes)});
}

void Recorder::OnClosed(int peer, const Status& why) { closed.emplace_back(peer, why); }

FrameHeader DataHeader(size_t bytes, uint32_t occurrence) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kData);
  header.bytes = static_cast<uint32_t>(bytes);
  header.occurrence = occurrence;
  return header;
}

FrameHeader ControlHeader(size_t bytes, uint32_t occurrence) {
  FrameHeader header = DataHeader(bytes, occurrence);
  header.type = static_cast<uint8_t>(FrameType::kAnnounce);
  return header;
}

}  // namespace test
}  // namespace tfring
