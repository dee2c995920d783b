// The simulator must see what is wrong with a program, or it proves nothing.
#include "collective/simulator.h"

#include <string>
#include <vector>

#include "collective/exchange.h"
#include "collective/program_checks.h"
#include "collective/recursive_doubling.h"
#include "test.h"

namespace tfring::test {
namespace {

// Every rank has the int32 numbers 1, 2, ..., in place.
struct Run {
  explicit Run(const std::vector<Program>& programs) {
    std::vector<Simulator::Memory> memories;
    buffers.assign(programs.size(), std::vector<int32_t>(kCount));
    for (std::vector<int32_t>& buffer : buffers) {
      for (size_t i = 0; i < kCount; ++i) buffer[i] = static_cast<int32_t>(i + 1);
      auto* bytes = reinterpret_cast<uint8_t*>(buffer.data());
      memories.push_back({bytes, bytes, kCount * sizeof(int32_t)});
    }
    Simulator simulator(programs, memories, DType::kInt32, ReduceOp::kSum, 1);
    error = simulator.Run(Schedule::kSendsLate, 1);
  }

  bool right() const {
    for (const std::vector<int32_t>& buffer : buffers) {
      for (size_t i = 0; i < kCount; ++i) {
        if (buffer[i] != static_cast<int32_t>((i + 1) * buffers.size())) return false;
      }
    }
    return true;
  }

  static constexpr size_t kCount = 100;
  std::vector<std::vector<int32_t>> buffers;
  std::string error;
};

using Algorithm = Program (*)(int, int, size_t);

std::vector<Program> Programs(Algorithm algorithm, int size) {
  std::vector<Program> programs;
  for (int rank = 0; rank < size; ++rank) {
    programs.push_back(algorithm(rank, size, Run::kCount * sizeof(int32_t)));
  }
  return programs;
}

TEST(SimulatorRunsGoodPrograms) {
  for (Algorithm algorithm : {ExchangeAllreduce, RecursiveDoublingAllreduce}) {
    const Run run(Programs(algorithm, 4));
    EXPECT_EQ(run.error, "");
    EXPECT_TRUE(run.right());
  }
}

TEST(SimulatorSeesASendWhoseMemoryIsOverwritten) {
  for (Algorithm algorithm : {ExchangeAllreduce, RecursiveDoublingAllreduce}) {
    std::vector<Program> programs = Programs(algorithm, 4);
    for (Program& program : programs) {
      for (Receive& receive : program.receives) receive.after_sends = 0;
    }
    const Run run(programs);
    EXPECT_EQ(run.error, "");
    EXPECT_FALSE(run.right());
  }
}

TEST(SimulatorSeesADeadlock) {
  std::vector<Program> programs = Programs(ExchangeAllreduce, 3);
  for (Program& program : programs) program.sends[0].after = 2;
  EXPECT_CONTAINS(Run(programs).error, "can't send number 0");
}

TEST(SimulatorSeesMessagesThatDoNotFit) {
  std::vector<Program> programs = Programs(ExchangeAllreduce, 3);
  programs[1].sends[0].bytes -= 4;
  EXPECT_CONTAINS(Run(programs).error, "rank 2 expects 400 bytes from rank 1, got 396");
  EXPECT_CONTAINS(CheckPrograms(programs, 400), "what rank 1 sends to rank 2 is not what");
  programs = Programs(ExchangeAllreduce, 3);
  programs[0].sends.push_back(programs[0].sends[0]);
  EXPECT_CONTAINS(Run(programs).error, "rank 1 does not take all that it gets from rank 0");
}

TEST(ProgramChecksSeeBytesOutsideOfTheBuffer) {
  std::vector<Program> programs = Programs(ExchangeAllreduce, 3);
  EXPECT_EQ(CheckPrograms(programs, 400), "");
  EXPECT_CONTAINS(CheckPrograms(programs, 399), "send 0 of rank 0 ends beyond the buffer");
}

TEST(ProgramChecksSeeResultsWrittenTwiceOrNever) {
  Program program = ExchangeAllreduce(0, 3, 400);
  EXPECT_EQ(CheckResultsCover(program, 400), "");
  EXPECT_EQ(CheckResultsCover(program, 404), "results end at 400");
  program.receives[1].last = true;
  EXPECT_EQ(CheckResultsCover(program, 400), "two results at 0");
}

}  // namespace
}  // namespace tfring::test
