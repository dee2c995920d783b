#include "core/agreement.h"

#include <algorithm>

namespace tfring {

Agreement::Agreement(int self, int count)
    : self_(self), count_(count), in_turn_(count > kAllAtOnce) {
  for (int distance = 1; distance < count; distance = in_turn_ ? 2 * distance : distance + 1) {
    distances_.push_back(distance);
  }
}

std::vector<int> Agreement::TakeTargets() {
  std::vector<int> targets;
  for (; sent_ < rounds(); ++sent_) {
    const uint32_t before = (uint32_t{1} << sent_) - 1;
    if (in_turn_ && (heard_ & before) != before) break;
    targets.push_back((self_ + distances_[static_cast<size_t>(sent_)]) % count_);
  }
  return targets;
}

int Agreement::RoundOf(int member) const {
  const int distance = (self_ - member + count_) % count_;
  const auto found = std::find(distances_.begin(), distances_.end(), distance);
  return found == distances_.end() ? -1 : static_cast<int>(found - distances_.begin());
}

void Agreement::Hear(int member) {
  const int round = RoundOf(member);
  if (round >= 0) heard_ |= uint32_t{1} << round;
}

bool Agreement::expects(int member) const {
  const int round = RoundOf(member);
  return round >= 0 && (heard_ & (uint32_t{1} << round)) == 0;
}

}  // namespace tfring
