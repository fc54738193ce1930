#include "intercept/patch.h"

#include <dlfcn.h>

#include <map>
#include <utility>
#include <vector>

#include "intercept/locations.h"
#include "intercept/sites.h"

namespace cutaway {

Target targets[kMaxTargets];

namespace {

auto& descriptions = *new std::vector<Description>(1);
auto& shared_targets = *new std::map<std::pair<void*, std::string>, uint32_t>;
uint32_t refused_count = 0;

template <class F>
void* address(F function) {
  return reinterpret_cast<void*>(function);
}

Convention convention_of(int flags) {
  if (flags & METH_METHOD) return Convention::kMethod;
  if (flags & METH_FASTCALL) return Convention::kFast;
  if (flags & METH_VARARGS) return Convention::kTuple;
  if (flags & METH_O) return Convention::kOne;
  return Convention::kNone;
}

// Copies are never freed: a bound method made while armed keeps pointing to the copy.
PyMethodDef* copy_with(const PyMethodDef* method, uint32_t index) {
  auto* copy = new PyMethodDef(*method);
  copy->ml_meth = reinterpret_cast<PyCFunction>(thunk(index));
  return copy;
}

bool patch_method(PyMethodDef** where, PyObject* holder, Role role, WaitOn on, Description description) {
  if (is_known_location(reinterpret_cast<void**>(where))) return false;
  const Convention convention = convention_of((*where)->ml_flags);
  const uint32_t index =
      new_target(reinterpret_cast<Native>((*where)->ml_meth), role, convention, std::move(description));
  if (index == 0) return false;
  targets[index].on = on;
  Py_INCREF(holder);
  return add_location(reinterpret_cast<void**>(where), copy_with(*where, index));
}

bool patch_getset(PyGetSetDescrObject* descriptor, Role role, const Description& description) {
  auto** where = reinterpret_cast<void**>(&descriptor->d_getset);
  if (is_known_location(where) || descriptor->d_getset->get == nullptr) return false;
  const PyGetSetDef* original = descriptor->d_getset;
  const uint32_t get =
      new_target(reinterpret_cast<Native>(original->get), Role::kPlain, Convention::kNone, description);
  if (get == 0) return false;
  auto* copy = new PyGetSetDef(*original);
  copy->get = reinterpret_cast<getter>(thunk(get));
  if (original->set != nullptr) {
    Description of_set = description;
    of_set.name += "=";
    const uint32_t set =
        new_target(reinterpret_cast<Native>(original->set), role, Convention::kSetter, of_set);
    if (set != 0) copy->set = reinterpret_cast<setter>(thunk(set));
  }
  Py_INCREF(descriptor);
  return add_location(where, copy);
}

bool patch_vectorcall(PyObject* object, Role role, WaitOn on, Description description) {
  vectorcallfunc* where = vectorcall_of(object);
  if (where == nullptr || is_known_location(reinterpret_cast<void**>(where))) return false;
  if (lies_in_python(address(*where))) return false;  // Python functions, bound methods, types
  const uint32_t index =
      new_target(reinterpret_cast<Native>(*where), role, Convention::kVectorcall, std::move(description));
  if (index == 0) return false;
  targets[index].on = on;
  Py_INCREF(object);
  return add_location(reinterpret_cast<void**>(where), address(thunk(index)));
}

uint32_t shared_target(void* original, Role role, Convention convention, const Description& description) {
  uint32_t& index = shared_targets[{original, description.layer + description.name}];
  if (index == 0) index = new_target(reinterpret_cast<Native>(original), role, convention, description);
  return index;
}

bool find_and_patch(PyObject* object, Role role, WaitOn on, Description description) {
  if (PyCFunction_Check(object)) {
    return patch_method(&reinterpret_cast<PyCFunctionObject*>(object)->m_ml, object, role, on,
                        std::move(description));
  }
  if (Py_IS_TYPE(object, &PyMethodDescr_Type) || Py_IS_TYPE(object, &PyClassMethodDescr_Type)) {
    return patch_method(&reinterpret_cast<PyMethodDescrObject*>(object)->d_method, object, role, on,
                        std::move(description));
  }
  if (Py_IS_TYPE(object, &PyGetSetDescr_Type)) {
    return patch_getset(reinterpret_cast<PyGetSetDescrObject*>(object), role, description);
  }
  return patch_vectorcall(object, role, on, std::move(description));
}

}  // namespace

Description& describe(uint32_t index) { return descriptions[index]; }

uint32_t new_target(Native original, Role role, Convention convention, Description description) {
  if (descriptions.size() >= kMaxTargets) {
    ++refused_count;
    return 0;
  }
  const auto index = static_cast<uint32_t>(descriptions.size());
  descriptions.push_back(std::move(description));
  targets[index] = {original, 0, role, WaitOn::kNothing, convention, 0};
  return index;
}

uint32_t refused() { return refused_count; }

bool lies_in_python(const void* function) {
  static const void* const python = [] {
    Dl_info info{};
    dladdr(address(&PyObject_Call), &info);
    return info.dli_fbase;
  }();
  Dl_info info{};
  return dladdr(function, &info) == 0 || info.dli_fbase == python;
}

bool patch_object(PyObject* object, Role role, WaitOn on, Description description, uint8_t least) {
  const size_t first = descriptions.size();
  const bool patched = find_and_patch(object, role, on, std::move(description));
  for (size_t index = first; index < descriptions.size(); ++index) targets[index].least = least;
  return patched;
}

bool patch_shared(PyObject* object, Description description) {
  std::string name = std::move(description.name);
  if (PyCFunction_Check(object)) {
    auto** where = &reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
    if (is_known_location(reinterpret_cast<void**>(where))) return false;
    description.name = "(operator)";
    const uint32_t index = shared_target(address((*where)->ml_meth), Role::kShared,
                                         convention_of((*where)->ml_flags), description);
    if (index == 0) return false;
    name_shared(reinterpret_cast<Word>(reinterpret_cast<PyCFunctionObject*>(object)->m_self),
                std::move(name));
    Py_INCREF(object);
    return add_location(reinterpret_cast<void**>(where), copy_with(*where, index));
  }
  vectorcallfunc* where = vectorcall_of(object);
  if (where == nullptr || lies_in_python(address(*where))) return false;
  description.name = std::move(name);
  void* const original = address(*where);
  for (const auto& [key, index] : shared_targets) {
    if (original == address(thunk(index))) return false;
  }
  const uint32_t index = shared_target(original, Role::kCompiled, Convention::kVectorcall, description);
  return index != 0 && add_weak_location(object, address(thunk(index)));
}

bool patch_callback(PyObject* function) {
  if (PyMethod_Check(function)) function = PyMethod_GET_FUNCTION(function);
  if (!PyFunction_Check(function)) return false;
  auto* original = address(reinterpret_cast<PyFunctionObject*>(function)->vectorcall);
  if (!lies_in_python(original)) return false;  // ours already, or somebody else's
  const uint32_t index =
      shared_target(original, Role::kCallback, Convention::kVectorcall, {"(callback)", "python", nullptr});
  return index != 0 && add_weak_location(function, address(thunk(index)));
}

}  // namespace cutaway
