// What API calls and device work do to the threads of a process.
#include <algorithm>

#include "sweep/timeline.h"

namespace cutaway {

uint32_t Timeline::begin_api(const ApiCall& call, uint64_t number) {
  SweepThread& t = *threads[call.thread];
  note_cpu(call.start, call.end);
  advance(t, call.start);
  const uint32_t operation = call.operation ? call.operation : operation_of(t);
  if (t.cell != kNoCell) ++ledger.cells[t.cell].api_calls_made;
  ++t.made.api_calls;
  if (!t.active) enter_context(t);
  const uint32_t site =
      site_of(t, kApiCall + call.name, t.api.empty() ? t.layer : uint8_t{kAcceleratorApi});
  ++ledger.sites[site].count;
  if (t.api.empty()) conditions.hold_of(kOfApi, true, call.start);
  t.api.push_back({number, call.name, site});
  t.sync += call.flags & 1;
  settle(t, call.start);
  if (t.cell != kNoCell) ++ledger.cells[t.cell].api_calls;
  return operation;
}

void Timeline::end_api(const ApiCall& call, uint64_t number) {
  SweepThread& t = *threads[call.thread];
  advance(t, call.end);
  t.api.erase(std::find_if(t.api.begin(), t.api.end(),
                           [number](const OpenApi& open) { return open.number == number; }));
  if (t.api.empty()) conditions.hold_of(kOfApi, false, call.end);
  t.sync -= call.flags & 1;
  settle(t, call.end);
}

void Timeline::change_stream(uint32_t stream, bool ends, uint64_t time) {
  uint32_t& depth = stream_busy_[stream];
  depth += ends ? -1 : 1;
  if (depth != (ends ? 0 : 1)) return;
  busy_ += ends ? -1 : 1;
  conditions.had.hold(kHadDevice, !ends, time);
  conditions.hold_of(kOfDevice, !ends, time);
  const bool process_changed = busy_ == (ends ? 0 : 1);
  if (process_changed) advance_all(time);
  for (const uint32_t i : stream_threads_[stream]) {
    SweepThread& t = *threads[i];
    advance(t, time);
    t.busy += ends ? -1 : 1;
    settle(t, time);
  }
  if (process_changed)
    for (auto& t : threads) settle(*t, time);
}

bool Timeline::set_streams(std::vector<std::vector<uint32_t>> of, std::vector<uint32_t>& busy) {
  stream_busy_.resize(of.size());
  stream_threads_ = std::move(of);
  busy.assign(threads.size(), 0);
  for (size_t stream = 0; stream < stream_threads_.size(); ++stream)
    for (const uint32_t t : stream_threads_[stream]) busy[t] += stream_busy_[stream] > 0;
  return std::any_of(threads.begin(), threads.end(),
                     [&](const auto& t) { return t->busy != busy[t->index]; });
}

void Timeline::set_busy(const std::vector<uint32_t>& busy, uint64_t time) {
  for (auto& t : threads) {
    advance(*t, time);
    t->busy = busy[t->index];
    settle(*t, time);
  }
}

}  // namespace cutaway
