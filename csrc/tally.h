/* The verdicts of all positions about pods of one class, counted: what a pod that fits nowhere is told. Kept like
 * candidates, so that the next one costs what has changed since. */
#ifndef MOORAGE_TALLY_H
#define MOORAGE_TALLY_H

#include "candidates.h"

#define MR_TALLIED 128 /* different verdicts; with more, nothing is kept */

typedef struct {
    uint64_t *verdicts;  /* [position] */
    uint64_t values[MR_TALLIED];
    int32_t counts[MR_TALLIED]; /* positions with this verdict */
    int32_t used;        /* values */
    int32_t n;           /* positions */
    int32_t state;       /* MR_UNMADE, MR_KEPT or MR_UNSUITED */
    int64_t cursor;      /* how far the change log has been read */
} mr_tally;

/* Looks at every position. The filters are kernels all, no pods are nominated. */
void mr_tally_build(mr_tally *tally, const mr_search *search, const mr_changes *changes);

/* Looks at what has changed since the last time; where a filter reads counters over domains, that is everything. */
void mr_tally_follow(mr_tally *tally, const mr_search *search, const mr_changes *changes);

#endif
