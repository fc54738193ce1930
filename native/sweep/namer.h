// Names what has no operation of its own by what it leads to, from the marks of the recorder. It
// stands between the records of a thread and everybody who reads them: events come out as they are,
// with operations entered and left between them. docs/naming.md gives the rule in words.
//
// Anchors are calls whose purpose is known: simulation, the calls of an update, evaluation. What
// lies between two anchors, a stretch, is held back until the second one is known, and then
// divided.
#pragma once
#include <memory>
#include <vector>

#include "sweep/relay.h"

namespace cutaway {

constexpr uint64_t kIdle = 100000;  // ns

class Namer final : public Relay {
 public:
  Namer(std::unique_ptr<Events> events, SharedFiles files)
      : Relay(std::move(events), std::move(files)), facts_(&files_->naming) {}

  // What is held back then is named when it is known what it leads to.
  void follow(SharedFiles files, std::vector<Source> sources) override;
  uint64_t frontier() const override;

 protected:
  bool refill() override;
  void save_own(Saver& to) override { members(to); }
  void load_own(Loader& from) override;

 private:
  // What bounds a stretch. Ends: the thread or what is known of it; breaks: a pause, or too many
  // events.
  enum class Anchor : uint8_t { kEnds, kBreaks, kStep, kUpdate, kEvaluation };
  struct Place {  // in the stretch: before the event at this position
    size_t at = SIZE_MAX;
    uint64_t time = 0;
    explicit operator bool() const { return at != SIZE_MAX; }
  };
  struct Part {  // from here to the next part; name 0: nothing is said about it
    Place from;
    uint32_t name;
    Why why;
  };
  struct Nested {
    uint32_t name;
    bool absorbed;  // by the part around it, which says the same
  };

  // namer.cpp: which anchor comes, and what lies before it.
  static bool is_call(const Event& e) { return kind_of(e.tag) >= kCall && kind_of(e.tag) <= kExit; }
  bool is_plain(const Event& e) const { return kind_of(e.tag) == kCall && !waits(e); }
  const Event* end_of_plain(const Event* e, const Event* last) const;
  void pass(const Event* first, const Event* last);
  void take(const Event& e);
  void take_outside(const Event& e);
  void break_stretch(uint64_t next);
  void take_call(const Event& e);
  void take_mark(const Event& e);
  uint32_t name_of(uint8_t hint) const;
  void launch(uint8_t hint);
  void await(const Event& e);
  void take_operation(const Event& e);
  uint64_t start_of(const Event& e) const;
  void take_inside(const Event& e);
  void take_inside_anchor(const Event& e);
  void forget(uint32_t name);
  void begin_anchor(Anchor anchor, uint32_t name, Why why, uint64_t time);
  void end_anchor(uint64_t time);
  void start_stretch(Anchor left, bool annotated, uint64_t time);
  bool evaluates() const;
  // A whole call that waits but a moment is one for a lock, not for work.
  bool waits(const Event& e) const {
    return (hint_of(id_of(e.tag)) & kBlocksHint) &&
           (kind_of(e.tag) != kCall || e.end - e.time >= kIdle);
  }
  static bool is_blocked(uint32_t call) { return call >= kBlockedCall && call < kGilCall; }
  uint8_t hint_of(uint32_t call) const {
    if (is_blocked(call)) return kBlocksHint;
    return call < facts_->hints.size() ? facts_->hints[call] : 0;
  }
  Place here(uint64_t time) const { return {stretch_.size(), time}; }

