/* Searches: which nodes are feasible, their totals, and the choice among them. */
#ifndef MOORAGE_SCAN_H
#define MOORAGE_SCAN_H

#include "row_eval.h"

/* The result of a scan: the feasible positions, in the order of the search. */
typedef struct {
    int32_t *positions; /* feasible positions */
    int64_t *totals;    /* weighted totals, aligned */
    int32_t *rows;      /* their rows, aligned; written when they are scored */
    int64_t *scores;    /* scratch, of the same length */
    uint8_t *seen;      /* scratch: a byte for each domain of any counter */
    int32_t *lanes;     /* scratch, of the same length, for parallel scans */
    int32_t feasible;   /* number of feasible positions */
    int32_t evaluated;  /* number of evaluated positions, feasible or rejected */
    int64_t parallel;   /* number of parallel scans so far */
} mr_found;

#define MR_CALL 2048 /* maximum number of rows per call of a filter that is not a kernel */

/* 1 if some filter, or some score, is not a kernel. */
int mr_has_external_filters(const mr_plan *plan);
int mr_has_external_scores(const mr_plan *plan);

/* 1 if a normalized plugin gives all rows the same score, whichever rows are feasible. */
int mr_is_common(const mr_search *search, int32_t kernel);

/* Verdicts on n <= MR_CALL rows by the filters that are bits (by index in the plan) of `asked`. Returns 1 if a plugin
 * failed. */
int mr_verdicts(const mr_search *search, uint64_t asked, const int32_t *rows, int32_t n, uint64_t *verdicts);

/* Sets the lanes of positions [first, first + n) to 0 that are infeasible with the pods nominated to them. */
void mr_nominated_lanes(const mr_search *search, int32_t first, int32_t n, int32_t *out);

/* Raw scores of one kernel over the feasible rows; `seen` as in mr_found. */
void mr_score_rows(const mr_search *search, int32_t kernel, const int32_t *rows, int32_t n, int64_t *raw,
                   uint8_t *seen);

/* Searches from `start` until `wanted` nodes are feasible (kube-scheduler v1.36, findNodesThatPassFilters with one
 * worker, which stops at the next feasible node after these). Returns 1 if a plugin failed. */
int mr_search_find(const mr_search *search, int32_t start, int32_t wanted, mr_found *found);

/* Scores found->rows, which the caller may have set. Returns 1 if a plugin failed or a score is not in 0..100. */
int mr_search_score(const mr_search *search, mr_found *found);

/* mr_search_find, then mr_search_score; found->rows is filled in even if scoring fails. */
int mr_search_run(const mr_search *search, int32_t start, int32_t wanted, mr_found *found);

/* A decision. */
#define MR_UNDECIDED (-2)
typedef struct {
    int32_t position;  /* the chosen position; -1 for none; MR_UNDECIDED if a score is not in 0..100 */
    int32_t looked_at; /* number of positions from the start until `wanted` were feasible */
    int32_t feasible;  /* number of feasible positions among these */
} mr_decision;

/* 1 if the fused kernel computes the whole score of a row, independent of all other rows. */
int mr_scan_suits(const mr_search *search);

/* A key that orders the nodes of a binary heap, counted from 1, by preorder. Within a level of the heap preorder follows
 * the number, and across levels the number shifted left until its top bit is set; of equal keys the first precedes. */
static inline uint32_t mr_heap_key(uint32_t node)
{
    return node << __builtin_clz(node);
}

/* Index of the winner among n totals. */
int32_t mr_pick_first(const int64_t *totals, int32_t n);
int32_t mr_pick_heap(const int64_t *totals, int32_t n);
int32_t mr_pick_random(const int64_t *totals, int32_t n, uint64_t *state);

#endif
