/* Counters over domains, and the two plugins that read them: PodTopologySpread and InterPodAffinity. */
#ifndef MOORAGE_TERMS_H
#define MOORAGE_TERMS_H

#include "debug.h"
#include "state.h"

/* The domain in which a row counts, or 0 where it does not. */
static inline int32_t mr_domain_of(const mr_counter *counter, int32_t row)
{
    if (!counter->counts[row]) return 0;
    int32_t domain = counter->domain[row];
    return domain ? domain : counter->absent;
}

/* Adds `pods` matching pods of a row to its domain, and the row itself `nodes` times. */
static inline void mr_counter_add(mr_counter *counter, int32_t row, int32_t pods, int32_t nodes)
{
    int32_t domain = mr_domain_of(counter, row);
    if (!domain) return;
    MR_DEBUG_BELOW(domain, counter->domains, "domain of a counter");
    int32_t before = counter->pods[domain], after = before + pods;
    counter->nodes[domain] += nodes;
    counter->pods[domain] = after;
    counter->pods[0] += pods;
    if (nodes) counter->at_min = 0;
    if (!counter->at_min || !counter->nodes[domain]) return;
    counter->at_min += (after == counter->min) - (before == counter->min);
    if (after < counter->min) {
        counter->min = after;
        counter->at_min = 1;
    }
}

/* Counts a matching pod that is added to a row (sign 1), or removed from it (sign -1). */
static inline void mr_matched_add(const mr_matched *matched, int32_t row, int32_t sign)
{
    if (matched->listed && !matched->listed[row]) return;
    matched->pods[row] += sign;
    for (int32_t i = 0; i < matched->n; i++) mr_counter_add(matched->counters[i], row, sign, 0);
}

/* Derives what a decision needs of the counters: the global minimum of each hard constraint. */
void mr_terms_prepare(mr_terms *terms);

/* Reason bits (0: passes), row-local. `removed` (NULL: none) is how many of the pods that were removed from the row each
 * matcher counts, below 0 where pods were added. The matchers are those of the hard constraints, one for all affinity
 * terms, anti-affinity, terms of others. */
uint64_t mr_spread_filter(const mr_terms *terms, int32_t row, const int32_t *removed);
uint64_t mr_inter_pod_filter(const mr_terms *terms, int32_t row, const int32_t *removed);

/* 1 where required affinity rejects a row, whichever pods are removed from it: pods that match count in all domains of
 * their row, so none of them is there, or a label is missing. */
int mr_affinity_rejects(const mr_terms *terms, int32_t row);

/* 1 where required affinity, if there is any, is met whichever so many pods leave the row. */
int mr_affinity_met(const mr_terms *terms, int32_t row, int32_t pods);

static inline int32_t mr_matchers(const mr_terms *terms)
{
    return terms->n_hard + 1 + terms->n_anti + terms->n_existing;
}

/* Raw scores, row-local. */
int64_t mr_spread_score(const mr_terms *terms, int32_t row);
int64_t mr_inter_pod_score(const mr_terms *terms, int32_t row);

/* 1 where an entry of InterPodAffinity's scores exists; without one it skips. */
int mr_inter_pod_scores(const mr_terms *terms);

/* 1 where InterPodAffinity's PreFilter skips: no required term concerns the pod. */
int mr_inter_pod_skips(const mr_terms *terms);

/* 1 where the feasible row lacks a key that soft constraints need, so that it is not scored. */
int mr_spread_ignores(const mr_terms *terms, int32_t row);

/* 1 where the row lacks a key of a soft constraint. */
int mr_spread_lacks_key(const mr_terms *terms, int32_t row);

/* Derives the weights of the soft constraints from the feasible rows. Each row stands for so `many` of its kind (NULL:
 * for itself). `seen` has a byte for each domain of any. */
void mr_spread_weigh(mr_terms *terms, const int32_t *rows, const int32_t *many, int32_t n, uint8_t *seen);

/* The natural logarithm as Go computes it without fused multiply-add. */
double mr_log(double x);

#endif
