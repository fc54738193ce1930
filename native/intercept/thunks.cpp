// Compiled without padding between functions (see native/recorder/CMakeLists.txt): 11 bytes a thunk on
// x86-64. Spread out, the table costs a training program three times as much in instruction cache misses.
#include "intercept/thunks.h"

#include <array>
#include <cstddef>
#include <utility>

namespace cutaway {
namespace {

// Internal linkage keeps all of them in one section, side by side. The call is a tail call: no frame, so C++
// exceptions and stack traces pass as if the thunk were not there.
template <uint32_t Index>
Word numbered(Word a, Word b, Word c, Word d, Word e) {
  return hook(a, b, c, d, e, Index);
}

template <std::size_t... Index>
constexpr std::array<Native, sizeof...(Index)> row(std::index_sequence<Index...>) {
  return {{&numbered<Index>...}};
}

const std::array<Native, kMaxTargets> kThunks = row(std::make_index_sequence<kMaxTargets>{});

}  // namespace

Native thunk(uint32_t index) { return kThunks[index]; }

}  // namespace cutaway
