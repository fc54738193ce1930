#include "intercept/operators.h"

#include <vector>

#include "intercept/sites.h"

namespace cutaway {
namespace {

// Never destroyed: hooks run until the very end of the process.
auto& libraries = *new std::vector<std::string>;

struct KnownFile {
  PyObject* name;  // held, so that its address means one file
  bool of_library;
};
constexpr size_t kKnownFiles = 2048;
KnownFile known_files[kKnownFiles];

bool lies_in_library(PyObject* file) {
  const char* path = PyUnicode_AsUTF8(file);
  if (path == nullptr) PyErr_Clear();
  for (const std::string& library : libraries)
    if (path != nullptr && library.compare(0, library.size(), path, 0, library.size()) == 0)
      return true;
  return false;
}

// All functions of a file share the object that names it.
bool is_library(const PyCodeObject* code) {
  PyObject* const file = code->co_filename;
  KnownFile& known = known_files[(reinterpret_cast<Word>(file) >> 4) % kKnownFiles];
  if (__builtin_expect(known.name != file, 0)) {
    const bool of_library = lies_in_library(file);
    Py_XDECREF(known.name);
    known = {Py_NewRef(file), of_library};
  }
  return known.of_library;
}

const char* instruction_outside() {
  for (const Frame* frame = running_frame(); frame != nullptr; frame = caller_of(frame)) {
    const PyCodeObject* code = code_of(frame);
    if (code != nullptr && !is_library(code)) return instruction_of(frame);
  }
  return current_instruction();  // a thread of the library's own
}

// Which operator it is: the hash of the name it is given, since the names of traced functions come
// and go.
Word identity_of(uint32_t index, PyObject* given) {
  const Target& target = targets[index];
  if (target.least == 0 || target.convention != Convention::kTuple) return 0;
  if (PyTuple_GET_SIZE(given) < target.least) return 0;
  PyObject* name = PyTuple_GET_ITEM(given, target.least - 1);
  if (!PyUnicode_CheckExact(name) && !PyBytes_CheckExact(name)) return 0;
  const Word identity = static_cast<Word>(PyObject_Hash(name));
  if (__builtin_expect(has_name(identity), 1)) return identity;
  PyObject* shown = PyObject_CallFunctionObjArgs(describe(index).observer, name, nullptr);
  const char* text = shown ? PyUnicode_AsUTF8(shown) : nullptr;
  if (text == nullptr) PyErr_Clear();
  name_shared(identity, text ? text : describe(index).name);
  Py_XDECREF(shown);
  return identity;
}

}  // namespace

void add_library(std::string path) {
  libraries.push_back(std::move(path));
  for (KnownFile& known : known_files) Py_CLEAR(known.name);
}

Word hook_operator(Word a, Word b, Word c, Word d, Word e, uint32_t index) {
  Thread* t = recording_thread();
  if (t == nullptr) return targets[index].original(a, b, c, d, e);
  const char* instruction = sites_wanted ? instruction_outside() : nullptr;
  OpenCall open(
      t, find_call_at(index, instruction, identity_of(index, reinterpret_cast<PyObject*>(b))));
  return targets[index].original(a, b, c, d, e);
}

}  // namespace cutaway
