#include "sweep/ledger.h"

#include <algorithm>
#include <utility>

namespace cutaway {

uint32_t Ledger::add_cell(uint32_t context, uint32_t state) {
  const auto at = static_cast<uint32_t>(cells.size());
  contexts[context].cells[state] = at;
  cells.push_back({});
  cells.back().context = context;
  cells.back().state = state;
  return at;
}

void Ledger::find_site(const ProcessFiles& files, RecentSite& recent, const SiteKey& key) {
  const uint8_t layer = files.layer_of(key.call);
  recent = {key.packed(), sites.find_or_add(key), layer, state_of(layer)};
}

Ledger::Moved Ledger::regroup(const std::function<uint32_t(uint32_t)>& slice_of) {
  Moved to;
  to.contexts = regroup_contexts(slice_of);
  to.cells = regroup_cells(to.contexts);
  to.sites = regroup_sites(to.contexts);
  const auto old_samples = std::exchange(samples, {}).entries();
  for (const auto& [key, count] : old_samples) {
    SampleKey moved = key;
    moved.context = to.contexts[key.context];
    samples[samples.find_or_add(moved)] += count;
  }
  const auto old_operations = std::exchange(operations, {}).entries();
  for (const auto& [key, all] : old_operations)
    operations[operations.find_or_add({key.operation, slice_of(key.slice)})].add(all);
  recent_sites_ = {};
  return to;
}

std::vector<uint32_t> Ledger::regroup_contexts(const std::function<uint32_t(uint32_t)>& slice_of) {
  std::vector<uint32_t> at;
  const auto old = std::exchange(contexts, {}).entries();
  for (const auto& entry : old) {
    ContextKey key = entry.key;
    key.slice = slice_of(key.slice);
    at.push_back(contexts.find_or_add(key));
  }
  return at;
}

std::vector<uint32_t> Ledger::regroup_cells(const std::vector<uint32_t>& context_at) {
  std::vector<uint32_t> at;
  for (const Cell& cell : std::exchange(cells, {})) {
    at.push_back(cell_of(context_at[cell.context], cell.state));
    cells[at.back()].add(cell);
  }
  return at;
}

std::vector<uint32_t> Ledger::regroup_sites(const std::vector<uint32_t>& context_at) {
  std::vector<uint32_t> at;
  const auto old = std::exchange(sites, {}).entries();
  for (const auto& entry : old) {
    SiteKey key = entry.key;
    key.context = context_at[key.context];
    at.push_back(sites.find_or_add(key));
    sites[at.back()].count += entry.value.count;
    sites[at.back()].ns += entry.value.ns;
  }
  return at;
}

bool Ledger::sound(size_t threads, size_t rows) const {
  const auto below = [](uint32_t at, size_t size) { return at == kNoCell || at < size; };
  const auto all = [](const auto& values, auto fine) {
    return std::all_of(std::begin(values), std::end(values), fine);
  };
  const size_t known = contexts.entries().size();
  const auto context_is_sound = [&](const auto& c) {
    return c.key.thread < threads &&
           all(c.value.cells, [&](uint32_t cell) { return below(cell, cells.size()); });
  };
  const auto cell_is_sound = [&](const Cell& c) {
    return c.context < known && c.state < kLayers << 3 && below(c.lanes[0], rows);
  };
  const auto site_is_sound = [&](const auto& s) {
    return s.key.context < known && s.key.from < kLayers;
  };
  const auto sample_is_sound = [&](const auto& s) {
    return s.key.context < known && s.key.layer < kLayers;
  };
  return all(contexts.entries(), context_is_sound) && all(cells, cell_is_sound) &&
         all(sites.entries(), site_is_sound) && all(samples.entries(), sample_is_sound) &&
         all(operations.entries(), [](const auto& o) { return o.value.sound(); });
}

}  // namespace cutaway
