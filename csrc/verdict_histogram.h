/* Histogram of the verdicts of all positions about pods of one class, for the FitError of a pod that fits nowhere. Kept
 * like candidates, so that the next such pod costs what has changed since. */
#ifndef MOORAGE_VERDICT_HISTOGRAM_H
#define MOORAGE_VERDICT_HISTOGRAM_H

#include "candidates.h"

#define MR_DISTINCT_VERDICTS 128 /* different verdicts; with more, nothing is kept */

typedef struct {
    uint64_t *verdicts;  /* [position] */
    uint64_t values[MR_DISTINCT_VERDICTS];
    int32_t counts[MR_DISTINCT_VERDICTS]; /* positions with this verdict */
    int32_t used;        /* values */
    int32_t n;           /* positions */
    int32_t state;       /* MR_UNMADE, MR_VALID or MR_UNSUITED */
    int64_t cursor;      /* how far the change log has been read */
} mr_verdict_histogram;

/* Evaluates every position. All filters must be kernels, and no pods nominated. */
void mr_verdict_histogram_build(mr_verdict_histogram *histogram, const mr_search *search, const mr_changes *changes);

/* Evaluates the positions whose rows have changed since the last call; all of them where a filter reads counters. */
void mr_verdict_histogram_follow(mr_verdict_histogram *histogram, const mr_search *search, const mr_changes *changes);

#endif
