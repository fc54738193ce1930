#include "intercept/thunks.h"

#if defined(__x86_64__)

// 11 bytes each, without padding: the number goes into the register of a sixth argument, and on to
// the hook. A jump leaves no frame, so C++ exceptions and stack traces pass as if the thunk were
// not there.
#define ROW(first, last, hook)  \
  "  .set number, " first       \
  "\n"                          \
  "  .rept " last " - " first   \
  "\n"                          \
  "  .byte 0x41, 0xb9\n"        \
  "  .long number\n"            \
  "  .byte 0xe9\n"              \
  "  .long " hook               \
  " - . - 4\n"                  \
  "  .set number, number + 1\n" \
  "  .endr\n"

static_assert(cutaway::kFirstSpecial == 128 && cutaway::kFirstCold == 208 &&
                  cutaway::kMaxTargets == 8400,
              "the numbers below");
asm("  .pushsection cutaway_hot, \"ax\", @progbits\n"
    "cutaway_thunks:\n" ROW("0", "128", "cutaway_hook") ROW("128", "208", "cutaway_hook_special")
        ROW("208", "8400", "cutaway_hook_cold") "  .popsection\n");

extern "C" __attribute__((visibility("hidden"))) const char cutaway_thunks[];

namespace cutaway {

Native thunk(uint32_t index) { return reinterpret_cast<Native>(cutaway_thunks + 11 * index); }

}  // namespace cutaway

#else

#include <array>
#include <cstddef>
#include <utility>

namespace cutaway {
namespace {

template <uint32_t Index>
Word numbered(Word a, Word b, Word c, Word d, Word e) {
  if (Index < kFirstSpecial) return hook(a, b, c, d, e, Index);
  return Index < kFirstCold ? hook_special(a, b, c, d, e, Index) : hook_cold(a, b, c, d, e, Index);
}

template <std::size_t... Index>
constexpr std::array<Native, sizeof...(Index)> row(std::index_sequence<Index...>) {
  return {{&numbered<Index>...}};
}

const std::array<Native, kMaxTargets> kThunks = row(std::make_index_sequence<kMaxTargets>{});

}  // namespace

Native thunk(uint32_t index) { return kThunks[index]; }

}  // namespace cutaway

#endif
