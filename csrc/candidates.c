#include "candidates.h"

#include <stddef.h>
#include <string.h>

/* Negative weights of preferred terms can lead to negative scores, which only a search rejects. */
static int has_negative(const mr_shape *shape)
{
    for (int32_t i = 0; i < shape->n_preferred; i++)
        if (shape->preferred[i].weight < 0) return 1;
    return 0;
}

int mr_candidates_suit(const mr_search *search)
{
    return search->columns && !mr_has_external_filters(search->plan)
        && !mr_has_external_scores(search->plan) && !(search->pod.terms && search->pod.terms->affinity_off)
        && !has_negative(search->shape) && !(search->plan->added && has_negative(search->plan->added));
}

static int is_few(const mr_counter *counter)
{
    return counter->domains <= MR_FEW_DOMAINS;
}

#define TOO_LONG (MR_KEY + 1) /* the size of a key that has no room for all its integers */

static void add_domain_to_key(mr_bucket_key *key, const mr_counter *counter)
{
    for (int32_t i = 0; i < key->n_domains; i++)
        if (key->domains[i] == counter->domain) return;
    if (key->n_domains < MR_KEY) key->domains[key->n_domains++] = counter->domain;
    else key->size = TOO_LONG;
}

/* Whether any of the terms counts domains that are single rows. */
static int add_terms_to_key(mr_bucket_key *key, const mr_pod_term *terms, int32_t n)
{
    int single = 0;
    for (int32_t i = 0; i < n; i++)
        if (is_few(terms[i].counter)) add_domain_to_key(key, terms[i].counter);
        else single = 1;
    return single;
}

static void read_key(mr_bucket_key *key, const mr_search *search, const mr_terms *t)
{
    const mr_plan *plan = search->plan;
    memset(key, 0, sizeof *key);
    for (int32_t i = 0; i < plan->n_scores; i++) {
        key->taints |= plan->scores[i] == MR_TAINT_TOLERATION && !mr_is_common(search, MR_TAINT_TOLERATION);
        key->affinity |= plan->scores[i] == MR_NODE_AFFINITY
            && mr_scores(MR_NODE_AFFINITY, plan, search->shape, &search->pod);
    }
    if (t) {
        for (int32_t i = 0; i < t->n_hard; i++)
            if (is_few(t->hard[i].counter)) add_domain_to_key(key, t->hard[i].counter);
            else key->n_counts++, key->alone = 1;
        for (int32_t i = 0; i < t->n_soft; i++)
            if (t->soft[i].row_pods) key->n_counts++;
            else if (is_few(t->soft[i].counter)) add_domain_to_key(key, t->soft[i].counter);
            else key->size = TOO_LONG; /* its weight would depend on which domains there are among many */
        key->flags = add_terms_to_key(key, t->affinity, t->n_affinity) | add_terms_to_key(key, t->anti, t->n_anti)
            | add_terms_to_key(key, t->existing, t->n_existing);
        key->sum = add_terms_to_key(key, t->preferred, t->n_preferred);
        key->alone |= key->flags | key->sum;
    }
    key->size += key->taints + key->affinity + key->n_domains + key->n_counts + key->flags + 2 * key->sum;
}

void mr_candidates_point(mr_candidates *c, const mr_search *search)
{
    const mr_bucket_key before = c->key;
    read_key(&c->key, search, search->pod.terms);
    c->terms = search->pod.terms;
    c->search = *search;
    c->search.pod.terms = NULL;
    c->search.static_ok = NULL; /* rows are evaluated one by one */
    mr_local_read(&c->local, &c->search);
    if (c->n != search->n || memcmp(&before, &c->key, offsetof(mr_bucket_key, domains))) c->state = MR_UNMADE;
}

