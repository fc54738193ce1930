#include "sweep/device_records.h"

#include <algorithm>
#include <functional>
#include <set>

namespace cutaway {

namespace {

// Reads blocks one by one; `Record` is ApiRecord or DeviceRecord.
template <typename Record>
class BlockReader {
 public:
  explicit BlockReader(SharedFiles files) : files_(std::move(files)) {}

  // The records of a block in nanoseconds; how many were left out as damaged. What ends before it starts (a
  // broken clock) has no length.
  uint64_t read(const Source& source, std::vector<Record>& out) {
    out.clear();
    if (!file_ || opened_ != source.file)
      file_ = std::make_unique<File>(files_->paths[opened_ = source.file]);
    if (!read_payload(*file_, source, payload_)) return 1;
    ClockWalk clock(files_->clocks[source.clock < files_->clocks.size() ? source.clock : 0]);
    for (size_t at = 0; at + sizeof(Record) <= payload_.size(); at += sizeof(Record)) {
      Record r;
      memcpy(&r, payload_.data() + at, sizeof r);
      r.start = clock.to_ns(r.start);
      r.end = clock.to_ns(r.end);
      if (r.start < files_->first || r.start > files_->last || r.end > files_->last) continue;
      r.end = std::max(r.start, r.end);
      out.push_back(r);
    }
    return payload_.size() / sizeof(Record) - out.size();
  }

 private:
  SharedFiles files_;
  std::unique_ptr<File> file_;
  uint32_t opened_ = 0;
  std::vector<uint8_t> payload_;
};

uint64_t stream_of(const DeviceRecord& r) { return uint64_t{r.device} << 32 | r.stream; }

template <typename T>
uint32_t position(const std::vector<T>& sorted, const T& value) {
  return static_cast<uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
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
  Merged(SharedFiles files, std::vector<Block> blocks, Make make)
      : reader_(std::move(files)), blocks_(std::move(blocks)), make_(std::move(make)) {
    for (uint32_t i = 0; i < blocks_.size(); ++i) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(),
                     [this](uint32_t a, uint32_t b) { return blocks_[a].first < blocks_[b].first; });
    spans_.resize(blocks_.size());
  }

  bool next(T& span) override {
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

 private:
  struct Head {
    uint64_t start;
    uint32_t block, at;
    bool operator>(const Head& o) const { return start != o.start ? start > o.start : block > o.block; }
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
  Make make_;
  std::vector<uint32_t> order_;
  size_t opened_ = 0;
  std::vector<std::vector<T>> spans_;  // of each block, while it is open
  std::vector<Record> records_;
  std::priority_queue<Head, std::vector<Head>, std::greater<Head>> heads_;
};

template <typename Record, typename T>
std::unique_ptr<Merged<Record, T>> merged(const SharedFiles& files, const std::vector<Source>& sources,
                                          const std::vector<uint64_t>& first, Stream stream,
                                          typename Merged<Record, T>::Make make) {
  std::vector<typename Merged<Record, T>::Block> blocks;
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i].stream == stream && first[i] != UINT64_MAX) blocks.push_back({first[i], sources[i]});
  return std::make_unique<Merged<Record, T>>(files, std::move(blocks), std::move(make));
}

}  // namespace

bool Correlations::add(uint64_t correlation, uint32_t thread) {
  const uint32_t known = thread_of(correlation);
  if (!correlation || known == thread) return true;
  if (known != kNobody) return false;
  auto& made = groups_[groups_.find_or_add(group_key(correlation))];
  auto own = std::find_if(made.begin(), made.end(), [thread](const Made& m) { return m.thread == thread; });
  if (own == made.end()) own = made.insert(own, {thread, 0});
  own->members |= 1ull << (correlation % kCorrelationGroup);
  return true;
}

uint32_t Correlations::thread_of(uint64_t correlation) const {
  const uint32_t group = groups_.find(group_key(correlation));
  if (!correlation || group == groups_.kNowhere) return kNobody;
  if (!shared.empty())
    if (const auto found = shared.find(correlation); found != shared.end()) return found->second.second;
  for (const Made& m : groups_[group])
    if (m.members >> (correlation % kCorrelationGroup) & 1) return m.thread;
  return kNobody;
}

