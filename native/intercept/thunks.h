// A row of tiny functions. Each knows its own number and hands it, with whatever stands in the
// first five integer registers, to a hook. CPython's calling conventions (PyCFunction in all its
// flavours, vectorcall, getters, type slots) pass at most five integers or pointers and return one,
// so one kind of thunk serves all.
//
// Between two recorded calls the program runs through so much code of its own that nothing of ours
// is left in the caches; a page of code that is not in the TLB costs as much as all instructions of
// the hook. So what is called again and again moves to the first numbers (see promote in
// patch.cpp), whose thunks lie beside the hooks.
#pragma once
#include <cstdint>

namespace cutaway {

using Word = uintptr_t;
using Native = Word (*)(Word, Word, Word, Word, Word);

constexpr uint32_t kFirstSpecial = 128;  // before: hook; from here on: hook_special
constexpr uint32_t kFirstCold = 208;     // from here on: hook_cold
constexpr uint32_t kMaxTargets = 8400;

Native thunk(uint32_t index);  // index < kMaxTargets

#define CUTAWAY_HOT __attribute__((section("cutaway_hot"), visibility("hidden"), aligned(64)))
CUTAWAY_HOT Word hook(Word a, Word b, Word c, Word d, Word e, uint32_t index) asm("cutaway_hook");
CUTAWAY_HOT Word hook_special(Word a, Word b, Word c, Word d, Word e,
                              uint32_t index) asm("cutaway_hook_special");
__attribute__((visibility("hidden"))) Word hook_cold(Word a, Word b, Word c, Word d, Word e,
                                                     uint32_t index) asm("cutaway_hook_cold");

}  // namespace cutaway
