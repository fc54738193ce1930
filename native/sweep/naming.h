// What the rule that names unannotated time (namer.h) has to know of a process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cutaway {

constexpr size_t kRuleNames = 10;

// What the rule needs to know of a process. Ids of names; 0 if the process does not have them.
struct NamingFacts {
  uint32_t simulation = 0, inference = 0, backpropagation = 0, replay = 0, evaluation = 0,
           program = 0, compile = 0, sync = 0, search = 0, rollout = 0;
  std::vector<uint8_t> hints;      // by call id, bits of Hint
  std::vector<uint8_t> untrained;  // by number of an environment: 1 if it is not trained on

  bool usable() const { return simulation && inference && backpropagation && replay && evaluation; }
};

}  // namespace cutaway
