// A field that one thread writes and others read meanwhile, without a lock. std::atomic would do,
// but its plain
// `=` is a full barrier, which a call must not pay for. Both forms here are ordinary moves on
// x86-64.
#pragma once

namespace cutaway {

template <typename T>
class Watched {
 public:
  Watched() = default;
  explicit Watched(T value) : value_(value) {}
  Watched(const Watched& other) : value_(other) {}
  Watched& operator=(const Watched& other) { return *this = static_cast<T>(other); }

  operator T() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  T operator->() const { return *this; }
  Watched& operator=(T value) {
    __atomic_store_n(&value_, value, __ATOMIC_RELAXED);
    return *this;
  }
  T operator++() { return *this = *this + 1; }
  T operator--() { return *this = *this - 1; }

  // Whoever looks at this value also sees everything that was written before it.
  void publish(T value) { __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }
  T look() const { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }

 private:
  T value_;
};

}  // namespace cutaway