size_t mr_candidates_layout(mr_candidates *c, char *memory, int32_t stride)
{
    const size_t supers = (size_t)c->search.n / (MR_LANES * MR_LANES) + 1, blocks = supers * MR_LANES;
    const size_t buckets = (size_t)stride;
    size_t bytes = 0;
#define ARRAY(array, items)                                         \
    do {                                                            \
        if (memory) c->array = (void *)(memory + bytes);            \
        bytes += ((items) * sizeof *c->array + 63) / 64 * 64;       \
    } while (0)
    ARRAY(totals, blocks * MR_LANES);
    ARRAY(bucket, blocks * MR_LANES);
    ARRAY(blocks, blocks * buckets);
    ARRAY(supers, supers * buckets);
    ARRAY(fits, blocks * buckets);
    ARRAY(tops, blocks * buckets);
    ARRAY(counts, blocks / MR_COUNTED * buckets);
    ARRAY(keys, buckets * MR_KEY);
    ARRAY(hashes, buckets);
    ARRAY(feasible, buckets);
    ARRAY(member, buckets);
    if (memory) c->stride = stride;
    return bytes;
}

/* Number of matching pods in the row's own domain, plus 1; 0 if the row has no domain. */
static inline int32_t count_of(const mr_counter *counter, const int32_t *row_pods, int32_t row)
{
    int32_t domain = counter->domain[row];
    return domain ? 1 + (row_pods ? row_pods[row] : counter->pods[domain]) : 0;
}

/* 1 if a term whose domains are single rows has matching pods on this row. */
static int meets_here(const mr_pod_term *terms, int32_t n, int32_t row)
{
    for (int32_t i = 0; i < n; i++)
        if (!is_few(terms[i].counter) && count_of(terms[i].counter, NULL, row) > 1) return 1;
    return 0;
}

static int32_t flags_of(const mr_terms *t, int32_t row)
{
    int32_t all = 1, met = 1;
    for (int32_t i = 0; i < t->n_affinity; i++) {
        if (is_few(t->affinity[i].counter)) continue;
        int32_t count = count_of(t->affinity[i].counter, NULL, row);
        all &= count > 0;
        met &= count > 1;
    }
    return all | met << 1 | meets_here(t->anti, t->n_anti, row) << 2 | meets_here(t->existing, t->n_existing, row) << 3;
}

static int64_t sum_of(const mr_terms *t, int32_t row)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < t->n_preferred; i++) {
        int32_t count = is_few(t->preferred[i].counter) ? 0 : count_of(t->preferred[i].counter, NULL, row);
        if (count) sum += t->preferred[i].weight * (count - 1);
    }
    return sum;
}

static void key_of(const mr_candidates *c, int32_t row, int32_t *out)
{
    const mr_terms *t = c->terms;
    const mr_bucket_key *key = &c->key;
    const mr_search *s = &c->search;
    if (key->taints) *out++ = (int32_t)mr_score(MR_TAINT_TOLERATION, s->plan, s->cluster, s->shape, &s->pod, row);
    if (key->affinity) *out++ = (int32_t)mr_score(MR_NODE_AFFINITY, s->plan, s->cluster, s->shape, &s->pod, row);
    for (int32_t i = 0; i < key->n_domains; i++) *out++ = key->domains[i][row];
    if (key->n_counts) {
        for (int32_t i = 0; i < t->n_hard; i++)
            if (!is_few(t->hard[i].counter)) *out++ = count_of(t->hard[i].counter, NULL, row);
        for (int32_t i = 0; i < t->n_soft; i++)
            if (t->soft[i].row_pods) *out++ = count_of(t->soft[i].counter, t->soft[i].row_pods, row);
    }
    if (key->flags) *out++ = flags_of(t, row);
    if (key->sum) {
        int64_t sum = sum_of(t, row);
        *out++ = (int32_t)sum;
        *out++ = (int32_t)(sum >> 32);
    }
}

