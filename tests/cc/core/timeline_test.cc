// What engines leave in their timelines' files.
#include "core/timeline.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/cluster.h"
#include "test.h"

namespace tfring::test {
namespace {

std::string TemporaryPath(const std::string& name) {
  static std::atomic<int> count{0};
  return "/tmp/tfring-timeline-test-" + std::to_string(getpid()) + "-" + std::to_string(++count) +
         "-" + name;
}

// A file as readers see it, deleted once read.
struct Part {
  TimelineHeader header;
  std::vector<TimelineRecord> records;

  explicit Part(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    TimelineRecord record;
    while (file.read(reinterpret_cast<char*>(&record), sizeof(record))) records.push_back(record);
    std::remove(path.c_str());
  }

  std::vector<TimelineRecord> Of(RecordType type) const {
    std::vector<TimelineRecord> found;
    for (const TimelineRecord& record : records) {
      if (record.type == static_cast<uint8_t>(type)) found.push_back(record);
    }
    return found;
  }
};

std::string TextOf(const TimelineRecord& record) {
  return std::string(record.text, strnlen(record.text, sizeof(record.text)));
}

// A cluster whose ranks record from the beginning.
class RecordedCluster {
 public:
  explicit RecordedCluster(ClusterOptions options, bool detail = false)
      : timelines_(options.size), paths_(options.size) {
    for (int rank = 0; rank < options.size; ++rank) {
      timelines_[rank] = std::make_unique<Timeline>();
      paths_[rank] = TemporaryPath("rank" + std::to_string(rank));
      TimelineOptions timeline;
      timeline.path = paths_[rank];
      timeline.rank = rank;
      timeline.detail = detail;
      EXPECT_OK(timelines_[rank]->Start(timeline));
    }
    options.adjust = [this, adjust = options.adjust](EngineOptions& engine) {
      if (adjust) adjust(engine);
      engine.timeline = timelines_[engine.rank].get();
    };
    cluster_ = std::make_unique<Cluster>(options);
  }

  Cluster& cluster() { return *cluster_; }
  Timeline& timeline(int rank) { return *timelines_[rank]; }

  std::vector<Part> End() {
    cluster_.reset();
    std::vector<Part> parts;
    for (size_t rank = 0; rank < timelines_.size(); ++rank) {
      EXPECT_OK(timelines_[rank]->Stop());
      parts.emplace_back(paths_[rank]);
    }
    return parts;
  }

