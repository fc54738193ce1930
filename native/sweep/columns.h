// Tables of the sweep as columns, over the rows of all processes.
#pragma once
#include "sweep/arrays.h"
#include "sweep/run_sweep.h"

namespace cutaway {

// One row of a table, and whose it is.
template <typename T>
struct TableRow {
  const T& row;
  const ProcessSweep& sweep;
  uint32_t process, first_thread;
  ContextKey context(uint32_t i) const {
    ContextKey key = sweep.timeline.ledger.contexts.entries()[i].key;
    key.thread += first_thread;
    return key;
  }
};

// Builds one column after the other, of the rows of all processes.
template <typename RowsOf>
class Columns {
 public:
  Columns(RunSweep& run, RowsOf rows_of) : run_(run), rows_of_(rows_of) {}

  template <typename Get>
  void add(const char* name, Get get) {
    using T = std::decay_t<decltype(*rows_of_(*run_.processes[0]).begin())>;
    using Value = std::decay_t<decltype(get(std::declval<TableRow<T>>()))>;
    using Stored = std::conditional_t<std::is_same_v<Value, uint64_t>, int64_t, Value>;
    std::vector<Stored> out;
    for (uint32_t i = 0; i < run_.processes.size(); ++i)
      for (const auto& row : rows_of_(*run_.processes[i]))
        out.push_back(static_cast<Stored>(
            get(TableRow<T>{row, *run_.processes[i], i, run_.first_thread[i]})));
    dict[name] = to_numpy(std::move(out));
  }

  nanobind::dict dict;

 private:
  RunSweep& run_;
  RowsOf rows_of_;
};

}  // namespace cutaway
