/* Histogram of the filters' verdicts on all positions for pods of one class, for the FitError of a pod that fits on no
 * node. It is cached like candidates: for the next such pod only changed positions are evaluated again. */
#ifndef MOORAGE_VERDICT_HISTOGRAM_H
#define MOORAGE_VERDICT_HISTOGRAM_H

#include "candidates.h"

#define MR_DISTINCT_VERDICTS 128 /* maximum number of distinct verdicts; with more, the state is MR_UNSUITED */

typedef struct {
    uint64_t *verdicts;  /* [position] */
    uint64_t values[MR_DISTINCT_VERDICTS];
    int32_t counts[MR_DISTINCT_VERDICTS]; /* positions with this verdict */
    int32_t used;        /* number of distinct verdicts */
    int32_t n;           /* positions */
    int32_t state;       /* MR_UNMADE, MR_VALID or MR_UNSUITED */
    int64_t cursor;      /* sequence number up to which the change log has been read */
} mr_verdict_histogram;

/* Evaluates every position. All filters must be kernels, and there must be no nominated pods. */
void mr_verdict_histogram_build(mr_verdict_histogram *histogram, const mr_search *search, const mr_changes *changes);

/* Evaluates the positions whose rows have changed since the last call, or all if a filter reads counters. */
void mr_verdict_histogram_follow(mr_verdict_histogram *histogram, const mr_search *search, const mr_changes *changes);

#endif
