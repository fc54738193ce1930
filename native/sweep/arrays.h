// Vectors become NumPy arrays without a copy; structures travel as bytes and get their dtype in
// Python.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <vector>

namespace cutaway {

template <typename T>
using Array = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;
template <typename T>
using Input =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Bytes = Array<uint8_t>;

template <typename T>
std::vector<T> values(const Input<T>& array) {
  return std::vector<T>(array.data(), array.data() + array.size());
}

// Structures that came as bytes.
template <typename T>
std::vector<T> structures(const Input<uint8_t>& bytes) {
  if (bytes.size() % sizeof(T))
    throw nanobind::value_error("size is no multiple of the structure's");
  const T* first = reinterpret_cast<const T*>(bytes.data());
  return std::vector<T>(first, first + bytes.size() / sizeof(T));
}

template <typename T>
Array<T> to_numpy(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array<T>(kept->data(), {kept->size()}, owner);
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const uint8_t*>(values.data());
  return to_numpy(std::vector<uint8_t>(first, first + values.size() * sizeof(T)));
}

}  // namespace cutaway