 private:
  std::vector<std::unique_ptr<Timeline>> timelines_;
  std::vector<std::string> paths_;
  std::unique_ptr<Cluster> cluster_;
};

void Allreduce(Engine& engine, const std::string& name, size_t count) {
  std::vector<float> values(count, 1.0f);
  EXPECT_OK(
      RunRequest(engine, AllreduceRequest(name, DType::kFloat32, ReduceOp::kSum, values.data(),
                                          values.data(), static_cast<int64_t>(count))));
}

// Times are in order, and pieces fit into the time there was for them.
void CheckOperation(const TimelineRecord& record, int size) {
  EXPECT_GT(record.begin, 0);
  EXPECT_GE(record.taken, record.begin);
  EXPECT_GE(record.started, record.taken);
  EXPECT_GE(record.end, record.started);
  EXPECT_TRUE(record.rank >= 0 && record.rank < size);
  int64_t late = 0;
  int64_t early = 0;
  for (int kind = 0; kind < kPieceKinds; ++kind) {
    EXPECT_GE(record.early[kind], 0);
    EXPECT_GE(record.work[kind], record.early[kind]);
    early += record.early[kind];
    late += record.work[kind] - record.early[kind];
  }
  EXPECT_LE(late, record.end - record.started);
  EXPECT_LE(early, record.started - record.begin);
}

TEST(TimelineRecordsOperations) {
  for (bool shared_memory : {true, false}) {
    constexpr int kSize = 3;
    constexpr int kRounds = 5;
    constexpr size_t kCount = 300000;
    RecordedCluster recorded(shared_memory ? OnOneHost(kSize) : OnHosts(kSize));
    recorded.cluster().Run([&](Engine& engine, int) {
      for (int round = 0; round < kRounds; ++round) Allreduce(engine, "gradients", kCount);
      EXPECT_OK(RunRequest(engine, BarrierRequest("end")));
    });
    for (const Part& part : recorded.End()) {
      EXPECT_EQ(std::string(part.header.magic, 16), "tfring timeline1");
      EXPECT_EQ(part.Of(RecordType::kStart).size(), 1u);
      EXPECT_EQ(part.Of(RecordType::kShutDown).size(), 1u);
      EXPECT_EQ(part.records.back().type, static_cast<uint8_t>(RecordType::kEnd));
      EXPECT_EQ(part.records.back().bytes, 0);
      const auto operations = part.Of(RecordType::kOperation);
      ASSERT_EQ(operations.size(), static_cast<size_t>(kRounds + 1));
      for (int round = 0; round < kRounds; ++round) {
        const TimelineRecord& record = operations[round];
        EXPECT_EQ(TextOf(record), "gradients");
        EXPECT_EQ(record.occurrence, static_cast<uint32_t>(round));
        EXPECT_EQ(record.bytes, static_cast<int64_t>(kCount * sizeof(float)));
        EXPECT_EQ(record.code, 0);
        EXPECT_GT(record.work[static_cast<int>(PieceKind::kReduce)], 0);
        EXPECT_GT(record.work[static_cast<int>(PieceKind::kSend)], 0);
        CheckOperation(record, kSize);
      }
      EXPECT_TRUE(part.Of(RecordType::kPiece).empty());
    }
  }
}

TEST(TimelineNamesTheRankThatCameLast) {
  RecordedCluster recorded(OnOneHost(3));
  recorded.cluster().Run([&](Engine& engine, int rank) {
    // Large enough to need everybody's first bytes at once.
    Allreduce(engine, "warm", 30000);
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Allreduce(engine, "late", 30000);
  });
  for (const Part& part : recorded.End()) {
    const auto operations = part.Of(RecordType::kOperation);
    ASSERT_EQ(operations.size(), 2u);
    EXPECT_EQ(operations[1].rank, 2);
  }
}

TEST(TimelineKnowsTheClockOfRankZero) {
  RecordedCluster recorded(OnHosts(3));
  recorded.cluster().Run([](Engine& engine, int) {
    for (int round = 0; round < 20; ++round) {
      EXPECT_OK(RunRequest(engine, BarrierRequest("b")));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const std::vector<Part> parts = recorded.End();
  EXPECT_TRUE(parts[0].Of(RecordType::kClock).empty());
  for (size_t rank = 1; rank < parts.size(); ++rank) {
    const auto answers = parts[rank].Of(RecordType::kClock);
    EXPECT_GE(answers.size(), 4u);
    for (const TimelineRecord& answer : answers) {
      // One clock in truth: rank 0 was asked between question and answer.
      EXPECT_LE(answer.begin, answer.taken);
      EXPECT_LE(answer.taken, answer.end);
    }
    EXPECT_EQ(std::string(parts[rank].header.clock), std::string(parts[0].header.clock));
  }
}

TEST(TimelineInDetailHasEveryPiece) {
  RecordedCluster recorded(OnOneHost(2), true);
  recorded.cluster().Run([](Engine& engine, int) { Allreduce(engine, "x", 1 << 20); });
  for (const Part& part : recorded.End()) {
    const auto operations = part.Of(RecordType::kOperation);
    ASSERT_EQ(operations.size(), 1u);
    int64_t work[kPieceKinds] = {};
    for (const TimelineRecord& piece : part.Of(RecordType::kPiece)) {
      EXPECT_EQ(piece.name_id, operations[0].name_id);
      work[piece.kind] += piece.end - piece.begin;
    }
    for (int kind = 0; kind < kPieceKinds; ++kind) EXPECT_EQ(work[kind], operations[0].work[kind]);
  }
}

TEST(TimelineRecordsFailures) {
  RecordedCluster recorded(OnOneHost(2));
  recorded.cluster().Run([](Engine& engine, int rank) {
    float values[8] = {};
    const Status status = RunRequest(engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum,
                                                              values, values, rank == 0 ? 4 : 8));
    EXPECT_CODE(status, Code::kMismatch);
  });
  for (const Part& part : recorded.End()) {
    const auto operations = part.Of(RecordType::kOperation);
    ASSERT_EQ(operations.size(), 1u);
    EXPECT_EQ(operations[0].code, static_cast<uint8_t>(Code::kMismatch));
  }
}

TEST(TimelineMayBeginAndEndBetweenOperations) {
  Cluster* running = nullptr;
  Timeline timeline;
  ClusterOptions options = OnOneHost(2);
  options.adjust = [&](EngineOptions& engine) {
    if (engine.rank == 0) engine.timeline = &timeline;
  };
  Cluster cluster(options);
  running = &cluster;
  std::atomic<bool> done{false};
  std::thread operator_thread([&] {
    for (int i = 0; i < 20; ++i) {
      TimelineOptions file;
      file.path = TemporaryPath("again");
      EXPECT_OK(timeline.Start(file));
      EXPECT_CODE(timeline.Start(file), Code::kInvalidArgument);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_OK(timeline.Stop());
      for (const TimelineRecord& record : Part(file.path).Of(RecordType::kOperation)) {
        CheckOperation(record, 2);
      }
    }
    done = true;
  });
  std::vector<float> last(2, 0.0f);
  running->Run([&](Engine& engine, int rank) {
    while (last[rank] == 0.0f) {
      float stop = rank == 0 && done ? 1.0f : 0.0f;
      EXPECT_OK(RunRequest(
          engine, AllreduceRequest("x", DType::kFloat32, ReduceOp::kSum, &stop, &stop, 1)));
      last[rank] = stop;
    }
  });
  operator_thread.join();
}

TEST(TimelineIsBounded) {
  Timeline timeline;
  TimelineOptions options;
  options.path = TemporaryPath("bounded");
  options.most_records = 1000;
  EXPECT_OK(timeline.Start(options));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5000; ++j) timeline.AddInstant(1, "message");
    });
  }
  for (std::thread& thread : threads) thread.join();
  timeline.Flush();
  EXPECT_OK(timeline.Stop());
  const Part part(options.path);
  EXPECT_EQ(part.Of(RecordType::kInstant).size(), 1000u);
  EXPECT_EQ(part.records.back().bytes, 19000);
}

TEST(TimelineOnAFullDiskEndsQuietly) {
  Timeline timeline;
  TimelineOptions options;
  options.path = "/dev/full";
  EXPECT_CODE(timeline.Start(options), Code::kIo);
  EXPECT_FALSE(timeline.recording());
  timeline.AddInstant(1, "nobody hears it");
  options.path = "/nowhere/at/all";
  EXPECT_CODE(timeline.Start(options), Code::kIo);
  EXPECT_OK(timeline.Stop());
}

TEST(LongNamesKeepTheirEnd) {
  TimelineRecord record;
  SetText(&record, std::string(200, 'a') + "/gradients12");
  const std::string text = TextOf(record);
  EXPECT_EQ(text.size(), sizeof(record.text));
  EXPECT_EQ(text.substr(0, 4), "...a");
  EXPECT_CONTAINS(text, "/gradients12");
}

}  // namespace
}  // namespace tfring::test
