#include "sweep/cursor.h"

#include <algorithm>
#include <utility>

#include "sweep/blocked.h"
#include "sweep/namer.h"

namespace cutaway {

std::unique_ptr<Events> open_events(SharedFiles files, std::vector<Source> sources) {
  const uint32_t thread = sources.empty() ? kMaxId : sources.front().thread;
  auto records = std::make_unique<Cursor>(files, std::move(sources));
  auto events = std::make_unique<Blocked>(std::move(records), files, thread);
  if (!files->naming.usable()) return events;
  return std::make_unique<Namer>(std::move(events), std::move(files));
}

std::unique_ptr<Events> open_samples(SharedFiles files, std::vector<Source> sources) {
  return std::make_unique<Cursor>(std::move(files), std::move(sources));
}

// A segment may have been packed into a block meanwhile: both hold the same records.
void Cursor::follow(SharedFiles files, std::vector<Source> sources) {
  files_ = std::move(files);
  sources_ = std::move(sources);
  unpacker_.reset();
  open_ = false;
  follows_ = true;
  stopped_ = false;
  go_on();
}

// Behind what was read.
void Cursor::go_on() {
  next_source_ = 0;
  if (!begun_) return;
  while (next_source_ < sources_.size() && sources_[next_source_].seq < source_.seq) ++next_source_;
  if (next_source_ == sources_.size()) return;
  const Source& here = sources_[next_source_];
  resumes_ = here.seq == source_.seq;
  if (resumes_ && here.packed && taken_ >= here.count) {
    ++next_source_;
    resumes_ = false;
  }
}

// Records as events. Works on copies, which stay in registers, and writes them back at the end.
class Cursor::Converter {
 public:
  explicit Converter(Cursor& cursor)
      : cursor_(cursor),
        clock_(*cursor.clock_),
        out_(cursor.events_.data()),
        earliest_(std::max(cursor.before_, cursor.files_->first)),
        last_(cursor.files_->last) {}
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;
  ~Converter() {
    *cursor_.clock_ = clock_;
    cursor_.at_ = cursor_.events_.data();
    cursor_.end_ = out_;
    cursor_.counts_.events += static_cast<uint64_t>(out_ - cursor_.at_);
    if (out_ != cursor_.at_) cursor_.before_ = earliest_;
  }

  // Whether it has ended before `until`; if not, `begins` says when it begins.
  bool is_over(const Record& r, uint64_t until, uint64_t& begins) {
    begins = std::max(clock_.to_ns(r.time), earliest_);
    return clock_.to_ns(end_of(r)) < until;
  }

  // The event of the last record, until it is taken back; none if that made none.
  Event* last(const Event* before) { return out_ == before ? nullptr : out_ - 1; }
  const Event* end() const { return out_; }
  void take_back() { --out_; }

  void operator()(const Record& r) {
    uint64_t time = clock_.to_ns(r.time);
    uint64_t end = clock_.to_ns(end_of(r));
    if (__builtin_expect(time < earliest_ || end > last_, 0) && !put_right(time, end)) return;
    earliest_ = end;
    *out_++ = {time, end, r.value, r.tag};
  }

 private:
  // What goes back in time is moved to the time before; false for what cannot be.
  bool put_right(uint64_t& time, uint64_t& end) {
    if (time < cursor_.files_->first || end > last_) {
      ++cursor_.counts_.implausible;
      return false;
    }
    ++cursor_.counts_.disordered;
    time = earliest_;
    end = std::max(end, time);
    return true;
  }