/* The bucket of a key, a free one for a new key; `stride` if there is none. */
static int32_t find_bucket(mr_candidates *c, const int32_t *key)
{
    const size_t size = (size_t)c->key.size * sizeof(int32_t);
    uint32_t hash = 0;
    for (int32_t i = 0; i < c->key.size; i++) hash = (hash ^ (uint32_t)key[i]) * 0x9E3779B1u;
    for (int32_t g = 0; g < c->used; g++)
        if (c->hashes[g] == hash && c->feasible[g] && memcmp(c->keys + g * MR_KEY, key, size) == 0) return g;
    int32_t free = 0;
    while (free < c->used && c->feasible[free]) free++;
    if (free == c->stride) return free;
    c->hashes[free] = hash;
    memcpy(c->keys + free * MR_KEY, key, size);
    return free;
}

static int32_t bucket_of_row(mr_candidates *c, int32_t row)
{
    int32_t key[MR_KEY];
    if (!c->key.size) return 0;
    key_of(c, row, key);
    return find_bucket(c, key);
}

/* Largest total among the lanes of a bucket. */
MR_INLINED int16_t largest_of(const int16_t *restrict totals, const int16_t *restrict bucket, int16_t g)
{
    int16_t max = 0;
    for (int32_t i = 0; i < MR_LANES; i++) {
        const int16_t total = (int16_t)(totals[i] & -(bucket[i] == g));
        max = total > max ? total : max;
    }
    return max;
}

/* Largest of a column with a step, which is at most `limit`. */
static int16_t largest_in(const int16_t *column, int32_t stride, int16_t limit)
{
    int16_t max = 0;
    if (stride == 1) return mr_largest(column, MR_LANES, 0);
    for (int32_t i = 0; i < MR_LANES && max < limit; i++)
        max = column[i * stride] > max ? column[i * stride] : max;
    return max;
}

/* Sets the largest total of a bucket in a block to `now`, and updates the superblock. */
static void set_block(mr_candidates *c, int32_t block, int32_t g, int16_t now)
{
    const int32_t stride = c->stride, super = block / MR_LANES;
    int16_t *of_block = &c->blocks[block * stride + g], *of_super = &c->supers[super * stride + g], before = *of_block;
    *of_block = now;
    if (now >= *of_super) *of_super = now;
    else if (before == *of_super) *of_super = largest_in(c->blocks + super * MR_LANES * stride + g, stride, before);
}

/* Raises the largest total of a bucket in a block to that of a position, `bit`, if it is not less. */
static inline void offer_to_block(mr_candidates *c, int32_t block, int32_t g, uint64_t bit, int16_t total)
{
    const int32_t at = block * c->stride + g;
    if (total < c->blocks[at]) return;
    c->tops[at] = bit | (total == c->blocks[at] ? c->tops[at] : 0);
    if (total > c->blocks[at]) set_block(c, block, g, total);
}

/* Finds the largest total of a bucket in a block, which has become less, and the positions that have it. */
static void find_tops(mr_candidates *c, int32_t block, int32_t g)
{
    const int32_t first = block * MR_LANES, at = block * c->stride + g;
    const int16_t max = c->stride == 1 ? mr_largest(c->totals + first, MR_LANES, 0)
                                       : largest_of(c->totals + first, c->bucket + first, (int16_t)g);
    c->tops[at] = mr_equal_lanes(c->totals + first, max) & c->fits[at];
    set_block(c, block, g, max);
}

static void count_position(mr_candidates *c, int32_t position, int32_t g, int32_t sign)
{
    const int32_t block = position / MR_LANES;
    uint16_t *count = &c->counts[block / MR_COUNTED * c->stride + g];
    c->fits[block * c->stride + g] ^= 1ull << position % MR_LANES;
    *count = (uint16_t)(*count + sign);
    c->feasible[g] += sign;
    if (sign > 0 && c->feasible[g] == 1) c->member[g] = position;
}

static void set_position(mr_candidates *c, int32_t position, int16_t total, int32_t g)
{
    const int32_t block = position / MR_LANES, stride = c->stride;
    MR_DEBUG_BELOW(g, stride, "bucket of candidates");
    const int16_t old = c->totals[position];
    const int32_t was = c->bucket[position];
    const uint64_t bit = 1ull << position % MR_LANES;
    if (old == total && was == g) return;
    c->totals[position] = total;
    c->bucket[position] = (int16_t)g;
    if (old && (!total || was != g)) count_position(c, position, was, -1);
    if (total && (!old || was != g)) count_position(c, position, g, 1);
    if (total) offer_to_block(c, block, g, bit, total);
    uint64_t *tops = &c->tops[block * stride + was];
    if (!(*tops & bit) || (was == g && total == c->blocks[block * stride + g])) return;
    *tops &= ~bit;
    if (!*tops) find_tops(c, block, was);
}

