#include "intercept/patch.h"

#include <dlfcn.h>

#include <map>
#include <utility>

#include "intercept/locations.h"
#include "intercept/sites.h"

namespace cutaway {

Target targets[kMaxTargets];

namespace {

auto& descriptions = *new std::map<uint32_t, Description>;
uint32_t next_cold = kFirstCold, next_plain = 1, next_special = kFirstSpecial;  // 0 is never used
uint8_t least_of_new = 0;
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

PyMethodDef method_with(const PyMethodDef* method, uint32_t index) {
  return {method->ml_name, reinterpret_cast<PyCFunction>(thunk(index)), method->ml_flags,
          method->ml_doc};
}

bool patch_method(PyMethodDef** where, PyObject* holder, Role role, WaitOn on,
                  Description description) {
  if (is_known_location(reinterpret_cast<void**>(where))) return false;
  const Convention convention = convention_of((*where)->ml_flags);
  const uint32_t index = new_target(reinterpret_cast<Native>((*where)->ml_meth), role, convention,
                                    std::move(description));
  if (index == 0) return false;
  targets[index].on = on;
  Py_INCREF(holder);
  targets[index].method = method_with(*where, index);
  return add_location(reinterpret_cast<void**>(where), &targets[index].method,
                      role == Role::kWatched);
}

bool patch_getset(PyGetSetDescrObject* descriptor, Role role, const Description& description) {
  auto** where = reinterpret_cast<void**>(&descriptor->d_getset);
  if (is_known_location(where) || descriptor->d_getset->get == nullptr) return false;
  const PyGetSetDef* original = descriptor->d_getset;
  const uint32_t get = new_target(reinterpret_cast<Native>(original->get), Role::kPlain,
                                  Convention::kNone, description);
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
  const uint32_t index = new_target(reinterpret_cast<Native>(*where), role, Convention::kVectorcall,
                                    std::move(description));
  if (index == 0) return false;
  targets[index].on = on;
  Py_INCREF(object);
  return add_location(reinterpret_cast<void**>(where), address(thunk(index)),
                      role == Role::kWatched);
}

uint32_t shared_target(void* original, Role role, Convention convention,
                       const Description& description) {
  uint32_t& index = shared_targets[{original, description.layer + description.name}];
  if (index == 0)
    index = new_target(reinterpret_cast<Native>(original), role, convention, description);
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

Description& describe(uint32_t index) { return descriptions.at(index); }

uint32_t new_target(Native original, Role role, Convention convention, Description description) {
  if (next_cold == kMaxTargets) {
    ++refused_count;
    return 0;
  }
  descriptions[next_cold] = std::move(description);
  targets[next_cold] = {original,   kNowhere,     0, 0, 0, role, WaitOn::kNothing,
                        convention, least_of_new, {}};
  return next_cold++;
}

void promote(uint32_t index) {
  const Target& cold = targets[index];
  const bool plain = cold.role == Role::kPlain;
  uint32_t& next = plain ? next_plain : next_special;
  if (next == (plain ? kFirstSpecial : kFirstCold)) return;
  Target& hot = targets[next];
  hot = cold;
  hot.method.ml_meth = reinterpret_cast<PyCFunction>(thunk(next));
  const bool is_method = cold.method.ml_meth != nullptr;
  const bool moved = is_method
                         ? move_locations(address(&targets[index].method), address(&hot.method))
                         : move_locations(address(thunk(index)), address(thunk(next)));
  if (moved) descriptions[next++] = descriptions[index];
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
  least_of_new = least;
  const bool patched = find_and_patch(object, role, on, std::move(description));
  least_of_new = 0;
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
    // Never freed: a bound method made while armed keeps pointing to it.
    return add_location(reinterpret_cast<void**>(where),
                        new PyMethodDef(method_with(*where, index)));
  }
  vectorcallfunc* where = vectorcall_of(object);
  if (where == nullptr || lies_in_python(address(*where))) return false;
  description.name = std::move(name);
  void* const original = address(*where);
  for (const auto& [key, index] : shared_targets) {
    if (original == address(thunk(index))) return false;
  }
  const uint32_t index =
      shared_target(original, Role::kCompiled, Convention::kVectorcall, description);
  return index != 0 && add_weak_location(object, address(thunk(index)));
}

bool patch_callback(PyObject* function) {
  if (PyMethod_Check(function)) function = PyMethod_GET_FUNCTION(function);
  if (!PyFunction_Check(function)) return false;
  auto* original = address(*vectorcall_of(function));
  if (!lies_in_python(original)) return false;  // ours already, or somebody else's
  const uint32_t index = shared_target(original, Role::kCallback, Convention::kVectorcall,
                                       {"(callback)", "python", nullptr});
  return index != 0 && add_weak_location(function, address(thunk(index)));
}

}  // namespace cutaway