  Cursor& cursor_;
  ClockWalk clock_;
  Event* out_;
  uint64_t earliest_, last_;
};

void Cursor::bound(uint64_t until, std::vector<Record> open) {
  until_ = until;
  unwritten_ = std::move(open);
}

bool Cursor::refill() {
  while (!stopped_) {
    if (!open_ && !open_source()) {
      std::vector<uint8_t>().swap(payload_);  // a run may have thousands of threads
      return announce();
    }
    read_window();
    if (at_ != end_) return true;
  }
  return false;
}

// A thread may be in a call for hours. It counts as entered when all that was written has been
// read.
bool Cursor::announce() {
  size_t n = 0;
  for (const Record& r : std::exchange(unwritten_, {})) {
    const uint64_t time = std::max(ClockWalk(files_->clocks[0]).to_ns(r.time), before_);
    if (time >= until_ || n == kWindow) break;
    const auto same = [&r](const Record& o) {
      return o.time == r.time && id_of(o.tag) == id_of(r.tag);
    };
    const bool written = r.time < end_of(last_) || same(last_);  // meanwhile
    if (written || std::any_of(announced_.begin(), announced_.end(), same)) continue;
    announced_.push_back(r);
    events_[n++] = {time, time, 0, r.tag};
    before_ = time;
  }
  at_ = events_.data();
  end_ = at_ + n;
  return n > 0;
}

// True if it was handed out before; of a call that is written whole, its end is left.
bool Cursor::is_announced(const Record& r, Event& event) {
  const Kind kind = kind_of(r.tag);
  if (kind != kEnter && kind != kCall) return false;
  const auto found = std::find_if(announced_.begin(), announced_.end(), [&](const Record& a) {
    return a.time == r.time && id_of(a.tag) == id_of(r.tag);
  });
  if (found == announced_.end()) return false;
  announced_.erase(found);
  counts_.events += kind == kEnter;
  if (kind == kEnter) return true;
  event = {event.end, event.end, 0, make_tag(kExit, id_of(r.tag))};
  return false;
}

void Cursor::save(Saver& to) {
  std::vector<Event> unread(at_, end_);
  to(unread, source_.seq, taken_, before_, begun_, counts_, announced_, last_);
}

void Cursor::load(Loader& from) {
  from(held_, source_.seq, taken_, before_, begun_, counts_, announced_, last_);
  at_ = held_.data();
  end_ = at_ + held_.size();
  go_on();
}

bool Cursor::open_source() {
  if (next_source_ == sources_.size()) return false;
  const Source& source = sources_[next_source_];
  file_.emplace(files_->paths[source.file]);
  if (follows_ && !file_->ok())
    return false;  // packed a moment ago: its block is there at the next look
  if (begun_ && source.seq > source_.seq) counts_.missing += source.seq - source_.seq - 1;
  const uint64_t skip = resumes_ ? taken_ : 0;
  resumes_ = false;
  source_ = source;
  ++next_source_;
  taken_ = 0;
  open_ = begun_ = true;
  clock_.emplace(files_->clocks[source_.clock < files_->clocks.size() ? source_.clock : 0]);
  if (!source_.packed) {
    taken_ = skip;
    return true;
  }
  if (!read_payload(*file_, source_, payload_)) {
    ++counts_.damaged;
    payload_.clear();
    source_.count = 0;
  }
  unpacker_ = std::make_unique<Unpacker>(payload_.data(), payload_.size(), source_.count);
  for (window_.resize(kWindow); taken_ < skip;) {
    const size_t n = unpacker_->fill(window_.data(), std::min<uint64_t>(kWindow, skip - taken_));
    if (!n) break;
    taken_ += n;
  }
  return true;
}

void Cursor::read_window() {
  const bool careful = is_careful();
  size_t n = 0;
  if (!unpacker_) {
    Source part = source_;
    part.offset += taken_ * sizeof(Record);
    part.count = static_cast<uint32_t>(std::min<uint64_t>(kWindow, source_.count - taken_));
    read_records(*file_, part, payload_, window_);
    n = careful ? window_.size() : convert_plain();
  } else if (careful) {
    window_.resize(kWindow);
    n = unpacker_->fill(window_.data(), kWindow);
    window_.resize(n);
  } else {
    n = convert_packed();
  }
  taken_ += n;
  if (careful) convert_carefully();
  if (n == kWindow) return;
  if (unpacker_) counts_.damaged += unpacker_->broken();
  unpacker_.reset();
  open_ = false;
}

bool Cursor::is_careful() const { return until_ != UINT64_MAX || !announced_.empty(); }

// Record by record, up to the first that has not ended: it is read again when more may be.
void Cursor::convert_carefully() {
  Converter convert(*this);
  for (size_t i = 0; i < window_.size(); ++i) {
    const Record& r = window_[i];
    if (!convert.is_over(r, until_, stopped_at_)) {
      taken_ -= window_.size() - i;
      stopped_ = true;
      return;
    }
    const Event* before = convert.end();
    convert(r);
    Event* event = convert.last(before);
    if (event && !announced_.empty() && is_announced(r, *event)) convert.take_back();
    last_ = r;
  }
}

size_t Cursor::convert_packed() {
  Converter convert(*this);
  return unpacker_->each(kWindow, [&convert](const Record& r) { convert(r); });
}

size_t Cursor::convert_plain() {
  Converter convert(*this);
  for (const Record& r : window_) convert(r);
  return window_.size();
}

}  // namespace cutaway
