// What every intercepted call runs through.
#include "frameworks/rules.h"
#include "intercept/locations.h"
#include "intercept/patch.h"
#include "intercept/sites.h"
#include "intercept/sized.h"

namespace cutaway {

// Between two calls the program's own work empties the caches, so what this costs is how many cache
// lines it takes. Without call sites nothing is called before the original, and the arguments stay
// in their registers.
Word hook(Word a, Word b, Word c, Word d, Word e, uint32_t index) {
  const Target& target = targets[index];
  Thread* const t = current;
  if (__builtin_expect(t == nullptr || target.site != nullptr, 0))
    return hook_slowly(a, b, c, d, e, index);
  OpenCall open(t, target.called);
  return target.original(a, b, c, d, e);
}

Word hook_slowly(Word a, Word b, Word c, Word d, Word e, uint32_t index) {
  const Target& target = targets[index];
  Thread* t = recording_thread();
  if (__builtin_expect(t == nullptr, 0)) return target.original(a, b, c, d, e);
  OpenCall open(t, find_call(target, index));
  return target.original(a, b, c, d, e);
}

namespace {

constexpr uint32_t kOften = 64;

Word call_recorded(Word a, Word b, Word c, Word d, Word e, uint32_t index, const char* instruction,
                   Word identity) {
  Thread* t = recording_thread();
  if (t == nullptr) return targets[index].original(a, b, c, d, e);
  OpenCall open(t, find_call_at(index, instruction, identity));
  return targets[index].original(a, b, c, d, e);
}

static __thread PyObject* compiled;  // the innermost compiled function that runs

Word call_compiled(Word a, Word b, Word c, Word d, Word e, uint32_t index,
                   const char* instruction) {
  struct Running {
    explicit Running(PyObject* function) : before(compiled) { compiled = function; }
    ~Running() { compiled = before; }
    PyObject* const before;
  } running(reinterpret_cast<PyObject*>(a));
  ThreadState* t = stays_in_pause(compiled) ? this_thread() : nullptr;
  if (t) begin_update(t);
  const Word result = recorder.paused ? targets[index].original(a, b, c, d, e)
                                      : call_recorded(a, b, c, d, e, index, instruction, a);
  if (result && stays_in_pause(compiled)) change_weights(compiled);
  return result;
}

// Observers are ours: their errors must not reach the program.
void tell_observer(uint32_t index, PyObject* given, PyObject* made) {
  PyObject* nothing =
      given ? PyObject_CallFunctionObjArgs(describe(index).observer, given, made, nullptr)
            : nullptr;
  if (nothing == nullptr) PyErr_Clear();
  Py_XDECREF(nothing);
}

Word call_watched(Word a, Word b, Word c, Word d, Word e, uint32_t index, const char* instruction) {
  PyObject* given = arguments(targets[index].convention, a, b, c, d, e);
  if (given == nullptr) PyErr_Clear();
  if (targets[index].role == Role::kAwaited) tell_observer(index, given, Py_None);
  const Word result = recorder.paused ? targets[index].original(a, b, c, d, e)
                                      : call_recorded(a, b, c, d, e, index, instruction, 0);
  if (targets[index].role == Role::kWatched) {
    const bool sets =
        targets[index].convention == Convention::kSetter;  // returns an int, 0 for success
    PyObject* made = sets ? Py_None : reinterpret_cast<PyObject*>(result);
    if (sets ? static_cast<int>(result) == 0 : made != nullptr) tell_observer(index, given, made);
  }
  Py_XDECREF(given);
  return result;
}

// A thread of native code that was lent to Python (tf.py_function, a host callback of XLA) is given
// back: what it does until it comes again is no part of its traced life.
void give_back_thread() {
  Thread* t = current;
  if (t != nullptr && t->depth == 0 && PyEval_GetFrame() == nullptr)
    mark(t, ticks(), 0, make_tag(kEnd, 0));
}

// apply(cls, …) calls cls.forward back before it returns.
void expect_forward(PyObject* cls) {
  PyObject* forward = PyObject_GetAttrString(cls, "forward");
  if (forward == nullptr) {
    PyErr_Clear();
    return;
  }
  patch_callback(forward);
  Py_DECREF(forward);
}

}  // namespace

PyObject* compiled_updates(PyObject*, PyObject* given) {
  PyObject* function = given == Py_None ? compiled : given;
  if (!function) Py_RETURN_FALSE;
  ThreadState* t = this_thread();
  stay_in_pause(function);
  if (t) begin_update(t);
  if (given != Py_None) change_weights(given);  // nothing sees this call end
  Py_RETURN_TRUE;
}

PyObject* running_compiled(PyObject*, PyObject*) {
  return Py_NewRef(compiled ? compiled : Py_None);
}

// What is called again and again gets a hot thunk.
Word hook_cold(Word a, Word b, Word c, Word d, Word e, uint32_t index) {
  if (++targets[index].calls == kOften) promote(index);
  return targets[index].role == Role::kPlain ? hook_slowly(a, b, c, d, e, index)
                                             : hook_special(a, b, c, d, e, index);
}

// Small arrays are frequent, the rest is not.
Word hook_special(Word a, Word b, Word c, Word d, Word e, uint32_t index) {
  const Target& target = targets[index];
  const bool by_size = target.role == Role::kSized || target.role == Role::kSubscript;
  if (by_size && !is_large(target, a, b, c, d)) return target.original(a, b, c, d, e);
  return hook_rare(a, b, c, d, e, index);
}

Word hook_rare(Word a, Word b, Word c, Word d, Word e, uint32_t index) {
  const Target& target = targets[index];
  if (target.role == Role::kFeed) return hook_feed(a, b, c, d, e, index);
  if (target.role == Role::kOperator) return hook_operator(a, b, c, d, e, index);
  const char* instruction = sites_wanted ? current_instruction() : nullptr;
  switch (target.role) {
    case Role::kWait:
      return hook_wait(a, b, c, d, e, index);
    case Role::kWatched:
    case Role::kAwaited:
      return call_watched(a, b, c, d, e, index, instruction);
    case Role::kCallback: {
      const Word code = reinterpret_cast<Word>(PyFunction_GetCode(reinterpret_cast<PyObject*>(a)));
      const Word result = call_recorded(a, b, c, d, e, index, nullptr, code);
      give_back_thread();
      return result;
    }
    case Role::kCompiled:
      return call_compiled(a, b, c, d, e, index, instruction);
    case Role::kShared:
      return call_recorded(a, b, c, d, e, index, instruction, a);
    case Role::kApply:
      expect_forward(reinterpret_cast<PyObject*>(a));
      break;
    case Role::kFeed:
    case Role::kOperator:
    case Role::kSized:
    case Role::kSubscript:
    case Role::kPlain:
      break;
  }
  return call_recorded(a, b, c, d, e, index, instruction, 0);
}

PyObject* arguments(Convention convention, Word a, Word b, Word c, Word d, Word e) {
  PyObject* const* values = nullptr;
  Py_ssize_t count = 0;
  PyObject* names = nullptr;
  switch (convention) {
    case Convention::kNone:
      return PyTuple_New(0);
    case Convention::kSetter:
      if (b == 0) return PyTuple_New(0);  // del
      return PyTuple_Pack(1, reinterpret_cast<PyObject*>(b));
    case Convention::kOne:
      return PyTuple_Pack(1, reinterpret_cast<PyObject*>(b));
    case Convention::kTuple:
      return Py_NewRef(reinterpret_cast<PyObject*>(b));
    case Convention::kVectorcall:
    case Convention::kFast:
      values = reinterpret_cast<PyObject* const*>(b);
      count = PyVectorcall_NARGS(c);
      names = reinterpret_cast<PyObject*>(d);
      break;
    case Convention::kMethod:
      values = reinterpret_cast<PyObject* const*>(c);
      count = PyVectorcall_NARGS(d);
      names = reinterpret_cast<PyObject*>(e);
      break;
  }
  (void)a;
  if (names != nullptr && convention == Convention::kVectorcall) count += PyTuple_GET_SIZE(names);
  PyObject* tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple != nullptr && i < count; ++i)
    PyTuple_SET_ITEM(tuple, i, Py_NewRef(values[i]));
  return tuple;
}

}  // namespace cutaway
