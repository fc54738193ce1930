// A hash table whose values lie densely in order of their first use and are named by that position.
#pragma once
#include <cstdint>
#include <vector>

namespace cutaway {

template <typename Key, typename Value>
class Dense {
 public:
  struct Entry {
    Key key;
    Value value;

    template <class A>
    void members(A& a) {
      a(key, value);
    }
  };

  Dense() : slots_(64, 0) {}

  uint32_t find_or_add(const Key& key) {
    size_t at = key.hash() & (slots_.size() - 1);
    while (const uint32_t found = slots_[at]) {
      if (__builtin_expect(entries_[found - 1].key == key, 1)) return found - 1;
      at = (at + 1) & (slots_.size() - 1);
    }
    return add(key, at);
  }

  // Where it is, or kNowhere.
  uint32_t find(const Key& key) const {
    for (size_t at = key.hash();; ++at) {
      const uint32_t found = slots_[at & (slots_.size() - 1)];
      if (!found) return kNowhere;
      if (entries_[found - 1].key == key) return found - 1;
    }
  }
  static constexpr uint32_t kNowhere = UINT32_MAX;

  Value& operator[](uint32_t i) { return entries_[i].value; }
  const Value& operator[](uint32_t i) const { return entries_[i].value; }
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<Entry>& entries() { return entries_; }

  // Takes these in the place of what is there.
  void restore(std::vector<Entry> entries) {
    entries_ = std::move(entries);
    while (entries_.size() * 2 > slots_.size()) slots_.resize(slots_.size() * 2);
    index();
  }

 private:
  uint32_t add(const Key& key, size_t slot) {
    entries_.push_back({key, Value{}});
    slots_[slot] = static_cast<uint32_t>(entries_.size());
    if (entries_.size() * 2 > slots_.size()) grow();
    return static_cast<uint32_t>(entries_.size() - 1);
  }

  void grow() {
    slots_.resize(slots_.size() * 2);
    index();
  }

  void index() {
    slots_.assign(slots_.size(), 0);
    for (size_t i = 0; i < entries_.size(); ++i) {
      size_t at = entries_[i].key.hash() & (slots_.size() - 1);
      while (slots_[at]) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = static_cast<uint32_t>(i + 1);
    }
  }

  std::vector<uint32_t> slots_;  // position + 1
  std::vector<Entry> entries_;
};

inline uint64_t mix(uint64_t v) {
  v *= 0x9e3779b97f4a7c15ull;
  return v ^ v >> 29;
}

}  // namespace cutaway
