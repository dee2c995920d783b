// Broadcast, allgather and barrier, simulated.
#include <cstring>
#include <numeric>
#include <ostream>
#include <vector>

#include "collective/allgather.h"
#include "collective/barrier.h"
#include "collective/broadcast.h"
#include "collective/program_checks.h"
#include "collective/ring.h"
#include "collective/simulator.h"
#include "collective/topology.h"
#include "test.h"

namespace tfring::test {
namespace {

constexpr size_t kTinySegment = 128;

std::vector<int> Sizes() { return {1, 2, 3, 4, 5, 7, 8, 16, 33}; }

std::vector<uint8_t> Pattern(size_t bytes, int seed) {
  std::vector<uint8_t> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(i * 31 + i / 256 + seed * 17);
  return data;
}

void CheckBroadcast(Tree tree, int size, int root, size_t bytes, Schedule schedule) {
  std::vector<Program> programs;
  std::vector<std::vector<uint8_t>> buffers;
  std::vector<Simulator::Memory> memories;
  for (int rank = 0; rank < size; ++rank) {
    programs.push_back(TreeBroadcast(tree, rank, size, root, bytes, kTinySegment));
    buffers.push_back(rank == root ? Pattern(bytes, 1) : std::vector<uint8_t>(bytes));
    const size_t own = rank == root ? bytes : 0;
    EXPECT_EQ(CheckResultsCover(programs.back(), bytes, 0, own), "");
  }
  for (auto& buffer : buffers) memories.push_back({buffer.data(), buffer.data(), bytes});
  EXPECT_EQ(CheckPrograms(programs, bytes), "");
  Simulator simulator(programs, memories);
  EXPECT_EQ(simulator.Run(schedule, 5), "");
  for (const auto& buffer : buffers) EXPECT_TRUE(buffer == buffers[root]) << size << " ranks";
}

TEST_EACH(BroadcastReachesEveryRank, Sizes()) {
  for (Tree tree : {Tree::kBinomial, Tree::kChain}) {
    for (int root = 0; root < param; root += 1 + param / 4) {
      for (size_t bytes : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{5003}}) {
        for (Schedule schedule : kSchedules) CheckBroadcast(tree, param, root, bytes, schedule);
      }
    }
  }
}

enum class Blocks { kEqual, kEmpty, kOneByte, kUnequal, kLastAlone };

std::vector<size_t> MakeBlocks(Blocks kind, int size) {
  std::vector<size_t> blocks(size, 0);
  for (int rank = 0; rank < size; ++rank) {
    if (kind == Blocks::kEqual) blocks[rank] = 400;
    if (kind == Blocks::kOneByte) blocks[rank] = 1;
    if (kind == Blocks::kUnequal) blocks[rank] = rank % 3 == 1 ? 0 : 333 * (rank % 5);
  }
  if (kind == Blocks::kLastAlone) blocks[size - 1] = 1001;
  return blocks;
}

void CheckAllgather(const std::vector<size_t>& blocks, bool ring, Schedule schedule) {
  const int size = static_cast<int>(blocks.size());
  const size_t total = std::accumulate(blocks.begin(), blocks.end(), size_t{0});
  std::vector<int> order(size);
  for (int i = 0; i < size; ++i)
    order[i] = Wrap(-2 * i - (size % 2 == 0 ? i / (size / 2) : 0), size);
  const std::vector<uint8_t> expected = Pattern(total, 2);
  std::vector<Program> programs;
  std::vector<std::vector<uint8_t>> outputs;
  std::vector<Simulator::Memory> memories;
  size_t offset = 0;
  for (int rank = 0; rank < size; ++rank) {
    programs.push_back(ring ? RingAllgather(rank, order, blocks, kTinySegment)
                            : DirectAllgather(rank, blocks));
    outputs.emplace_back(total);
    // The own block is in its place.
    if (blocks[rank] > 0) std::memcpy(&outputs[rank][offset], &expected[offset], blocks[rank]);
    EXPECT_EQ(CheckResultsCover(programs.back(), total, offset, blocks[rank]), "");
    offset += blocks[rank];
  }
  for (auto& output : outputs) memories.push_back({output.data(), output.data(), total});
  EXPECT_EQ(CheckPrograms(programs, total), "");
  Simulator simulator(programs, memories);
  EXPECT_EQ(simulator.Run(schedule, 6), "");
  for (const auto& output : outputs) EXPECT_TRUE(output == expected) << size << " ranks";
}

TEST_EACH(AllgatherBringsAllBlocksToAll, Sizes()) {
  for (Blocks kind :
       {Blocks::kEqual, Blocks::kEmpty, Blocks::kOneByte, Blocks::kUnequal, Blocks::kLastAlone}) {
    for (Schedule schedule : kSchedules) {
      CheckAllgather(MakeBlocks(kind, param), /*ring=*/false, schedule);
      CheckAllgather(MakeBlocks(kind, param), /*ring=*/true, schedule);
    }
  }
}

std::vector<Program> BarrierPrograms(int size) {
  std::vector<Program> programs;
  for (int rank = 0; rank < size; ++rank) programs.push_back(DisseminationBarrier(rank, size));
  return programs;
}

TEST_EACH(BarrierEnds, Sizes()) {
  const size_t bytes = BarrierScratchBytes(param);
  for (Schedule schedule : kSchedules) {
    std::vector<std::vector<uint8_t>> scratch(param, std::vector<uint8_t>(bytes));
    std::vector<Simulator::Memory> memories;
    for (auto& buffer : scratch) memories.push_back({buffer.data(), buffer.data(), bytes});
    const std::vector<Program> programs = BarrierPrograms(param);
    EXPECT_EQ(CheckPrograms(programs, bytes), "");
    Simulator simulator(programs, memories);
    EXPECT_EQ(simulator.Run(schedule, 7), "");
  }
}

// A barrier in which one rank has not come yet: no other may end.
TEST_EACH(BarrierWaitsForEveryRank, Sizes()) {
  if (param == 1) return;
  const size_t bytes = BarrierScratchBytes(param);
  std::vector<Program> programs = BarrierPrograms(param);
  // Its sends wait for a receive that waits for a send that never leaves.
  Program& absent = programs[param / 2];
  for (Send& send : absent.sends) send.after = 0;
  absent.receives[0].after_sends = static_cast<int>(absent.sends.size());
  std::vector<std::vector<uint8_t>> scratch(param, std::vector<uint8_t>(bytes));
  std::vector<Simulator::Memory> memories;
  for (auto& buffer : scratch) memories.push_back({buffer.data(), buffer.data(), bytes});
  Simulator simulator(programs, memories);
  EXPECT_CONTAINS(simulator.Run(Schedule::kRandom, 8), "can't");
  for (int rank = 0; rank < param; ++rank) EXPECT_FALSE(simulator.Done(rank)) << rank;
}

}  // namespace
}  // namespace tfring::test
