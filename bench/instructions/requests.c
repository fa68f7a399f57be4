/* What valgrind is asked from within the process that it runs; outside valgrind these do nothing. */
#include <valgrind/callgrind.h>

void counting_begins(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void counting_ends(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
