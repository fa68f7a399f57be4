/* Row evaluation: the input of a search, the compact columns, and what depends on a row alone, one or many at a time. */
#ifndef MOORAGE_ROW_EVAL_H
#define MOORAGE_ROW_EVAL_H

#include <stddef.h>

#include "dispatch.h"
#include "plugins.h"

/* The rows in list order, as compact columns; position i describes the view's i-th node. */
typedef struct {
    double *alloc_cpu, *alloc_memory, *free_cpu, *free_memory, *used_cpu, *used_memory;
    double *nonzero_free_cpu, *nonzero_free_memory, *per_cpu, *per_memory; /* per_x: 100 / allocatable */
    int32_t *balanced, *slots;  /* slots: pods that still fit */
    int32_t *fixed;             /* taint set * 2 + unschedulable */
    uint8_t *slow;              /* 1: only the general kernel is exact here */
    int32_t n_fixed, n_slow;    /* positions with fixed != 0, slow != 0 */
} mr_columns;
_Static_assert(offsetof(mr_columns, n_fixed) == 14 * sizeof(void *), "the view fills in 14 pointers in a row");

/* Everything one decision needs. */
typedef struct {
    const mr_plan *plan;
    const mr_cluster *cluster;
    const mr_shape *shape;
    const mr_columns *columns; /* NULL: `order` is not the view's list */
    const int8_t *fixed_ok; /* [fixed] 1: NodeUnschedulable and TaintToleration pass; NULL: all pass */
    const uint8_t *named_ok; /* [position] 1: NodeName and NodeAffinity pass; NULL: they are asked about each row */
    int32_t taints_alike;   /* no node has a PreferNoSchedule taint that counts against the pod */
    const int32_t *order;   /* [position] row */
    int32_t n;              /* positions */
    int32_t has_images;     /* some node has an image of the pod: ImageLocality differs */
    const uint64_t *nominated; /* [row] verdict with the pods nominated there that go before, 0: feasible; NULL: all 0 */
    void *const *views;     /* [external] what it is shown */
    int32_t threads;        /* of a scan over `parallel_from` nodes or more */
    int32_t parallel_from;
    mr_pod pod;
} mr_search;

/* What the evaluation of a row takes from plan, shape and pod, read once per search. */
typedef struct {
    double need_cpu, need_memory;   /* what must be free: anything where nothing is requested */
    double cpu, memory;             /* what BalancedAllocation adds */
    double score_cpu, score_memory; /* what LeastAllocated adds */
    int32_t fused, difference;      /* mr_is_fused; mr_plan.balanced_difference */
    int32_t fit, balanced, images;  /* weights, 0 where the score is the same for all rows */
    int32_t n_asked, asked[MR_MAX_PLUGINS]; /* the filters that ask for more than the columns show */
} mr_local;
void mr_local_read(mr_local *local, const mr_search *search);

/* A row's total of the local scores + 1, 0 where a filter rejects it; or MR_INVALID. */
int64_t mr_local_lane(const mr_search *search, const mr_local *local, int32_t row);

/* Sum of the weighted scores of a row that do not depend on other nodes; MR_INVALID where one is not in 0..100. */
#define MR_INVALID INT64_MIN
int64_t mr_local_total(const mr_search *search, int32_t row);

/* Copies one row into the columns. */
void mr_columns_set(mr_columns *columns, int32_t position, const mr_ledger *ledger, const int32_t *taint_set,
                    int32_t row);

/* 1 where NodeName or NodeAffinity can reject a node for this pod. */
int mr_asks_for_names(const mr_search *search);

/* Fills `ok` by these, as mr_search.named_ok. */
void mr_named_lanes(const mr_search *search, uint8_t *ok);

/* 1 when the fused kernel may be used: the plan's arithmetic is the one that it knows, and exact in doubles. */
int mr_is_fused(const mr_search *search);

/* Positions [first, first + n), at most MR_BLOCK: total + 1 of the local scores, 0 where infeasible. Taints, cpu, memory
 * and pod count go through the columns; what else a shape asks for is looked at on the lanes that remain. A lane whose
 * score is not in 0..100 becomes MR_INVALID_LANE, which only slow rows can. Returns how many are feasible. */
#define MR_INVALID_LANE (INT32_MIN + 1)
#define MR_BLOCK 256
int32_t mr_fused_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out);

/* mr_fused_block for any plan; a total that is not in 0..MR_LANE_LIMIT becomes -1. */
#define MR_LANE_LIMIT 1000000000
void mr_local_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out);

/* mr_local_block for any number of positions, by search->threads threads. Returns whether several took part. */
int mr_local_lanes(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out);

/* The codes of the filters' verdicts on positions [first, first + n): 0 where a row is feasible, else whether the
 * eviction of pods might help. What nominated pods change is left out. */
#define MR_CODE_UNSCHEDULABLE 2
#define MR_CODE_UNRESOLVABLE 3
void mr_status_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, uint8_t *codes);

/* 1 where these are read off the columns, if no name, no counter and no slow row is in question: the filters that no
 * eviction helps with then come first. */
int mr_status_by_columns(const mr_search *search, const mr_local *local);

static inline int mr_is_parallel(const mr_search *search, int32_t n)
{
    return search->threads > 1 && n >= search->parallel_from;
}

#endif
