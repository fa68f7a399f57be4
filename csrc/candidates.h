/* The totals of one pod class over the positions of the list, with maxima and counts of blocks: while pods of the class
 * are placed, each placement changes one lane, and no decision looks at all of them again. */
#ifndef MOORAGE_CANDIDATES_H
#define MOORAGE_CANDIDATES_H

#include "scan.h"

#define MR_LANES 64  /* positions per block; a superblock has as many blocks */
#define MR_COUNTED 8 /* blocks per count of feasible positions */
#define MR_CANDIDATE_LIMIT 32000 /* totals fit 16 bits below it */

typedef struct {
    int16_t *totals;   /* [position] total + 1, 0 where infeasible; whole superblocks, the rest 0 */
    int16_t *blocks;   /* [block] largest total */
    int16_t *supers;   /* [superblock] largest total */
    uint64_t *fits;    /* [block] a bit per feasible position */
    uint16_t *counts;  /* [block / MR_COUNTED] feasible positions */
    int32_t n;         /* positions */
    int32_t feasible;
} mr_candidates;

/* 1 where a total depends on its own row alone, and fits 16 bits. */
int mr_candidates_suit(const mr_search *search);

/* Fills everything from the search; the arrays are zero before. */
void mr_candidates_build(mr_candidates *candidates, const mr_search *search);

/* The row at a position has changed: takes its total over. */
void mr_candidates_refresh(mr_candidates *candidates, const mr_search *search, int32_t position);

/* How many positions a search from `start` looks at until `wanted` are feasible (mr_search_run). */
int32_t mr_candidates_window(const mr_candidates *candidates, int32_t start, int32_t wanted);

/* The position that is chosen among the first `looked_at` from `start`: the first of the best in the order of the
 * search, or the one that Go's heap puts on top. There must be a feasible one. */
int32_t mr_candidates_first(const mr_candidates *candidates, int32_t start, int32_t looked_at);
int32_t mr_candidates_heap(const mr_candidates *candidates, int32_t start, int32_t looked_at);

#endif
