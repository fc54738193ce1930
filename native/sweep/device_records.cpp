#include "sweep/device_records.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

namespace cutaway {

namespace {

// Reads blocks one by one; `Record` is ApiRecord or DeviceRecord.
template <typename Record>
class BlockReader {
 public:
  BlockReader(SharedFiles files, const DevicePast& past) : files_(std::move(files)) {
    past_.until = past.until;
    past_.taken = past.taken;
  }

  // The records of a block in nanoseconds; how many were left out as damaged. What ends before it
  // starts (a broken clock) has no length. `left_only`: without those that are taken; one that came
  // too late begins where they end.
  uint64_t read(const Source& source, std::vector<Record>& out, bool left_only = true) {
    out.clear();
    late = 0;
    uint64_t damaged = 0;
    const uint64_t taken = past_.until ? past_.taken_of(source) : 0;
    if (!file_ || opened_ != source.file)
      file_ = std::make_unique<File>(files_->paths[opened_ = source.file]);
    if (!read_payload(*file_, source, payload_)) return 1;
    ClockWalk clock(files_->clocks[source.clock < files_->clocks.size() ? source.clock : 0]);
    for (size_t at = 0; at + sizeof(Record) <= payload_.size(); at += sizeof(Record)) {
      Record r;
      memcpy(&r, payload_.data() + at, sizeof r);
      r.start = clock.to_ns(r.start);
      r.end = clock.to_ns(r.end);
      if (r.start < files_->first || r.start > files_->last || r.end > files_->last) {
        ++damaged;
        continue;
      }
      if (left_only && r.start < past_.until) {
        if (at / sizeof(Record) < taken) continue;
        ++late;
        r.start = past_.until;
      }
      r.end = std::max(r.start, r.end);
      out.push_back(r);
    }
    return damaged;
  }
  uint64_t late = 0;  // in the last block

 private:
  SharedFiles files_;
  DevicePast past_;
  std::unique_ptr<File> file_;
  uint32_t opened_ = 0;
  std::vector<uint8_t> payload_;
};

uint64_t stream_of(const DeviceRecord& r) { return uint64_t{r.device} << 32 | r.stream; }

template <typename T>
uint32_t position(const std::vector<T>& sorted, const T& value) {
  return static_cast<uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), value) -
                               sorted.begin());
}

// Merges the blocks by start: one is opened as soon as the next span may lie in it.
template <typename Record, typename T>
class Merged final : public Spans<T>::Feed {
 public:
  struct Block {
    uint64_t first;
    Source source;
  };
  using Make = std::function<bool(const Record&, T&)>;  // false: to be left out

  // `blocks`: those that begin together stay in the order given.
  Merged(SharedFiles files, const DevicePast& past, std::vector<Block> blocks, uint64_t skip,
         Make make)
      : reader_(std::move(files), past),
        blocks_(std::move(blocks)),
        skip_(skip),
        make_(std::move(make)) {
    for (uint32_t i = 0; i < blocks_.size(); ++i) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
      return blocks_[a].first < blocks_[b].first;
    });
    spans_.resize(blocks_.size());
  }

  bool next(T& span) override {
    for (; skip_ && next_left(span); --skip_) {
    }
    return next_left(span);
  }

 private:
  bool next_left(T& span) {
    while (opened_ < order_.size() &&
           (heads_.empty() || blocks_[order_[opened_]].first <= heads_.top().start))
      open(order_[opened_++]);
    if (heads_.empty()) return false;
    const Head head = heads_.top();
    heads_.pop();
    auto& spans = spans_[head.block];
    span = spans[head.at];
    if (head.at + 1 < spans.size()) {
      heads_.push({spans[head.at + 1].start, head.block, head.at + 1});
    } else {
      std::vector<T>().swap(spans);  // gives its memory back
    }
    return true;
  }

  struct Head {
    uint64_t start;
    uint32_t block, at;
    bool operator>(const Head& o) const {
      return start != o.start ? start > o.start : block > o.block;
    }
  };

  void open(uint32_t block) {
    reader_.read(blocks_[block].source, records_);
    auto& spans = spans_[block];
    T span{};
    for (const Record& r : records_)
      if (make_(r, span)) spans.push_back(span);
    const auto earlier = [](const T& a, const T& b) { return a.start < b.start; };
    if (!std::is_sorted(spans.begin(), spans.end(), earlier))
      std::stable_sort(spans.begin(), spans.end(), earlier);
    if (!spans.empty()) heads_.push({spans[0].start, block, 0});
  }

  BlockReader<Record> reader_;
  std::vector<Block> blocks_;
  uint64_t skip_;  // the first so many are taken already
  Make make_;
  std::vector<uint32_t> order_;
  size_t opened_ = 0;
  std::vector<std::vector<T>> spans_;  // of each block, while it is open
  std::vector<Record> records_;
  std::priority_queue<Head, std::vector<Head>, std::greater<Head>> heads_;
};

}  // namespace

