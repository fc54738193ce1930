/* Requests to callgrind, for instructions.py: cheap no-ops when the program does not run under valgrind. */
#include <valgrind/callgrind.h>

void start(void) { CALLGRIND_START_INSTRUMENTATION; }
void dump(const char *label) { CALLGRIND_DUMP_STATS_AT(label); }