  // stretch.cpp: the rule, and events with operations between them.
  void end_stretch(Anchor right, bool annotated, uint64_t time);
  void divide(Anchor right);
  void divide_before_step(Place start);
  void divide_before_update(Place start);
  void divide_between_step_and_update(Place start);
  void part(Place from, uint32_t name, Why why);
  void emit_stretch(Anchor right, uint64_t time);
  void begin_part(const Part* part);
  void enter_part(uint64_t time);
  void leave_part(uint64_t time);
  void emit_call(const Event& e);
  bool asleep() const { return logging_ || (!calls_.empty() && calls_.back()); }
  void emit_log(const Event& e);
  void emit_awaited(const Event& e);
  void emit_in(const Part* part, const Event& e);
  bool absorbs(const Part* part, const Event& e) const;
  void emit_exit(const Part* part, const Event& e);
  void emit_network(const Event& e, bool hidden);
  void end_network(uint64_t time);
  void emit(const Event& e);
  void open(uint32_t name, Why why, uint64_t time);
  void close(uint32_t name, uint64_t time);
  void flush();

  template <class A>
  void members(A& a) {
    a(pending_, network_open_, open_, in_anchor_, anchor_, anchor_annotated_, anchor_name_);
    a(anchor_operation_, anchor_call_, anchor_depth_, environment_, pause_reason_, paused_, acted_,
      stepped_);
    a(stretch_, left_, left_annotated_, left_end_, left_name_, acts_, learns_, stored_, synced_,
      awaited_, waited_);
    a(batch_, chosen_, chooses_early_, remembered_);
    a(launched_, steps_compute_, networks_compute_, settles_, settled_, networks_, calls_);
    a(logging_, gave_, noting_, rollouts_compute_);
  }

  const NamingFacts* facts_;
  bool over_ = false, follows_ = false, paused_ = false;
  Event pending_{};  // an exit that is not written yet: what follows may go on with the same
                     // operation
  bool network_open_ = false;

  std::vector<uint32_t> open_;  // operations of the records, outermost first
  bool in_anchor_ = false;      // the outermost of them, or a call, is an anchor:
  Anchor anchor_ = Anchor::kEnds;
  bool anchor_annotated_ = false;
  uint32_t anchor_name_ = 0, anchor_operation_ = 0, anchor_call_ = 0, anchor_depth_ = 0;
  uint32_t environment_ = 0, pause_reason_ = 0;
  // Ever: a network or random action before a step, or a whole environment stepped, not only its
  // physics.
  bool acted_ = false, stepped_ = false;
  // An action was chosen between the last step and the update behind it. The step behind an update
  // took such an action, and no later one: so does this program.
  bool chosen_ = false, chooses_early_ = false;

  std::vector<Event> stretch_;
  Anchor left_ = Anchor::kEnds;
  bool left_annotated_ = false;
  uint64_t left_end_ = 0;
  uint32_t left_name_ = 0;   // of an update: backpropagation or a whole program
  Place acts_;               // the first network or random action
  Place learns_;             // the first batch or network that records gradients
  Place batch_;              // the first batch
  uint32_t networks_ = 0;    // calls without gradients before that
  Place stored_;             // behind the last storing before any of these
  bool remembered_ = false;  // by a replay memory: assignments behind that store something else
  Place gave_;     // behind the last hand-over to another thread or process before any of these
  Place synced_;   // behind the last hand-over of weights before any of these
  Place awaited_;  // behind the last wait for a result
  bool waited_ = false;
  // What is compiled may still compute: nobody has waited for a result since it was called. The
  // name of an update, and whether there were steps and networks.
  uint32_t launched_ = 0;
  bool steps_compute_ = false, networks_compute_ = false;
  bool rollouts_compute_ = false;  // and whether the steps were those of a compiled rollout
  Place settles_;                  // the wait that ends with it …
  uint32_t settled_ = 0;           // … and whose it is; 0 if that cannot be told
  std::vector<Part> parts_;
  const Part* part_ = nullptr;  // that what is written lies in
  bool part_open_ = false;      // its operation was opened and not closed
  uint64_t part_since_ = 0;     // when it is to be opened if not
  // Open calls between operations of the records: 1 if the thread waits in it, unless it was called
  // back.
  std::vector<uint32_t> calls_;
  size_t waits_at_ = SIZE_MAX;  // the event that waits for what was called before the stretch
  bool logging_ = false;        // what a logger does has no name
  bool noting_ = false;         // a logger is at work in the stretch so far
  std::vector<Nested> nested_;
};

}  // namespace cutaway