/* 1 if some row shares its domain with another row. */
static int shares_domain(const mr_candidates *c, const mr_counter *counter, uint8_t *seen)
{
    if (is_few(counter)) return 0;
    memset(seen, 0, (size_t)counter->domains);
    for (int32_t at = 0; at < c->n; at++) {
        int32_t domain = counter->domain[c->search.order[at]];
        if (domain && seen[domain]) return 1;
        seen[domain] = 1;
    }
    return 0;
}

static int any_shares_domain(const mr_candidates *c, const mr_pod_term *terms, int32_t n, uint8_t *seen)
{
    for (int32_t i = 0; i < n; i++) {
        if (i && terms[i].counter->domain == terms[i - 1].counter->domain) continue;
        if (shares_domain(c, terms[i].counter, seen)) return 1;
    }
    return 0;
}

static int are_alone(const mr_candidates *c, uint8_t *seen)
{
    const mr_terms *t = c->terms;
    if (!c->key.alone) return 1;
    for (int32_t i = 0; i < t->n_hard; i++)
        if (shares_domain(c, t->hard[i].counter, seen)) return 0;
    return !any_shares_domain(c, t->affinity, t->n_affinity, seen) && !any_shares_domain(c, t->anti, t->n_anti, seen)
        && !any_shares_domain(c, t->existing, t->n_existing, seen)
        && !any_shares_domain(c, t->preferred, t->n_preferred, seen);
}

/* The state when the buckets do not suffice. */
static int too_many(const mr_candidates *c)
{
    return c->stride < MR_BUCKETS ? MR_MORE_BUCKETS : MR_UNSUITED;
}

static int fill(mr_candidates *c, const int32_t *lanes, uint8_t *seen)
{
    c->n = c->search.n;
    c->used = 0;
    if (c->key.size >= TOO_LONG || !are_alone(c, seen)) return MR_UNSUITED;
    for (int32_t at = 0; at < c->n; at++) {
        if (!lanes[at]) continue;
        if (lanes[at] < 0 || lanes[at] > MR_CANDIDATE_LIMIT) return MR_UNSUITED;
        int32_t g = bucket_of_row(c, c->search.order[at]);
        if (g == c->stride) return too_many(c);
        c->totals[at] = (int16_t)lanes[at];
        c->bucket[at] = (int16_t)g;
        count_position(c, at, g, 1);
        offer_to_block(c, at / MR_LANES, g, 1ull << at % MR_LANES, c->totals[at]);
        c->used = g < c->used ? c->used : g + 1;
    }
    return MR_VALID;
}

/* Writes a block if there is one bucket, from lanes of which there are n. */
static void write_block(mr_candidates *c, int32_t block, const int32_t *restrict lanes, int32_t n)
{
    const mr_blocks blocks = mr_one_bucket(c);
    int16_t *restrict totals = c->totals + block * MR_LANES;
    int32_t max = 0, min = 0;
    for (int32_t i = 0; i < n; i++) {
        totals[i] = (int16_t)lanes[i];
        max = lanes[i] > max ? lanes[i] : max;
        min = lanes[i] < min ? lanes[i] : min;
    }
    mr_block_note(&blocks, block);
    if (min < 0 || max > MR_CANDIDATE_LIMIT) c->blocks[block] = MR_OUT_OF_RANGE;
}

void mr_candidates_lower(mr_candidates *c, int32_t position, int16_t total)
{
    set_position(c, position, total, 0);
}

