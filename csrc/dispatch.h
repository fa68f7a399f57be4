/* What depends on the machine and not on the problem.
 *
 * MR_DISPATCHED: functions that the compiler builds twice where the machine may have AVX2; which one runs
 * is settled when the library is loaded. No fused multiply-add comes with it (-ffp-contract=off). What such a function calls must be inlined into
 * it to be built twice as well. */
#ifndef MOORAGE_DISPATCH_H
#define MOORAGE_DISPATCH_H

#include <stdint.h> /* defines __GLIBC__ */

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) \
    && __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__)
#define MR_DISPATCHED __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define MR_DISPATCHED
#endif
#define MR_INLINED static inline __attribute__((always_inline))

/* Calls `body(at)` for each block `at` of the `n` positions that a `search` looks at, both by these names; side by side
 * where that pays. Each position is written by one thread, so nothing depends on their number. */
#define MR_EACH_BLOCK(body)                                                                \
    do {                                                                                   \
        if (mr_is_parallel(search, n)) {                                                   \
            _Pragma("omp parallel for schedule(static) num_threads(search->threads)")      \
            for (int32_t at = 0; at < n; at += MR_BLOCK) body(at);                         \
        } else {                                                                           \
            for (int32_t at = 0; at < n; at += MR_BLOCK) body(at);                         \
        }                                                                                  \
    } while (0)

#endif
