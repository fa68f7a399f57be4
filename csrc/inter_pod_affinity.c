#include "terms.h"

#include <stddef.h>

/* 1 if a term has more than `gone` matching pods in all domains; `gone` of them were removed from the row. */
static inline int any_pods(const mr_pod_term *terms, int32_t n, int32_t gone)
{
    for (int32_t i = 0; i < n; i++)
        if (terms[i].counter->pods[0] > gone) return 1;
    return 0;
}

/* 1 if a term has more matching pods in the row's domain than were removed from the row. */
static inline int meets(const mr_pod_term *terms, int32_t n, int32_t row, const int32_t *gone)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t domain = terms[i].counter->domain[row];
        if (domain && terms[i].counter->pods[domain] > (gone ? gone[i] : 0)) return 1;
    }
    return 0;
}

int mr_inter_pod_skips(const mr_terms *terms)
{
    return !terms->n_affinity && !terms->n_anti && !any_pods(terms->existing, terms->n_existing, 0);
}

/* Required affinity (kube-scheduler v1.36, interpodaffinity/filtering.go): the row's domain of each key has pods that
 * match all terms. If no pod matches anywhere, a pod that matches its own terms passes. */
static inline int satisfies_affinity(const mr_terms *terms, int32_t row, int32_t gone)
{
    int all = 1;
    for (int32_t i = 0; i < terms->n_affinity; i++) {
        int32_t domain = terms->affinity[i].counter->domain[row];
        if (!domain) return 0;
        all &= terms->affinity[i].counter->pods[domain] > gone;
    }
    return all || (terms->self_affine && !any_pods(terms->affinity, terms->n_affinity, gone));
}

int mr_affinity_met(const mr_terms *terms, int32_t row, int32_t pods)
{
    for (int32_t i = 0; i < terms->n_affinity; i++)
        if (terms->affinity[i].counter->pods[terms->affinity[i].counter->domain[row]] <= pods) return 0;
    return 1;
}

int mr_affinity_rejects(const mr_terms *terms, int32_t row)
{
    return !terms->affinity_off && !satisfies_affinity(terms, row, 0);
}

uint64_t mr_inter_pod_filter(const mr_terms *terms, int32_t row, const int32_t *removed)
{
    const int32_t *anti = removed ? removed + terms->n_hard + 1 : NULL;
    if (terms->affinity_off) return 0;
    if (!satisfies_affinity(terms, row, removed ? removed[terms->n_hard] : 0))
        return MR_POD_AFFINITY_RULES | MR_UNRESOLVABLE;
    if (meets(terms->anti, terms->n_anti, row, anti)) return MR_POD_ANTI_AFFINITY_RULES;
    if (meets(terms->existing, terms->n_existing, row, removed ? anti + terms->n_anti : NULL))
        return MR_EXISTING_ANTI_AFFINITY_RULES;
    return 0;
}

int mr_inter_pod_scores(const mr_terms *terms)
{
    return any_pods(terms->preferred, terms->n_preferred, 0);
}

/* Preferred terms of the incoming pod and of existing pods (interpodaffinity/scoring.go). */
int64_t mr_inter_pod_score(const mr_terms *terms, int32_t row)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < terms->n_preferred; i++) {
        int32_t domain = terms->preferred[i].counter->domain[row];
        if (domain) sum += terms->preferred[i].weight * terms->preferred[i].counter->pods[domain];
    }
    return sum;
}
