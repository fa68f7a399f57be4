/* Counters over domains, and the two plugins that read them: PodTopologySpread and InterPodAffinity. */
#ifndef MOORAGE_TERMS_H
#define MOORAGE_TERMS_H

#include "debug.h"
#include "state.h"

/* The domain in which a row counts; 0 if it does not count. */
static inline int32_t mr_domain_of(const mr_counter *counter, int32_t row)
{
    if (!counter->counts[row]) return 0;
    int32_t domain = counter->domain[row];
    return domain ? domain : counter->absent;
}

/* Adds `pods` to the pods, and `nodes` to the nodes, of the domain of a row. */
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

/* Updates row and counters for a matching pod that is added to a row (sign 1) or removed from it (sign -1). */
static inline void mr_matched_add(const mr_matched *matched, int32_t row, int32_t sign)
{
    matched->pods[row] += sign;
    for (int32_t i = 0; i < matched->n; i++) mr_counter_add(matched->counters[i], row, sign, 0);
}

/* Derives the global minimum of each hard constraint from its counter, before a decision. */
void mr_terms_prepare(mr_terms *terms);

/* Reason bits (0: passes) of a row. `removed` (NULL: none) has for each matcher the number of matching pods that were
 * removed from the row, negative if pods were added. The matchers are: each hard constraint; all affinity terms
 * together; each anti-affinity term; each anti-affinity term of existing pods. */
uint64_t mr_spread_filter(const mr_terms *terms, int32_t row, const int32_t *removed);
uint64_t mr_inter_pod_filter(const mr_terms *terms, int32_t row, const int32_t *removed);

/* 1 if required affinity rejects a row whichever pods are removed from it: the row has no matching pod (a matching pod
 * counts in all domains of its row), or a label is missing. */
int mr_affinity_rejects(const mr_terms *terms, int32_t row);

/* 1 if required affinity is met, or absent, whichever `pods` pods are removed from the row. */
int mr_affinity_met(const mr_terms *terms, int32_t row, int32_t pods);

/* Number of matchers, see mr_spread_filter. */
static inline int32_t mr_matchers(const mr_terms *terms)
{
    return terms->n_hard + 1 + terms->n_anti + terms->n_existing;
}

/* Raw scores, row-local. */
int64_t mr_spread_score(const mr_terms *terms, int32_t row);
int64_t mr_inter_pod_score(const mr_terms *terms, int32_t row);

/* 1 if PreScore of InterPodAffinity finds a term that scores some node; otherwise it returns Skip. */
int mr_inter_pod_scores(const mr_terms *terms);

/* 1 if PreFilter of InterPodAffinity returns Skip: no required term affects the pod. */
int mr_inter_pod_skips(const mr_terms *terms);

/* 1 if a feasible row lacks a topology key that all soft constraints require, so that it is not scored. */
int mr_spread_ignores(const mr_terms *terms, int32_t row);

/* 1 if the row lacks the topology key of a soft constraint. */
int mr_spread_lacks_key(const mr_terms *terms, int32_t row);

/* Derives the weights of the soft constraints from the feasible rows. Row i represents many[i] feasible rows (NULL:
 * only itself). `seen` is scratch, with a byte for each domain of any counter. */
void mr_spread_weigh(mr_terms *terms, const int32_t *rows, const int32_t *many, int32_t n, uint8_t *seen);

/* The natural logarithm as Go computes it without fused multiply-add. */
double mr_log(double x);

#endif
