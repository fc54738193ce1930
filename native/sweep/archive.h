// State as bytes and back. A class lists its members once, `template <class A> void members(A& a)`,
// and both directions use that list. What is loaded is not trusted: sizes are compared with the
// bytes that are there.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "sweep/dense.h"

namespace cutaway {

template <class T, class A, class = void>
struct HasMembers : std::false_type {};
template <class T, class A>
struct HasMembers<T, A, std::void_t<decltype(std::declval<T&>().members(std::declval<A&>()))>>
    : std::true_type {};

class Saver {
 public:
  std::vector<uint8_t> bytes;

  template <typename... T>
  void operator()(T&... values) {
    (one(values), ...);
  }

 private:
  template <typename T>
  void one(T& value) {
    if constexpr (HasMembers<T, Saver>::value) {
      value.members(*this);
    } else {
      static_assert(std::is_trivially_copyable_v<T>, "list its members instead");
      raw(&value, sizeof value);
    }
  }
  template <typename T>
  void one(std::vector<T>& values) {
    const uint64_t n = values.size();
    raw(&n, sizeof n);
    if constexpr (std::is_trivially_copyable_v<T>) {
      raw(values.data(), n * sizeof(T));
    } else {
      for (T& value : values) one(value);
    }
  }
  template <typename K, typename V>
  void one(Dense<K, V>& table) {
    one(table.entries());
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
    if constexpr (HasMembers<T, Loader>::value) {
      value.members(*this);
    } else {
      static_assert(std::is_trivially_copyable_v<T>, "list its members instead");
      raw(&value, sizeof value);
    }
  }
  template <typename T>
  void one(std::vector<T>& values) {
    constexpr bool plain = std::is_trivially_copyable_v<T>;
    uint64_t n = 0;
    raw(&n, sizeof n);
    ok_ &= n <= static_cast<size_t>(end_ - at_) / (plain ? sizeof(T) : 1);
    values.clear();
    if constexpr (plain) {
      values.resize(ok_ ? n : 0);
      raw(values.data(), values.size() * sizeof(T));
    } else {
      for (; ok_ && n; --n) one(values.emplace_back());
    }
  }
  template <typename K, typename V>
  void one(Dense<K, V>& table) {
    std::vector<typename Dense<K, V>::Entry> entries;
    one(entries);
    table.restore(std::move(entries));
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
