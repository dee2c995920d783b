#include "core/agreement.h"

#include <deque>
#include <utility>
#include <vector>

#include "collective/topology.h"
#include "test.h"

namespace tfring::test {
namespace {

struct Crowd {
  std::vector<Agreement> members;
  std::deque<std::pair<int, int>> under_way;  // from, to
  int sent = 0;

  explicit Crowd(int count) {
    for (int self = 0; self < count; ++self) members.emplace_back(self, count);
  }
  void Announce(int self) {
    for (int target : members[static_cast<size_t>(self)].TakeTargets()) {
      under_way.emplace_back(self, target);
      ++sent;
    }
  }
  // Latest first or earliest first; a member that has not submitted keeps what it hears.
  void Deliver(bool latest_first, const std::vector<char>& submitted) {
    while (!under_way.empty()) {
      const auto [from, to] = latest_first ? under_way.back() : under_way.front();
      latest_first ? under_way.pop_back() : under_way.pop_front();
      members[static_cast<size_t>(to)].Hear(from);
      if (submitted[static_cast<size_t>(to)]) Announce(to);
    }
  }
};

TEST(AgreementIsReachedWhenAllHaveSubmittedAndNotBefore) {
  for (const int count : {1, 2, 3, 8, 9, 16, 23, 64}) {
    for (const bool latest_first : {false, true}) {
      Crowd crowd(count);
      std::vector<char> submitted(static_cast<size_t>(count), 0);
      const int late = count / 2;
      for (int self = 0; self < count; ++self) {
        if (self == late) continue;
        submitted[static_cast<size_t>(self)] = 1;
        crowd.Announce(self);
      }
      crowd.Deliver(latest_first, submitted);
      for (const Agreement& member : crowd.members) {
        EXPECT_EQ(member.complete(), count == 1) << count << " members";
      }
      submitted[static_cast<size_t>(late)] = 1;
      crowd.Announce(late);
      crowd.Deliver(latest_first, submitted);
      for (const Agreement& member : crowd.members) EXPECT_TRUE(member.complete());
      const int each = count <= Agreement::kAllAtOnce ? count - 1 : CeilLog2(count);
      EXPECT_EQ(crowd.sent, count * each);
    }
  }
}

// One that needs to know makes all others take part.
TEST(AgreementBeginsWithAnyMember) {
  for (const int count : {2, 5, 8, 9, 33}) {
    Crowd crowd(count);
    crowd.Announce(count - 1);
    crowd.Deliver(false, std::vector<char>(static_cast<size_t>(count), 1));
    for (const Agreement& member : crowd.members) EXPECT_TRUE(member.complete());
  }
}

TEST(AgreementExpectsOnlyWhoAnnouncesToIt) {
  Agreement agreement(0, 16);
  for (int member = 1; member < 16; ++member) {
    const bool announces = member == 15 || member == 14 || member == 12 || member == 8;
    EXPECT_EQ(agreement.expects(member), announces);
    agreement.Hear(member);
    EXPECT_FALSE(agreement.expects(member));
  }
}

}  // namespace
}  // namespace tfring::test