// Of records that begin together, those of the first clock come first, then those that were written first.
DeviceRecords::DeviceRecords(SharedFiles files, std::vector<Source> sources)
    : files_(std::move(files)), sources_(std::move(sources)), first_(sources_.size(), UINT64_MAX) {
  std::stable_sort(sources_.begin(), sources_.end(),
                   [](const Source& a, const Source& b) { return a.clock < b.clock; });
  Correlations made;
  decltype(made.shared) shared;
  std::set<uint32_t> callers;
  look_at<ApiRecord>(kApiStream, [&](const ApiRecord& r) {
    ++calls;
    callers.insert(r.os_thread);
    if (r.correlation) ++correlations[correlations.find_or_add(group_key(r.correlation))].calls;
    if (!made.add(r.correlation, r.os_thread)) shared.insert({r.correlation, {UINT64_MAX, r.os_thread}});
  });
  if (!shared.empty()) {
    const auto found_damage = damage;
    look_at<ApiRecord>(kApiStream, [&](const ApiRecord& r) {
      const auto found = shared.find(r.correlation);
      if (found != shared.end() && r.start < found->second.first) found->second = {r.start, r.os_thread};
    });
    damage = found_damage;
    made.shared = std::move(shared);
  }
  threads.assign(callers.begin(), callers.end());
  std::set<uint64_t> used;
  std::set<std::pair<uint64_t, uint32_t>> pairs;
  look_at<DeviceRecord>(kDeviceStream, [&](const DeviceRecord& r) {
    ++works;
    end = std::max(end, r.end);
    used.insert(stream_of(r));
    if (keeps_busy(r) && r.correlation)
      if (const uint32_t at = correlations.find(group_key(r.correlation)); at != correlations.kNowhere)
        ++correlations[at].works;
    const uint32_t thread = keeps_busy(r) ? made.thread_of(r.correlation) : Correlations::kNobody;
    if (thread != Correlations::kNobody) pairs.insert({stream_of(r), thread});
  });
  streams.assign(used.begin(), used.end());
  for (const auto& [stream, thread] : pairs)
    launched.emplace_back(position(streams, stream), position(threads, thread));
}

template <typename Record, typename Take>
void DeviceRecords::look_at(Stream stream, Take take) {
  BlockReader<Record> reader(files_);
  std::vector<Record> records;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].stream != stream) continue;
    if (damage.empty() || damage.back().stream != stream || damage.back().clock != sources_[i].clock)
      damage.push_back({stream, sources_[i].clock, 0});
    damage.back().count += reader.read(sources_[i], records);
    for (const Record& r : records) {
      first_[i] = std::min(first_[i], r.start);
      take(r);
    }
  }
}

std::unique_ptr<Spans<ApiCall>::Feed> DeviceRecords::api(std::vector<uint32_t> thread_of) const {
  return merged<ApiRecord, ApiCall>(
      files_, sources_, first_, kApiStream,
      [threads = threads, thread_of = std::move(thread_of)](const ApiRecord& r, ApiCall& call) {
        const uint32_t at = position(threads, r.os_thread);
        if (at == threads.size() || threads[at] != r.os_thread) return false;  // the file has changed
        call = {r.start, r.end, r.correlation, thread_of[at], r.name, r.operation, r.flags};
        return true;
      });
}

std::unique_ptr<Spans<Work>::Feed> DeviceRecords::work() const {
  return merged<DeviceRecord, Work>(
      files_, sources_, first_, kDeviceStream, [streams = streams](const DeviceRecord& r, Work& work) {
        const uint32_t at = position(streams, stream_of(r));
        work = {r.start, r.end, at};
        return keeps_busy(r) && at < streams.size() && streams[at] == stream_of(r);
      });
}

std::unique_ptr<Spans<DeviceRecord>::Feed> DeviceRecords::records() const {
  return merged<DeviceRecord, DeviceRecord>(files_, sources_, first_, kDeviceStream,
                                            [](const DeviceRecord& r, DeviceRecord& record) {
                                              record = r;
                                              return true;
                                            });
}

}  // namespace cutaway
