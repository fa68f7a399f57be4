/* Scans over the view: the fused kernel over columns, and the general one over rows. */
#ifndef MOORAGE_SCAN_H
#define MOORAGE_SCAN_H

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

/* What the filters say of a node once the pods are there that are nominated to it. */
typedef struct {
    int32_t position;
    uint64_t verdict;
} mr_nominated;

/* Everything one decision needs. */
typedef struct {
    const mr_plan *plan;
    const mr_cluster *cluster;
    const mr_shape *shape;
    const mr_columns *columns; /* NULL: `order` is not the view's list */
    const int8_t *fixed_ok; /* [fixed] 1: NodeUnschedulable and TaintToleration pass; NULL: all pass */
    int32_t taints_alike;   /* no node has a PreferNoSchedule taint that counts against the pod */
    const int32_t *order;   /* [position] row */
    int32_t n;              /* positions */
    int32_t has_images;     /* some node has an image of the pod: ImageLocality differs */
    int32_t n_nominated;
    const mr_nominated *nominated; /* nodes with nominated pods that go before this one */
    void *const *views;     /* [external] what it is shown */
    int32_t threads;        /* of a scan over `parallel_from` nodes or more */
    int32_t parallel_from;
    mr_pod pod;
} mr_search;

/* What a look at a row takes from plan, shape and pod, read once. */
typedef struct {
    double need_cpu, need_memory;   /* what must be free: anything where nothing is requested */
    double cpu, memory;             /* what BalancedAllocation adds */
    double score_cpu, score_memory; /* what LeastAllocated adds */
    int32_t fused, difference;      /* mr_is_fused; mr_plan.balanced_difference */
    int32_t fit, balanced, images;  /* weights, 0 where the score is the same for all rows */
    int32_t n_asked, asked[MR_MAX_PLUGINS]; /* the filters that ask for more than the columns show */
} mr_local;
void mr_local_read(mr_local *local, const mr_search *search);

/* A row's total of the local scores + 1; 0 where a filter rejects it. */
int64_t mr_local_lane(const mr_search *search, const mr_local *local, int32_t row);

/* Copies one row into the columns. */
void mr_columns_set(mr_columns *columns, int32_t position, const mr_ledger *ledger, const int32_t *taint_set,
                    int32_t row);

/* 1 when the fused kernel may be used: the plan's arithmetic is the one that it knows, and exact in doubles. */
int mr_is_fused(const mr_search *search);

/* Positions [first, first + n): total + 1 of the local scores, 0 where infeasible. Taints, cpu, memory
 * and pod count go through the columns; what else a shape asks for is looked at on the lanes that remain. */
#define MR_BLOCK 256
#define MR_CALL 2048 /* rows at most in one call of a filter that is no kernel */
void mr_fused_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out);

/* The same for any number of positions, whatever the plan, by as many threads as the search says; a total that is not
 * in 0..MR_LANE_LIMIT becomes -1. Answers whether there was more than one. */
#define MR_LANE_LIMIT 1000000000
int mr_local_lanes(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out);

/* 1 where some filter, or some score, is none of the kernels here. */
int mr_has_external_filters(const mr_plan *plan);
int mr_has_external_scores(const mr_plan *plan);

/* 1 where all rows get the same from a normalized plugin, whatever is feasible. */
int mr_is_common(const mr_search *search, int32_t kernel);

/* Asks the filter with this index in the plan, which is no kernel, about those of n <= MR_CALL rows whose verdict is 0,
 * and notes what it rejects. Answers 1 where it failed. */
int mr_external_filter(const mr_search *search, int32_t filter, const int32_t *rows, int32_t n, uint64_t *verdicts);

/* Verdicts of rows [0, n), n <= MR_CALL, every filter in profile order. Answers 1 where a plugin failed. */
int mr_verdicts(const mr_search *search, const int32_t *rows, int32_t n, uint64_t *verdicts);

/* Raw scores of one kernel over the feasible rows; `seen` as in mr_found. */
void mr_score_rows(const mr_search *search, int32_t kernel, const int32_t *rows, int32_t n, int64_t *raw,
                   uint8_t *seen);

/* Searches from `start` until `wanted` nodes are feasible (kube-scheduler v1.36, findNodesThatPassFilters with one
 * worker: it stops on the next feasible node after that), and scores them. Answers 1 where a plugin failed. */
int mr_search_run(const mr_search *search, int32_t start, int32_t wanted, mr_found *found);

/* Where the item of an index stands in the preorder of a binary heap. With x = index + 1, preorder within one heap
 * level follows x, and across levels x shifted left until its top bit is set; of equal keys the first index is meant. */
static inline uint32_t mr_heap_key(int32_t index)
{
    uint32_t x = (uint32_t)index + 1;
    return x << __builtin_clz(x);
}

/* Index of the winner among n totals. */
int32_t mr_pick_first(const int64_t *totals, int32_t n);
int32_t mr_pick_heap(const int64_t *totals, int32_t n);
int32_t mr_pick_random(const int64_t *totals, int32_t n, uint64_t *state);

#endif
