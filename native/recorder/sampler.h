// A thread of its own takes the Python stacks of all recorded threads at random moments. It never
// takes the GIL, so it neither waits for the program nor makes it wait. Samples are a stream of
// Records like any other (kind Sample), kill-safe in the same way; the frames they name stand in
// the log.
#pragma once

namespace cutaway {

void start_sampler();  // with the background thread, if the options ask for stacks
void rest_sampler();   // ends the thread; its stream goes on when it is started again
void stop_sampler();   // the end of the recording: the stream is complete
void forget_sampler_after_fork();

}  // namespace cutaway