static void fill_lanes(const void *loop, int32_t first, int32_t n)
{
    mr_candidates *c = *(mr_candidates *const *)loop;
    int32_t lanes[MR_BLOCK];
    mr_local_block(&c->search, &c->local, first, n, lanes);
    if (c->search.nominated) mr_nominated_lanes(&c->search, first, n, lanes);
    for (int32_t at = 0; at < n; at += MR_LANES)
        write_block(c, (first + at) / MR_LANES, lanes + at, n - at < MR_LANES ? n - at : MR_LANES);
}

static int fill_one_bucket(mr_candidates *c)
{
    const mr_search *search = &c->search;
    const int32_t n = c->n = search->n;
    mr_each_block(search, mr_scan_is_parallel(search, n), n, fill_lanes, &c);
    for (int32_t b = 0; b < mr_blocks_of(c); b++) {
        int16_t *super = &c->supers[b / MR_LANES];
        const int32_t count = mr_bits(c->fits[b]);
        if (c->blocks[b] == MR_OUT_OF_RANGE) return MR_UNSUITED;
        *super = c->blocks[b] > *super ? c->blocks[b] : *super;
        c->counts[b / MR_COUNTED] = (uint16_t)(c->counts[b / MR_COUNTED] + count);
        c->feasible[0] += count;
    }
    c->used = 1;
    return MR_VALID;
}

int mr_candidates_build(mr_candidates *c, const mr_changes *changes, int32_t *lanes, uint8_t *seen)
{
    const int parallel = mr_scan_is_parallel(&c->search, c->search.n);
    if (c->key.size) {
        mr_local_lanes(&c->search, &c->local, lanes);
        if (c->search.nominated) mr_nominated_lanes(&c->search, 0, c->search.n, lanes);
        c->state = fill(c, lanes, seen);
    } else {
        c->state = fill_one_bucket(c);
    }
    c->cursor = changes->head;
    return parallel;
}

#ifdef MR_DEBUG
void mr_candidates_check(const mr_candidates *c)
{
    int32_t key[MR_KEY];
    for (int32_t at = 0; at < c->n; at++) {
        const int32_t row = c->search.order[at];
        const int fits_alone = !c->search.nominated || !c->search.nominated[row];
        MR_DEBUG_EQUAL(c->totals[at], fits_alone ? mr_local_lane(&c->search, &c->local, row) : 0, "total of a node");
        if (!c->totals[at] || !c->key.size) continue;
        key_of(c, row, key);
        for (int32_t i = 0; i < c->key.size; i++)
            MR_DEBUG_EQUAL(c->keys[c->bucket[at] * MR_KEY + i], key[i], "key of a bucket");
    }
}
#endif

void mr_candidates_refresh(mr_candidates *c, int32_t position)
{
    MR_DEBUG_BELOW(position, c->n, "position of candidates");
    int32_t row = c->search.order[position], g = c->bucket[position];
    int64_t total = mr_local_lane(&c->search, &c->local, row);
    if (total < 0 || total > MR_CANDIDATE_LIMIT) {
        c->state = MR_UNSUITED;
        return;
    }
    if (c->search.nominated && c->search.nominated[row]) total = 0;
    if (total) g = bucket_of_row(c, row);
    if (g == c->stride) {
        c->state = too_many(c);
        return;
    }
    c->used = g < c->used ? c->used : g + 1;
    set_position(c, position, (int16_t)total, g);
}

void mr_candidates_follow(mr_candidates *c, const mr_changes *changes)
{
    if (changes->head - c->cursor > changes->mask + 1) c->state = MR_UNMADE; /* entries have been overwritten */
    for (; c->cursor < changes->head && c->state == MR_VALID; c->cursor++) {
        const int64_t at = c->cursor & changes->mask;
        const int32_t row = changes->id[at], kind = changes->kind[at];
        if (kind > MR_LOG_ORDER) continue;
        if (kind == MR_LOG_ORDER || (kind == MR_LOG_STATIC && c->key.alone)) c->state = MR_UNMADE;
        else if (row < changes->rows && changes->position[row]) mr_candidates_refresh(c, changes->position[row] - 1);
    }
}
