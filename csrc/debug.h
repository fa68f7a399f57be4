/* Bounds assertions of the debug build, `make debug-test`. A release build compiles none of them and evaluates no
 * argument. */
#ifndef MOORAGE_DEBUG_H
#define MOORAGE_DEBUG_H

#ifdef MR_DEBUG
#include <stdio.h>
#include <stdlib.h>

#define MR_DEBUG_BUILD 1

/* Aborts unless 0 <= value < limit. */
static inline void mr_debug_below(long long value, long long limit, const char *what, const char *file, int line)
{
    if (value >= 0 && value < limit) return;
    fprintf(stderr, "moorage debug build: %s %lld is not in [0, %lld) (%s:%d)\n", what, value, limit, file, line);
    abort();
}
#define MR_DEBUG_BELOW(value, limit, what) mr_debug_below(value, limit, what, __FILE__, __LINE__)

/* Aborts unless a cached value is what a recomputation yields. */
static inline void mr_debug_equal(long long cached, long long now, const char *what, const char *file, int line)
{
    if (cached == now) return;
    fprintf(stderr, "moorage debug build: %s %lld is cached instead of %lld (%s:%d)\n", what, cached, now, file, line);
    abort();
}
#define MR_DEBUG_EQUAL(cached, now, what) mr_debug_equal(cached, now, what, __FILE__, __LINE__)
#else
#define MR_DEBUG_BUILD 0
#define MR_DEBUG_BELOW(value, limit, what) ((void)(what))
#endif

#endif