bool Correlations::add(uint64_t correlation, uint32_t thread) {
  const uint32_t known = thread_of(correlation);
  if (!correlation || known == thread) return true;
  if (known != kNobody) return false;
  auto& made = groups_[groups_.find_or_add(group_key(correlation))];
  auto own = std::find_if(made.begin(), made.end(),
                          [thread](const Made& m) { return m.thread == thread; });
  if (own == made.end()) own = made.insert(own, {thread, 0});
  own->members |= 1ull << (correlation % kCorrelationGroup);
  return true;
}

uint32_t Correlations::thread_of(uint64_t correlation) const {
  const uint32_t group = groups_.find(group_key(correlation));
  if (!correlation || group == groups_.kNowhere) return kNobody;
  if (!shared.empty())
    if (const auto found = shared.find(correlation); found != shared.end())
      return found->second.second;
  for (const Made& m : groups_[group])
    if (m.members >> (correlation % kCorrelationGroup) & 1) return m.thread;
  return kNobody;
}

// Of records that begin together, those of the first clock come first, then those that were written
// first.
DeviceRecords::DeviceRecords(SharedFiles files, std::vector<Source> sources, DevicePast past)
    : calls(past.calls),
      works(past.works),
      end(past.end),
      late(past.late),
      damage(past.damage),
      files_(std::move(files)),
      sources_(std::move(sources)),
      blocks_(sources_.size()),
      past_(std::move(past)) {
  std::stable_sort(sources_.begin(), sources_.end(),
                   [](const Source& a, const Source& b) { return a.clock < b.clock; });
  decltype(made_.shared) shared;
  std::set<uint32_t> callers(past_.threads.begin(), past_.threads.end());
  for (const auto& l : past_.launched) callers.insert(l.thread);
  for (const auto& m : past_.made) callers.insert(m.thread);
  const auto make = [&](uint64_t correlation, uint32_t thread) {
    if (!made_.add(correlation, thread)) shared.insert({correlation, {UINT64_MAX, thread}});
  };
  for (const auto& m : past_.made) make(m.correlation, m.thread);
  look_at<ApiRecord>(kApiStream, [&](const ApiRecord& r) {
    ++calls;
    callers.insert(r.os_thread);
    if (r.correlation) ++correlations[correlations.find_or_add(group_key(r.correlation))].calls;
    make(r.correlation, r.os_thread);
  });
  if (!shared.empty()) {
    const auto earlier = [&](uint64_t correlation, uint64_t start, uint32_t thread) {
      const auto found = shared.find(correlation);
      if (found != shared.end() && start < found->second.first) found->second = {start, thread};
    };
    for (const auto& m : past_.made) earlier(m.correlation, m.start, m.thread);
    BlockReader<ApiRecord> reader(files_, past_);
    std::vector<ApiRecord> records;
    for (const Source& source : sources_) {
      if (source.stream != kApiStream) continue;
      reader.read(source, records, false);
      for (const ApiRecord& r : records) earlier(r.correlation, r.start, r.os_thread);
    }
    made_.shared = std::move(shared);
  }
  threads.assign(callers.begin(), callers.end());
  std::set<uint64_t> used(past_.streams.begin(), past_.streams.end());
  std::set<std::pair<uint64_t, uint32_t>> pairs;
  for (const auto& l : past_.launched) {
    pairs.insert({l.stream, l.thread});
    used.insert(l.stream);
  }
  look_at<DeviceRecord>(kDeviceStream, [&](const DeviceRecord& r) {
    ++works;
    end = std::max(end, r.end);
    used.insert(stream_of(r));
    if (keeps_busy(r) && r.correlation)
      if (const uint32_t at = correlations.find(group_key(r.correlation));
          at != correlations.kNowhere)
        ++correlations[at].works;
    const uint32_t thread = keeps_busy(r) ? made_.thread_of(r.correlation) : Correlations::kNobody;
    if (thread != Correlations::kNobody) pairs.insert({stream_of(r), thread});
  });
  streams.assign(used.begin(), used.end());
  for (const auto& [stream, thread] : pairs)
    launched.emplace_back(position(streams, stream), position(threads, thread));
}

