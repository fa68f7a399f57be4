/* Row evaluation: the input of a search, the compact columns, and the filters and scores that depend on a row alone. */
#ifndef MOORAGE_ROW_EVAL_H
#define MOORAGE_ROW_EVAL_H

#include <stddef.h>

#include "lanes.h"
#include "parallel.h"
#include "plugins.h"

/* The rows in list order, as columns; position i is the i-th node of the view. Millicores and bytes. There is memory for
 * whole blocks of MR_LANES; behind the list free_milli is MR_NO_SLOT. */
typedef struct {
    double *alloc_cpu, *alloc_memory, *free_cpu, *free_memory, *used_cpu, *used_memory;
    double *nonzero_free_cpu, *nonzero_free_memory, *per_cpu, *per_memory; /* per_x: 100 / allocatable */
    int32_t *balanced, *slots;  /* mr_row.balanced; slots: number of further pods */
    int32_t *fixed;             /* taint set * 2 + unschedulable */
    float *nonzero_cpu_share, *nonzero_memory_share; /* percentages of allocatable: NonZeroRequested, */
    float *half_cpu_share, *half_memory_share;       /* half of used, */
    float *cpu_share, *memory_share;                 /* a unit, as per_x */
    int32_t *free_milli, *free_kib; /* free_x in millicores and KiB, rounded down and saturated; MR_NO_SLOT: no slot */
    uint8_t *slow;              /* 1: only the general kernel is exact for this row */
    int32_t n_fixed, n_slow;    /* number of positions with fixed != 0, with slow != 0 */
} mr_columns;
_Static_assert(offsetof(mr_columns, n_fixed) == 22 * sizeof(void *), "the view fills in 22 pointers in a row");

/* The input of a decision. */
typedef struct {
    const mr_plan *plan;
    const mr_cluster *cluster;
    const mr_shape *shape;
    const mr_columns *columns; /* NULL: `order` is not the view's list */
    const int8_t *fixed_ok; /* [fixed] 1: NodeUnschedulable and TaintToleration pass; NULL: all pass */
    const uint64_t *static_ok; /* a bit per position: NodeName, NodeAffinity and `fixed_ok` pass, and there is some of
                                * `scarce`; NULL: evaluated for each row. Behind the list are 0 bits, and a word more. */
    int32_t taints_alike;   /* 1: all nodes have the same raw score of TaintToleration */
    int32_t scarce;         /* a resource besides cpu and memory without which a row is infeasible, and that few rows
                             * have; -1: there is none */
    const int32_t *order;   /* [position] row */
    int32_t n;              /* number of positions */
    int32_t has_images;     /* 1: some node has an image of the pod, so that scores of ImageLocality differ */
    const uint64_t *nominated; /* [row] verdict with the nominated pods that take precedence added; NULL: all 0 */
    void *const *views;     /* [external] view of the plugin */
    int32_t threads;        /* number of threads of a loop over `parallel_from` nodes or more */
    int32_t parallel_from;
    mr_pod pod;
} mr_search;

/* The parameters of row evaluation from plan, shape and pod, derived once per search. */
typedef struct {
    const mr_search *search;        /* that they are derived from */
    double need_cpu, need_memory;   /* what must be free; a very small number if nothing is requested */
    double cpu, memory;             /* requests for BalancedAllocation */
    double score_cpu, score_memory; /* requests for LeastAllocated */
    float bound_cpu, bound_memory, half_cpu, half_memory; /* score_x, and half of cpu and memory, for mr_bound_blocks */
    int32_t fused, difference;      /* mr_is_fused; mr_plan.balanced_difference */
    int32_t fit, balanced, images;  /* weights; 0 if the score is the same for all rows */
    int32_t n_asked, asked[MR_MAX_PLUGINS + 1]; /* the filters of the lanes that remain, see mr_fused_block */
    int32_t need_milli, need_kib;   /* what free_milli and free_kib must at least be; above MR_NO_SLOT */
    int32_t narrow;                 /* 1: that is all that is needed; else equal amounts need not suffice */
    int32_t most;                   /* limit of the totals of mr_fused_block, plus 1 */
} mr_local;
#define MR_NO_SLOT INT32_MIN
void mr_local_read(mr_local *local, const mr_search *search);

/* The total of the row-local scores of a row, plus 1; 0 if a filter rejects the row; or MR_INVALID. */
int64_t mr_local_lane(const mr_search *search, const mr_local *local, int32_t row);

/* Sum of the weighted scores of a row that do not depend on other nodes; MR_INVALID if a score is not in 0..100. */
#define MR_INVALID INT64_MIN
int64_t mr_local_total(const mr_search *search, int32_t row);

