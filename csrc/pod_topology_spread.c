#include "rows.h"
#include "terms.h"

#include <stddef.h>
#include <string.h>

static void find_min(mr_counter *counter)
{
    counter->min = INT32_MAX;
    counter->live = counter->at_min = 0;
    for (int32_t d = MR_EMPTY_DOMAIN; d < counter->domains; d++) {
        if (!counter->nodes[d]) continue;
        counter->live++;
        if (counter->pods[d] < counter->min) {
            counter->min = counter->pods[d];
            counter->at_min = 0;
        }
        counter->at_min += counter->pods[d] == counter->min;
    }
}

/* filtering.go, minMatchNum: the minimum of matching pods over the domains; 0 if there are fewer than minDomains. */
static int32_t min_match(const mr_constraint *constraint)
{
    mr_counter *counter = constraint->counter;
    if (!counter->at_min) find_min(counter);
    return counter->live < constraint->min_domains ? 0 : counter->min;
}

void mr_terms_prepare(mr_terms *terms)
{
    for (int32_t i = 0; i < terms->n_hard; i++) terms->hard[i].min = min_match(&terms->hard[i]);
}

/* The global minimum if a domain had `pods` matching pods and the other domains were unchanged. */
static int32_t least_with(const mr_constraint *constraint, int32_t domain, int32_t pods)
{
    const mr_counter *counter = constraint->counter;
    const int32_t before = counter->pods[domain];
    int32_t out = counter->min;
    if (counter->live < constraint->min_domains) return 0;
    if (pods > before && before == counter->min && counter->at_min == 1) { /* it alone had the minimum */
        out = pods;
        for (int32_t d = MR_EMPTY_DOMAIN; d < counter->domains; d++)
            if (counter->nodes[d] && d != domain && counter->pods[d] < out) out = counter->pods[d];
    }
    return pods < out ? pods : out;
}

/* PodTopologySpread, DoNotSchedule (kube-scheduler v1.36, podtopologyspread/filtering.go). */
uint64_t mr_spread_filter(const mr_terms *terms, int32_t row, const int32_t *removed)
{
    for (int32_t i = 0; i < terms->n_hard; i++) {
        const mr_constraint *constraint = &terms->hard[i];
        int32_t domain = constraint->counter->domain[row];
        if (!domain) return MR_SPREAD_MISSING_LABEL | MR_UNRESOLVABLE;
        int32_t pods = constraint->counter->pods[domain], min = constraint->min;
        if (removed && removed[i] && constraint->counter->counts[row]) {
            pods -= removed[i];
            min = least_with(constraint, domain, pods);
        }
        int64_t skew = (int64_t)pods + constraint->self - min;
        if (skew > constraint->max_skew) return MR_SPREAD_SKEW;
    }
    return 0;
}

int mr_spread_lacks_key(const mr_terms *terms, int32_t row)
{
    for (int32_t i = 0; i < terms->n_soft; i++)
        if (!terms->soft[i].counter->domain[row]) return 1;
    return 0;
}

int mr_spread_ignores(const mr_terms *terms, int32_t row)
{
    return terms->soft_ignores && mr_spread_lacks_key(terms, row);
}

/* PreScore (podtopologyspread/scoring.go): the logarithm of the number of domains among the feasible nodes, plus 2.
 * Nodes without the label, where they are scored at all, stand for the empty value. */
void mr_spread_weigh(mr_terms *terms, const int32_t *rows, const int32_t *many, int32_t n, uint8_t *seen)
{
    int ignores = 0;
    if (terms->soft_needs_all)
        for (int32_t at = 0; at < n && !ignores; at++) ignores = mr_spread_lacks_key(terms, rows[at]);
    terms->soft_ignores = ignores;
    for (int32_t i = 0; i < terms->n_soft; i++) {
        mr_constraint *constraint = &terms->soft[i];
        const mr_counter *counter = constraint->counter;
        int32_t size = 0;
        memset(seen, 0, (size_t)counter->domains);
        for (int32_t at = 0; at < n; at++) {
            if (mr_spread_ignores(terms, rows[at])) continue;
            int32_t domain = counter->domain[rows[at]];
            if (!domain) domain = MR_EMPTY_DOMAIN;
            size += !constraint->row_pods ? !seen[domain] : many ? many[at] : 1;
            seen[domain] = 1;
        }
        if (size + 1 != constraint->size) constraint->weight = mr_log((double)size + 2.0);
        constraint->size = size + 1;
    }
}

/* ScheduleAnyway (scoring.go): per constraint matching pods by weight, plus maxSkew - 1. Lower is better. */
int64_t mr_spread_score(const mr_terms *terms, int32_t row)
{
    double score = 0.0;
    if (mr_spread_ignores(terms, row)) return 0;
    for (int32_t i = 0; i < terms->n_soft; i++) {
        const mr_constraint *constraint = &terms->soft[i];
        int32_t domain = constraint->counter->domain[row];
        if (!domain) continue;
        int32_t pods = constraint->row_pods ? constraint->row_pods[row] : constraint->counter->pods[domain];
        score += (double)pods * constraint->weight + (double)(constraint->max_skew - 1);
    }
    return mr_round(score);
}

/* The algorithm of fdlibm: x = 2^k (1 + f), and log(1 + f) by a polynomial in s = f / (2 + f). */
double mr_log(double x)
{
    const double high = 6.93147180369123816490e-01, low = 1.90821492927058770002e-10; /* of log 2 */
    const double l1 = 6.666666666666735130e-01, l2 = 3.999999999940941908e-01, l3 = 2.857142874366239149e-01;
    const double l4 = 2.222219843214978396e-01, l5 = 1.818357216161805012e-01, l6 = 1.531383769920937332e-01;
    const double l7 = 1.479819860511658591e-01;
    double k = 0.0;
    while (x >= 1.4142135623730951) { /* sqrt 2; arguments here are counts, and halving is exact */
        x *= 0.5;
        k += 1.0;
    }
    double f = x - 1.0, s = f / (2.0 + f), s2 = s * s, s4 = s2 * s2;
    double odd = s2 * (l1 + s4 * (l3 + s4 * (l5 + s4 * l7))), even = s4 * (l2 + s4 * (l4 + s4 * l6));
    double half = 0.5 * f * f;
    return k * high - ((half - (s * (half + (odd + even)) + k * low)) - f);
}
