#include "sweep/live.h"

namespace cutaway {

LiveThread::LiveThread(const SharedFiles& files, std::vector<Source> sources, uint64_t width,
                       uint32_t count)
    : sweep_(files) {
  sweep_.goes_on = true;
  sweep_.slices.keep();
  sweep_.draw({Lanes::sliding(width, count)});
  sweep_.add_thread(0, open_events(files, std::move(sources)));
}

void LiveThread::follow(const SharedFiles& files, std::vector<Source> sources) {
  sweep_.timeline.files = files;
  sweep_.timeline.threads[0]->events->follow(files, std::move(sources));
  sweep_.run();
}

std::optional<LiveThread::State> LiveThread::now() const {
  const SweepThread& t = thread();
  if (t.cell == kNoCell) return {};
  const Cell& cell = sweep_.timeline.ledger.cells[t.cell];
  const ContextKey& who = sweep_.timeline.ledger.contexts.entries()[cell.context].key;
  return State{who.operation, static_cast<uint8_t>(cell.state >> 3)};
}

}  // namespace cutaway