/* Copies one row into the columns. */
void mr_columns_set(mr_columns *columns, int32_t position, const mr_ledger *ledger, const int32_t *taint_set,
                    int32_t row);

/* 1 if NodeName, NodeAffinity, NodeUnschedulable, TaintToleration or NodeDeclaredFeatures can reject a node for this
 * pod. */
int mr_asks_for_statics(const mr_search *search);

/* Writes which positions these filters pass, see mr_search.static_ok; `scarce` is not looked at. */
void mr_static_lanes(const mr_search *search, uint64_t *ok);

/* Writes which positions of some rows these filters pass, and 0 for those of all other rows: the rows with a bit in the
 * `n` words of `holders` have some of search->scarce. `position` is that of mr_changes. */
void mr_static_lanes_of(const mr_search *search, const int32_t *holders, int32_t n, const int32_t *position,
                        uint64_t *ok);

/* 1 if the fused kernel can be used: it implements the plan's strategies, and they are exact in doubles. */
int mr_is_fused(const mr_search *search);

/* Evaluates positions [first, first + n), n <= MR_BLOCK: total of the row-local scores + 1, or 0 if infeasible. Taints,
 * cpu, memory and number of pods are evaluated on the columns, then other resources; the other filters on the lanes that
 * remain. A lane with a score that is not in 0..100, possible for slow rows only, becomes MR_INVALID_LANE. Returns the
 * number of feasible positions. */
#define MR_INVALID_LANE (INT32_MIN + 1)
int32_t mr_fused_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out);

/* The evaluation of blocks of MR_LANES positions. */
typedef struct {
    int16_t *totals;  /* [position] total + 1, 0 where infeasible */
    int16_t *largest; /* [block] largest total; MR_OUT_OF_RANGE if one is not in 0..MR_CANDIDATE_LIMIT */
    uint64_t *fits;   /* [block] a bit per feasible position */
    uint64_t *tops;   /* [block] a bit per position with the largest total */
} mr_blocks;
#define MR_CANDIDATE_LIMIT 32000 /* limit of totals, which are stored in 16 bits */
#define MR_OUT_OF_RANGE (-1)

/* Evaluates blocks [from, to) as mr_fused_block, but with scores in single precision and by reciprocals: a total is never
 * below the exact one, and seldom above it. Feasibility is exact all the same. local->most must be in range. */
void mr_bound_blocks(const mr_local *local, int32_t from, int32_t to, const mr_blocks *out);

/* Writes what follows from the totals of a block. */
void mr_block_note(const mr_blocks *out, int32_t block);

/* Evaluates positions as mr_fused_block, for any plan; a total that is not in 0..MR_LANE_LIMIT becomes -1. */
#define MR_LANE_LIMIT 1000000000
void mr_local_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, int32_t *out);

/* mr_local_block for all positions, by search->threads threads if they are enough. */
void mr_local_lanes(const mr_search *search, const mr_local *local, int32_t *out);

/* Codes of the filters' verdicts on positions [first, first + n): 0 if feasible, MR_CODE_UNSCHEDULABLE if evicting pods
 * may help, else MR_CODE_UNRESOLVABLE. Nominated pods are ignored. */
#define MR_CODE_UNSCHEDULABLE 2
#define MR_CODE_UNRESOLVABLE 3
void mr_status_block(const mr_search *search, const mr_local *local, int32_t first, int32_t n, uint8_t *codes);

/* 1 if the codes can be computed from the columns: the filters whose verdicts are unresolvable precede the others, and
 * no other filter needs names or counters. */
int mr_status_by_columns(const mr_search *search, const mr_local *local);

/* 1 if a loop over n positions runs in several threads. */
static inline int mr_is_parallel(const mr_search *search, int32_t n)
{
    return search->threads > 1 && n >= search->parallel_from;
}

/* 1 if a scan over n positions runs in several threads. Where it reads the columns alone, a position takes a nanosecond
 * or two, and more of them are needed. */
#define MR_PLAIN 20
int mr_scan_is_parallel(const mr_search *search, int32_t n);

/* Calls `work` for the blocks of n positions, in parallel or not. Each position is written by one thread, so the result
 * does not depend on the number of threads. */
static inline void mr_each_block(const mr_search *search, int parallel, int32_t n, mr_block work, const void *loop)
{
    if (parallel) mr_parallel_blocks(search->threads, n, work, loop);
    else
        for (int32_t at = 0; at < n; at += MR_BLOCK) work(loop, at, n - at < MR_BLOCK ? n - at : MR_BLOCK);
}

#endif
