/* Searches: which nodes are feasible, their totals, and the choice among them. */
#ifndef MOORAGE_SCAN_H
#define MOORAGE_SCAN_H

#include "row_eval.h"

/* A scan in progress: what was found in the order found. */
typedef struct {
    int32_t *positions; /* feasible positions */
    int64_t *totals;    /* weighted totals, aligned */
    int32_t *rows;      /* their rows, aligned; written where they are scored */
    int64_t *scores;    /* scratch, as long as these */
    uint8_t *seen;      /* scratch: a byte for each domain of any counter */
    int32_t *lanes;     /* scratch, as long as these: of scans by several threads */
    int32_t feasible;
    int32_t evaluated;  /* feasible and rejected nodes looked at */
    int64_t parallel;   /* scans that several threads took part in */
} mr_found;

#define MR_CALL 2048 /* rows at most in one call of a filter that is no kernel */

/* 1 where some filter, or some score, is none of the kernels here. */
int mr_has_external_filters(const mr_plan *plan);
int mr_has_external_scores(const mr_plan *plan);

/* 1 where all rows get the same from a normalized plugin, whatever is feasible. */
int mr_is_common(const mr_search *search, int32_t kernel);

/* Verdicts of rows [0, n), n <= MR_CALL, by the filters whose bits, by their places in the plan, are set in `asked`.
 * Answers 1 where a plugin failed. */
int mr_verdicts(const mr_search *search, uint64_t asked, const int32_t *rows, int32_t n, uint64_t *verdicts);

/* Lanes of positions [first, first + n) become 0 where the pods that are nominated there leave no room. */
void mr_nominated_lanes(const mr_search *search, int32_t first, int32_t n, int32_t *out);

/* Raw scores of one kernel over the feasible rows; `seen` as in mr_found. */
void mr_score_rows(const mr_search *search, int32_t kernel, const int32_t *rows, int32_t n, int64_t *raw,
                   uint8_t *seen);

/* Searches from `start` until `wanted` nodes are feasible (kube-scheduler v1.36, findNodesThatPassFilters with one
 * worker: it stops on the next feasible node after that). Answers 1 where a plugin failed. */
int mr_search_find(const mr_search *search, int32_t start, int32_t wanted, mr_found *found);

/* Scores found->rows, which may come from elsewhere. Returns 1 where a plugin failed, or a score is not in 0..100. */
int mr_search_score(const mr_search *search, mr_found *found);

/* mr_search_find, then mr_search_score; found->rows are filled in also where a score fails. */
int mr_search_run(const mr_search *search, int32_t start, int32_t wanted, mr_found *found);

/* A decision. */
#define MR_UNDECIDED (-2)
typedef struct {
    int32_t position;  /* the chosen one, -1 for none, MR_UNDECIDED where a score is not in 0..100 */
    int32_t looked_at; /* positions from the start until `wanted` were feasible */
    int32_t feasible;  /* of these */
} mr_decision;

/* 1 where the fused kernel gives the whole score of a row, independent of all other rows. */
int mr_scan_suits(const mr_search *search);

/* Decides as mr_search_run and mr_pick_first or, with `heap`, mr_pick_heap do, without a list of what was found. */
void mr_scan_decide(const mr_search *search, int32_t start, int32_t wanted, int heap, mr_decision *decision);

/* Where the item of an index stands in the preorder of a binary heap. With x = index + 1, preorder within one heap
 * level follows x, and across levels x shifted left until its top bit is set; of equal keys the first index is meant. */
static inline uint32_t mr_heap_key(int32_t index)
{
    uint32_t x = (uint32_t)index + 1;
    return x << __builtin_clz(x);
}

/* The first index of the next level of the heap. */
static inline int32_t mr_next_level(int32_t index)
{
    return (int32_t)((2u << (31 - __builtin_clz((uint32_t)index + 1))) - 1);
}

/* Of the ties seen so far, the one that the heap has on top. */
typedef struct {
    int32_t position; /* -1: none */
    int32_t until;    /* indices below cannot win: within a level of the heap keys grow, so its first tie is the best */
    uint32_t key;
} mr_top;

/* A tie at a position, with an index above those before. */
static inline void mr_top_offer(mr_top *top, int32_t index, int32_t position)
{
    if (index < top->until) return;
    const uint32_t key = mr_heap_key(index);
    if (top->position < 0 || key < top->key) {
        top->key = key;
        top->position = position;
    }
    top->until = mr_next_level(index);
}

/* Index of the winner among n totals. */
int32_t mr_pick_first(const int64_t *totals, int32_t n);
int32_t mr_pick_heap(const int64_t *totals, int32_t n);
int32_t mr_pick_random(const int64_t *totals, int32_t n, uint64_t *state);

#endif
