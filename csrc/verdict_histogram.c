#include "verdict_histogram.h"

/* Adds a verdict to its count (sign 1), or takes it out (sign -1). */
static void count(mr_verdict_histogram *h, uint64_t verdict, int32_t sign)
{
    int32_t at = 0;
    while (at < h->used && h->values[at] != verdict) at++;
    if (at == MR_DISTINCT_VERDICTS) {
        h->state = MR_UNSUITED;
        return;
    }
    if (at == h->used) {
        h->values[h->used] = verdict;
        h->counts[h->used++] = 0;
    }
    h->counts[at] += sign;
}

static uint64_t verdict_of(const mr_search *s, int32_t position)
{
    return mr_verdict(s->plan, s->cluster, s->shape, &s->pod, s->order[position]);
}

typedef struct {
    const mr_search *search;
    uint64_t *verdicts;
} verdicts_loop;

static void evaluate(const void *loop, int32_t first, int32_t n)
{
    const verdicts_loop *l = loop;
    for (int32_t at = first; at < first + n; at++) l->verdicts[at] = verdict_of(l->search, at);
}

void mr_verdict_histogram_build(mr_verdict_histogram *h, const mr_search *search, const mr_changes *changes)
{
    const int32_t n = h->n = search->n;
    h->used = 0;
    h->state = MR_VALID;
    h->cursor = changes->head;
    const verdicts_loop loop = {search, h->verdicts};
    mr_each_block(search, mr_is_parallel(search, n), n, evaluate, &loop);
    for (int32_t at = 0; at < n; at++) count(h, h->verdicts[at], 1);
}

void mr_verdict_histogram_follow(mr_verdict_histogram *h, const mr_search *search, const mr_changes *changes)
{
    const mr_terms *terms = search->pod.terms;
    const int in_domains = terms && (terms->n_hard || terms->n_affinity || terms->n_anti || terms->n_existing);
    if (h->cursor == changes->head) return;
    if (in_domains || changes->head - h->cursor > changes->mask + 1) h->state = MR_UNMADE;
    for (; h->cursor < changes->head && h->state == MR_VALID; h->cursor++) {
        const int32_t row = changes->id[h->cursor & changes->mask], kind = changes->kind[h->cursor & changes->mask];
        if (kind == MR_LOG_ORDER) h->state = MR_UNMADE;
        if (kind >= MR_LOG_ORDER || row >= changes->rows || !changes->position[row]) continue;
        const int32_t at = changes->position[row] - 1;
        MR_DEBUG_BELOW(at, h->n, "position of verdicts");
        const uint64_t verdict = verdict_of(search, at);
        count(h, h->verdicts[at], -1);
        count(h, verdict, 1);
        h->verdicts[at] = verdict;
    }
    if (h->state == MR_UNMADE) mr_verdict_histogram_build(h, search, changes);
}
