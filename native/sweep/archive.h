// State as bytes and back. A class lists its members once, `template <class A> void members(A& a)`, and both
// directions use that list. What is loaded is not trusted: sizes are compared with the bytes that are there.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace cutaway {

class Saver {
 public:
  std::vector<uint8_t> bytes;

  template <typename... T>
  void operator()(T&... values) {
    (one(values), ...);
  }

 private:
  template <typename T>
  void one(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>, "list its members instead");
    raw(&value, sizeof value);
  }
  template <typename T>
  void one(const std::vector<T>& values) {
    const uint64_t n = values.size();
    raw(&n, sizeof n);
    raw(values.data(), n * sizeof(T));
  }
  void raw(const void* from, size_t n) {
    const auto* p = static_cast<const uint8_t*>(from);
    bytes.insert(bytes.end(), p, p + n);
  }
};

class Loader {
 public:
  Loader(const uint8_t* bytes, size_t n) : at_(bytes), end_(bytes + n) {}

  template <typename... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  bool ok() const { return ok_; }
  void require(bool condition) { ok_ &= condition; }

 private:
  template <typename T>
  void one(T& value) {
    static_assert(std::is_trivially_copyable_v<T>, "list its members instead");
    raw(&value, sizeof value);
  }
  template <typename T>
  void one(std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>, "list its members instead");
    uint64_t n = 0;
    raw(&n, sizeof n);
    ok_ &= n <= static_cast<size_t>(end_ - at_) / sizeof(T);
    values.resize(ok_ ? n : 0);
    raw(values.data(), values.size() * sizeof(T));
  }
  void raw(void* to, size_t n) {
    ok_ &= n <= static_cast<size_t>(end_ - at_);
    if (!ok_ || !n) return;
    memcpy(to, at_, n);
    at_ += n;
  }
  const uint8_t* at_;
  const uint8_t* end_;
  bool ok_ = true;
};

}  // namespace cutaway
