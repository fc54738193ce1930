// What the rule that names unannotated time (namer.h) has to know of a process.
#pragma once
#include <cstdint>
#include <vector>

namespace cutaway {

// What a native call says about its neighbourhood; bits, by call id.
enum CallHint : uint8_t {
  kStores = 1,      // puts values into an array that is there
  kIsNetwork = 2,   // a layer of a network, or a compiled function
  kIsUpdate = 4,    // a compiled function with a gradient inside
  kIsPhysics = 8,   // layer simulator
  kBlocks = 16,     // layer wait
  kIsProgram = 32,  // a compiled function that is a whole training
  kAwaits = 64,     // waits for what a compiled function computes
};

// What the rule needs to know of a process. Ids of names; 0 if the process does not have them.
struct NamingFacts {
  uint32_t simulation = 0, inference = 0, backpropagation = 0, replay = 0, evaluation = 0,
           program = 0, compile = 0;
  std::vector<uint8_t> hints;         // by call id
  std::vector<uint8_t> environments;  // by number: 1 if it is not trained on

  bool usable() const { return simulation && inference && backpropagation && replay && evaluation; }
};

}  // namespace cutaway
