// Which threads end the waits of others: by releasing a
// lock, or by writing to a pipe. All under the GIL.
#pragma once
#include "intercept/waited.h"
#include "recorder/recorder.h"

namespace cutaway {

// A thread is about to wait for a lock of this process; a place to learn who woke it, or -1.
int begin_wait(PyObject* object);
int end_wait(int place);  // the thread id of who woke it, or 0
// This thread releases the lock; `noted`: the moment is written down.
void wake(PyObject* object, bool noted);

enum class Way : uint8_t { kFeeds, kTakes };

// What `given` (a descriptor, a socket, a semaphore, a queue) is in the log: "channel" and its
// number, 0 if it is nothing that others wait for. Giving and taking is frequent, so `given` is
// looked at only now and then: the first times, then less often. A thread that feeds it says so in
// the log, once.
uint32_t channel_of(PyObject* given, Way way, Waited (*look)(PyObject*));
// Writes that so much was given or taken at this moment.
void note(Thread* t, uint64_t time, Way way, uint32_t channel, uint32_t amount);
// This thread took what woke it from its wait for a lock.
void note_woken(Thread* t, uint64_t time);

}  // namespace cutaway
