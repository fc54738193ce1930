// A row of tiny functions. Each knows its own number and hands it, with whatever stands in the first five
// integer registers, to the one hook. CPython's calling conventions (PyCFunction in all its flavours,
// vectorcall, getters, type slots) pass at most five integers or pointers and return one, so one kind of
// thunk serves all of them.
#pragma once
#include <cstdint>

namespace cutaway {

using Word = uintptr_t;
using Native = Word (*)(Word, Word, Word, Word, Word);

constexpr uint32_t kMaxTargets = 8192;

Native thunk(uint32_t index);  // index < kMaxTargets

Word hook(Word a, Word b, Word c, Word d, Word e, uint32_t index);

}  // namespace cutaway
