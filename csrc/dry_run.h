/* Dry runs of preemption: whom a pod would have to evict from a row to fit there. A dry run changes nothing, so rows can
 * be tried in any order. */
#ifndef MOORAGE_DRY_RUN_H
#define MOORAGE_DRY_RUN_H

#include "row_eval.h"

/* A pod on a row. */
typedef struct {
    int64_t start; /* since when it runs, in any unit; MR_NOT_STARTED where nobody says */
    int32_t pod_class, number;
} mr_pod_entry;

/* Where the pods of a row stand among all entries. */
typedef struct {
    int32_t first, count, room, is_read;
} mr_pod_span;
#define MR_NOT_STARTED INT64_MAX

/* What a pod of a class takes, and how important it is. */
typedef struct {
    int64_t cpu, memory;
    const mr_shape *shape;
    int32_t priority;
    int32_t reserved;
} mr_class_usage;

/* Disruption budgets, by the sets of them that pods count against. */
typedef struct {
    const int32_t *of_class;      /* [class] the set of its pods; 0 is the empty one */
    const int32_t *of_pod;        /* in place of that: [pod of the row at hand]; NULL for none */
    const int32_t *first, *count; /* [set] its budgets among the members */
    const int32_t *members;
    const int32_t *only;          /* [set] its one budget, for the empty set the last one, which never ends; NULL where
                                   * some set has several */
    const int32_t *allowed;       /* [budget] disruptions */
    int32_t *taken;               /* [budget] scratch, all 0 */
} mr_budgets;

/* A pod that looks for a row to evict pods from. */
typedef struct {
    const mr_search *search;   /* terms are prepared; the verdicts of nominated pods are not looked at */
    const mr_class_usage *usages;      /* [class] */
    const mr_budgets *budgets; /* NULL for none */
    const uint64_t *matches;   /* [class][words] which of the matchers (terms.h) count its pods, as bits */
    const int32_t *nominated;  /* classes of the pods nominated to the row at hand that go before this one */
    int32_t n_nominated;
    int32_t words;
    int32_t settled;           /* the rows at hand pass all filters that do not depend on pods */
    int32_t adds_up;           /* no usage is below 0, or too large for sums over a row */
    int32_t explains;          /* why evicting pods does not help matters: else any verdict but 0 will do */
    /* Scratch: per matcher; and a bit for each of the pods of the row at hand. */
    int32_t *removed, *removed_with;
    uint64_t *victims, *violating;
    /* Read once. */
    int64_t need_cpu, need_memory; /* the least where nothing is asked */
    int32_t priority, slots;       /* slots: what a filter asks for, 0 or 1 */
    int32_t ports, spread, inter_pod, n_others;
    int32_t terms, more;           /* either of the two filters that count pods; any of these */
} mr_preemptor;

/* What evicting pods from a row comes to. */
typedef struct {
    uint64_t verdict;   /* 0 where it helps: why not, as the filters say without the victims; or MR_NO_VICTIMS */
    int64_t sum;        /* over the victims: priority + 2^31 */
    int64_t start;      /* of the most important victim */
    int32_t highest;    /* its priority */
    int32_t violations; /* victims whose eviction violates a budget */
    int32_t victims;
    int32_t first;      /* of the row's pods, the first that may go; the bits of the preemptor count from it */
} mr_eviction;
#define MR_NO_VICTIMS (MR_UNRESOLVABLE | 1) /* nobody on the row is less important; of no plugin */

/* Reads what plan, shape and terms ask for; `search` is set. */
void mr_preemptor_read(mr_preemptor *preemptor);

/* Tries a row, whose pods stand by importance. The bits of its victims are left in preemptor->victims. */
void mr_dry_run(const mr_preemptor *preemptor, int32_t row, const mr_pod_entry *pods, int32_t n, mr_eviction *out);

/* Tries the rows that stand in the order at these bits. Only the results stay. */
void mr_dry_runs(const mr_preemptor *preemptor, const int32_t *order, const mr_pod_span *spans,
                 const mr_pod_entry *entries, uint64_t bits, mr_eviction *restrict results);

/* 1 where the first is to be preferred (kube-scheduler v1.36, pickOneNodeForPreemption): fewest violations, then the
 * least important first victim, the smallest sum, the fewest victims, the one that started last. */
static inline int mr_is_better(const mr_eviction *a, const mr_eviction *b)
{
    if (a->violations != b->violations) return a->violations < b->violations;
    if (a->highest != b->highest) return a->highest < b->highest;
    if (a->sum != b->sum) return a->sum < b->sum;
    if (a->victims != b->victims) return a->victims < b->victims;
    return a->start > b->start;
}

/* Sorts the pods of a row by importance: higher priority, then earlier start; equal ones stay in order. `scratch` is
 * as long. */
void mr_sort_pod_entries(mr_pod_entry *pods, int32_t n, mr_pod_entry *scratch, const mr_class_usage *usages);

#endif
