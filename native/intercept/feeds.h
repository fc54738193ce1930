// Who ends the waits of others: threads that release locks,
// processes that write into pipes. All under the GIL.
#pragma once
#include "intercept/waited.h"

namespace cutaway {

// A thread is about to wait for a lock or a queue of this process; a place to learn who woke it, or -1.
int begin_wait(PyObject* object);
int end_wait(int place);      // the thread id of who woke it, or 0
void wake(PyObject* object);  // this thread releases the lock, or puts into the queue

// Writing and releasing is frequent, so only some calls
// for an object are looked at: the first ones, then fewer.
bool feed_is_due(PyObject* given);
// Says in the log, once for each thread, that this thread feeds what others may wait for.
void note_feed(const Waited& waited);

}  // namespace cutaway
