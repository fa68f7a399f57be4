/* Dry runs of preemption: the pods that a preemptor would have to evict from a row to fit there (kube-scheduler v1.36,
 * DryRunPreemption, SelectVictimsOnNode). A dry run changes nothing, so rows can be tried in any order. */
#ifndef MOORAGE_DRY_RUN_H
#define MOORAGE_DRY_RUN_H

#include "row_eval.h"

/* A pod on a row; or a unit with pods there, of which pod_class is the complement (mr_unit_of). */
typedef struct {
    int64_t start; /* start time, in any unit; MR_NOT_STARTED if unknown; of a unit that of its oldest pod */
    int32_t pod_class, number;
    int32_t priority; /* with which it is evicted: that of the pod, or of its group */
    int32_t members;  /* number of pods of the unit; 1 for a pod of a group, 0 for any other pod */
} mr_pod_entry;

/* The range of the pods and units of a row in the array of all entries. */
typedef struct {
    int32_t first, count, room; /* room: allocated entries */
    int32_t read;               /* number of pods on the row when it was read, plus 1; 0: it must be read */
    int32_t cut;                /* see mr_sort_for */
} mr_pod_span;
#define MR_ANY_CUT (-1)
#define MR_NOT_STARTED INT64_MAX

/* A pod of a unit. */
typedef struct {
    int64_t start;
    int32_t row, pod_class, number;
} mr_member;

/* An eviction unit: pods on any rows that are only evicted together. A pod that belongs to none is a unit by itself. */
typedef struct {
    const mr_member *members; /* equal ones are in order where budgets count, see UnitIndex */
    int64_t start;            /* start time of the oldest pod */
    int32_t count;            /* number of pods */
    int32_t priority;         /* counts in place of the priorities of the pods */
} mr_unit;

/* The index of the unit that an entry stands for; negative for a pod. */
static inline int32_t mr_unit_of(const mr_pod_entry *entry)
{
    return ~entry->pod_class;
}

/* Requests (millicores, bytes) and priority of the pods of a class. */
typedef struct {
    int64_t cpu, memory;
    const mr_shape *shape;
    int32_t priority;
    int32_t reserved;
} mr_class_usage;

/* Disruption budgets. A pod refers to the set of the budgets that select it. */
typedef struct {
    const int32_t *of_class;      /* [class] the set of its pods; 0 is the empty set */
    const int32_t *of_pod;        /* replaces of_class: [pod of the current row]; NULL for none */
    const int32_t *first, *count; /* [set] range of its budgets in `members` */
    const int32_t *members;       /* budgets */
    const int32_t *only;          /* [set] its one budget; for the empty set the last budget, which is unlimited; NULL
                                   * if some set has several budgets */
    const int32_t *allowed;       /* [budget] allowed disruptions */
    int32_t *taken;               /* [budget] scratch, all 0 */
    int32_t stops;                /* 1: a pod counts against no budget after the first that its eviction violates */
} mr_budgets;

/* A pod that needs pods to be evicted from a row. */
typedef struct {
    const mr_search *search;   /* with prepared terms; its `nominated` is ignored */
    const mr_class_usage *usages;      /* [class] */
    const mr_budgets *budgets; /* NULL for none */
    const mr_unit *units;      /* NULL: all entries are pods */
    const uint64_t *matches;   /* [class][words] bits of the matchers (terms.h) that count its pods */
    const int32_t *nominated;  /* classes of the pods nominated to the current row with at least its priority */
    int32_t n_nominated;
    int32_t words;
    int32_t settled;           /* 1: the rows pass all filters that do not depend on pods */
    int32_t adds_up;           /* 1: no usage is negative, or too large for a sum over a row */
    int32_t has_groups;        /* 1: entries may be pods of groups, whose own priority is not that of the entry */
    int32_t explains;          /* 1: the verdict must be exact if evicting pods does not help; else any non-zero one */
    /* Scratch: one per matcher; one bit per entry of the current row; the violations of each entry, for units only. */
    int32_t *removed, *removed_with;
    uint64_t *victims, *violating;
    int32_t *costs;
    /* Set by mr_preemptor_read. */
    int64_t need_cpu, need_memory; /* INT64_MIN if nothing is requested */
    int32_t priority, slots;       /* slots: free places for pods that are needed: 1, or INT32_MIN */
    int32_t ports, spread, inter_pod, n_others;
    int32_t terms, more;           /* terms: spread or inter_pod; more: n_others, ports or terms */
} mr_preemptor;

/* The result of a dry run. */
typedef struct {
    uint64_t verdict;   /* 0: evicting helps; else the filters' verdict without the victims, or MR_NO_VICTIMS */
    int64_t sum;        /* sum over the victims of priority + 2^31 */
    int64_t start;      /* earliest start time of the victims with the highest priority */
    int32_t highest;    /* priority of the first victim */
    int32_t violations; /* number of victims whose eviction violates a budget */
    int32_t victims;    /* number of victims */
    int32_t first;      /* index in the row of the first entry of lower priority, bit 0 of the preemptor's bits */
} mr_eviction;
#define MR_NO_VICTIMS (MR_UNRESOLVABLE | 1) /* the row has no unit of lower priority; not a verdict of a plugin */

/* Derives the last group of fields from plan, shape and terms; `search` must be set. */
void mr_preemptor_read(mr_preemptor *preemptor);

/* Tries a row, whose entries are sorted by importance. The bits of the victims are written to preemptor->victims. The
 * counters of the preemptor's terms change while units with pods on other rows are removed, and are restored. */
void mr_dry_run(const mr_preemptor *preemptor, int32_t row, const mr_pod_entry *pods, int32_t n, mr_eviction *out);

/* Tries the rows order[i] for the bits i of `bits`, and writes the results. */
void mr_dry_runs(const mr_preemptor *preemptor, const int32_t *order, const mr_pod_span *spans,
                 const mr_pod_entry *entries, uint64_t bits, mr_eviction *restrict results);

/* 1 if the first result is preferred (kube-scheduler v1.36, pickOneNodeForPreemption): fewest violations, then lowest
 * priority of the most important victim, smallest sum, fewest victims, latest start of the most important victim. */
static inline int mr_is_better(const mr_eviction *a, const mr_eviction *b)
{
    if (a->violations != b->violations) return a->violations < b->violations;
    if (a->highest != b->highest) return a->highest < b->highest;
    if (a->sum != b->sum) return a->sum < b->sum;
    if (a->victims != b->victims) return a->victims < b->victims;
    return a->start > b->start;
}

/* Sorts entries by importance (higher priority, more members, earlier start) as Go's sort.Slice does: equal entries
 * come in an order that depends on all others, if there are more than 12. */
void mr_sort_as_upstream(mr_pod_entry *pods, int32_t n);

/* Sorts the entries of a row by importance: those of a lower priority as upstream sorts them, which sees no others
 * (SelectVictimsOnNode). `scratch` has n entries. Returns the index of the
 * first entry of a lower priority, or MR_ANY_CUT if the order is the same for any priority. */
int32_t mr_sort_for(int32_t priority, mr_pod_entry *pods, int32_t n, mr_pod_entry *scratch);

/* 1 if the entries of a span are as mr_sort_for sorts them for a priority, whose result the span has. */
int mr_is_sorted_for(int32_t priority, const mr_pod_entry *pods, const mr_pod_span *span);

#endif
