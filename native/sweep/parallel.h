// Work on all cores.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace cutaway {

inline size_t cores() { return std::max(1u, std::thread::hardware_concurrency()); }

// Calls `work` for each item. Whoever is free takes the next one, so nobody waits for another but
// at the end.
template <typename Item, typename Work>
void in_parallel(std::vector<Item>& items, Work work) {
  std::atomic<size_t> next{0};
  const auto take_turns = [&] {
    for (size_t i; (i = next++) < items.size();) work(items[i]);
  };
  std::vector<std::thread> others;
  while (others.size() + 1 < std::min(cores(), items.size())) others.emplace_back(take_turns);
  take_turns();
  for (auto& other : others) other.join();
}

}  // namespace cutaway