template <typename Record, typename Take>
void DeviceRecords::look_at(Stream stream, Take take) {
  BlockReader<Record> reader(files_, past_);
  std::vector<Record> records;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].stream != stream) continue;
    const auto known = std::find_if(damage.begin(), damage.end(), [&](const Damage& d) {
      return d.stream == stream && d.clock == sources_[i].clock;
    });
    Damage& found =
        known == damage.end() ? damage.emplace_back(Damage{stream, sources_[i].clock, 0}) : *known;
    Block& block = blocks_[i];
    found.count += block.damage = reader.read(sources_[i], records, false);
    block.count = records.size();
    for (const Record& r : records) take(r);
    if (past_.until) reader.read(sources_[i], records);
    late += reader.late;
    for (const Record& r : records) {
      block.first = std::min(block.first, r.start);
      block.last = std::max(block.last, r.start);
    }
  }
}

DevicePast DeviceRecords::taken(uint64_t until, uint64_t begun_calls, uint64_t begun_works,
                                std::vector<uint64_t>& done) const {
  DevicePast to = past_;
  to.until = until;
  to.begun_calls = begun_calls;
  to.begun_works = begun_works;
  to.taken.clear();
  to.late = late;
  to.end = end;
  to.threads = threads;
  to.streams = streams;
  to.launched.clear();
  for (const auto& [stream, thread] : launched)
    to.launched.push_back({streams[stream], threads[thread]});
  BlockReader<ApiRecord> reader(files_, past_);
  std::vector<ApiRecord> records;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    const bool grows = std::none_of(sources_.begin(), sources_.end(), [&source](const Source& o) {
      return o.stream == source.stream && o.clock == source.clock && o.offset > source.offset;
    });
    if (grows || (blocks_[i].first != UINT64_MAX && blocks_[i].last >= until)) {
      to.taken.push_back({source.offset, source.count});
      continue;
    }
    done.push_back(source.offset);
    (source.stream == kApiStream ? to.calls : to.works) += blocks_[i].count;
    const auto same = [&](const Damage& d) {
      return d.stream == source.stream && d.clock == source.clock;
    };
    const auto known = std::find_if(to.damage.begin(), to.damage.end(), same);
    Damage& found = known == to.damage.end()
                        ? to.damage.emplace_back(Damage{source.stream, source.clock, 0})
                        : *known;
    found.count += blocks_[i].damage;
    if (source.stream != kApiStream) continue;
    reader.read(source, records, false);
    for (const ApiRecord& r : records)
      if (r.correlation) to.made.push_back({r.correlation, r.start, r.os_thread});
  }
  constexpr size_t kMostMade = 1 << 15;
  std::stable_sort(to.made.begin(), to.made.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  if (to.made.size() > kMostMade)
    to.made.erase(to.made.begin(), to.made.end() - static_cast<std::ptrdiff_t>(kMostMade));
  return to;
}

template <typename Record, typename T, typename Make>
std::unique_ptr<typename Spans<T>::Feed> DeviceRecords::in_order(Stream stream, uint64_t skip,
                                                                 Make make) const {
  std::vector<typename Merged<Record, T>::Block> blocks;
  for (size_t i = 0; i < sources_.size(); ++i)
    if (sources_[i].stream == stream && blocks_[i].first != UINT64_MAX)
      blocks.push_back({blocks_[i].first, sources_[i]});
  return std::make_unique<Merged<Record, T>>(files_, past_, std::move(blocks), skip,
                                             std::move(make));
}

std::unique_ptr<Spans<ApiCall>::Feed> DeviceRecords::api(std::vector<uint32_t> thread_of) const {
  return in_order<ApiRecord, ApiCall>(
      kApiStream, past_.begun_calls,
      [threads = threads, thread_of = std::move(thread_of)](const ApiRecord& r, ApiCall& call) {
        const uint32_t at = position(threads, r.os_thread);
        if (at == threads.size() || threads[at] != r.os_thread)
          return false;  // the file has changed
        call = {r.start, r.end, r.correlation, thread_of[at], r.name, r.operation, r.flags};
        return true;
      });
}

std::unique_ptr<Spans<Work>::Feed> DeviceRecords::work(std::vector<uint32_t> stream_of) const {
  return in_order<DeviceRecord, Work>(
      kDeviceStream, past_.begun_works,
      [streams = streams, numbers = std::move(stream_of)](const DeviceRecord& r, Work& work) {
        const uint32_t at = position(streams, cutaway::stream_of(r));
        if (at == streams.size() || streams[at] != cutaway::stream_of(r)) return false;
        work = {r.start, r.end, keeps_busy(r) ? numbers[at] : kNoStream, r};
        return is_told(r);
      });
}

std::unique_ptr<Spans<DeviceRecord>::Feed> DeviceRecords::records() const {
  return in_order<DeviceRecord, DeviceRecord>(kDeviceStream, 0,
                                              [](const DeviceRecord& r, DeviceRecord& record) {
                                                record = r;
                                                return is_told(r);
                                              });
}

}  // namespace cutaway
