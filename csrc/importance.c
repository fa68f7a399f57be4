#include "dry_run.h"

#include <stddef.h>
#include <string.h>

/* Priorities of the pods of each class, and of each unit. */
typedef struct {
    const mr_class_usage *usages;
    const mr_unit *units;
} ranks;

/* Whether a must precede b, which preceded it so far; one of them is a unit. */
static int unit_goes_before(const mr_pod_entry *a, const mr_pod_entry *b, ranks of)
{
    const mr_unit pod_a = {.count = 0, .priority = a->pod_class < 0 ? 0 : of.usages[a->pod_class].priority};
    const mr_unit pod_b = {.count = 0, .priority = b->pod_class < 0 ? 0 : of.usages[b->pod_class].priority};
    const mr_unit *ours = a->pod_class < 0 ? &of.units[mr_unit_of(a)] : &pod_a;
    const mr_unit *theirs = b->pod_class < 0 ? &of.units[mr_unit_of(b)] : &pod_b;
    if (ours->priority != theirs->priority) return ours->priority > theirs->priority;
    if (ours->count != theirs->count) return ours->count > theirs->count;
    return a->start < b->start;
}

/* Whether a must precede b, which preceded it so far. */
static inline int goes_before(const mr_pod_entry *a, const mr_pod_entry *b, ranks of)
{
    if (a->pod_class < 0 || b->pod_class < 0) return unit_goes_before(a, b, of);
    const int32_t ours = of.usages[a->pod_class].priority, theirs = of.usages[b->pod_class].priority;
    return ours != theirs ? ours > theirs : a->start < b->start;
}

/* ---- the order in which kube-scheduler has equal pods ----
 *
 * It sorts by the pattern-defeating quicksort of Go's library (O. Peters, Pattern-defeating Quicksort, 2021), which is
 * deterministic, but leaves equal pods in an order of its own. What the paper leaves open is chosen as Go does. */

/* A part of an array that remains to be sorted, [at, end). */
typedef struct {
    mr_pod_entry *at, *end;
} part;

enum {
    SMALL = 12,         /* the largest part that is sorted by insertion */
    SAMPLED_TWICE = 50, /* the smallest part whose pivot is a median of medians, and that is mended */
    MENDED = 5,         /* pairs that are mended in a part that is nearly in order */
    MOST_MOVES = 12,    /* of the median of medians: three for each median */
};

/* What is known of a part before it is cut. */
typedef struct {
    int lots;     /* bad cuts until the part is sorted as a heap */
    int balanced; /* 1: the last cut was a good one */
    int in_order; /* 1: the last cut exchanged nothing */
} progress;

static inline void exchange(mr_pod_entry *a, mr_pod_entry *b)
{
    const mr_pod_entry other = *a;
    *a = *b;
    *b = other;
}

/* Moves an entry towards the start of a part, past all that it must precede. */
static void move_up(mr_pod_entry *entry, const mr_pod_entry *start, ranks of)
{
    for (; entry > start && goes_before(entry, entry - 1, of); entry--) exchange(entry, entry - 1);
}

static void sort_by_insertion(part p, ranks of)
{
    for (mr_pod_entry *entry = p.at + 1; entry < p.end; entry++) move_up(entry, p.at, of);
}

/* Moves an entry of a heap of n entries, the last one at its top, down to its place. */
static void sink(mr_pod_entry *heap, ptrdiff_t entry, ptrdiff_t n, ranks of)
{
    for (ptrdiff_t child; (child = 2 * entry + 1) < n; entry = child) {
        if (child + 1 < n && goes_before(&heap[child], &heap[child + 1], of)) child++;
        if (!goes_before(&heap[entry], &heap[child], of)) return;
        exchange(&heap[entry], &heap[child]);
    }
}

static void sort_as_heap(part p, ranks of)
{
    const ptrdiff_t n = p.end - p.at;
    for (ptrdiff_t entry = (n - 1) / 2; entry >= 0; entry--) sink(p.at, entry, n, of);
    for (ptrdiff_t last = n - 1; last >= 0; last--) {
        exchange(p.at, &p.at[last]);
        sink(p.at, 0, last, of);
    }
}

/* The number of bits of n. */
static int width_of(ptrdiff_t n)
{
    return n ? 64 - __builtin_clzll((uint64_t)n) : 0;
}

/* Exchanges three entries in the middle for others, so that no pattern leads to bad cuts again and again. The others
 * follow from the length (G. Marsaglia, Xorshift RNGs, 2003). */
static void shuffle(part p)
{
    const ptrdiff_t n = p.end - p.at;
    uint64_t number = (uint64_t)n;
    for (ptrdiff_t i = 0; i < 3; i++) {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        ptrdiff_t other = (ptrdiff_t)(number & ((1ull << width_of(n)) - 1));
        if (other >= n) other -= n;
        exchange(&p.at[n / 4 * 2 - 1 + i], &p.at[other]);
    }
}

/* The median of three entries; `moves` counts how often one of them goes before an earlier one. */
static mr_pod_entry *median_of(mr_pod_entry *a, mr_pod_entry *b, mr_pod_entry *c, int *moves, ranks of)
{
    mr_pod_entry *other;
    if (goes_before(b, a, of)) other = a, a = b, b = other, ++*moves;
    if (goes_before(c, b, of)) other = b, b = c, c = other, ++*moves;
    if (goes_before(b, a, of)) b = a, ++*moves;
    return b;
}

/* Chooses a pivot. `moves` becomes 0 if the part seems to be in order, and MOST_MOVES if in reverse order. */
static mr_pod_entry *pivot_of(part p, int *moves, ranks of)
{
    const ptrdiff_t n = p.end - p.at, step = n / 4;
    mr_pod_entry *a = p.at + step, *b = a + step, *c = b + step;
    *moves = 0;
    if (n >= SAMPLED_TWICE) {
        a = median_of(a - 1, a, a + 1, moves, of);
        b = median_of(b - 1, b, b + 1, moves, of);
        c = median_of(c - 1, c, c + 1, moves, of);
    }
    return median_of(a, b, c, moves, of);
}

static void reverse(part p)
{
    for (; p.at < --p.end; p.at++) exchange(p.at, p.end);
}

/* Mends a part that is nearly in order; whether it is in order then. */
static int is_mended(part p, ranks of)
{
    mr_pod_entry *entry = p.at + 1;
    for (int i = 0; i < MENDED; i++) {
        while (entry < p.end && !goes_before(entry, entry - 1, of)) entry++;
        if (entry == p.end) return 1;
        if (p.end - p.at < SAMPLED_TWICE) return 0;
        exchange(entry, entry - 1);
        move_up(entry - 1, p.at, of);
        for (mr_pod_entry *next = entry + 1; next < p.end && goes_before(next, next - 1, of); next++)
            exchange(next, next - 1);
    }
    return 0;
}

/* Moves the entries that equal the first one, which none goes before, to the start of a part; returns their end. */
static mr_pod_entry *gather_equal(part p, ranks of)
{
    mr_pod_entry *left = p.at + 1, *right = p.end - 1;
    for (;; exchange(left++, right--)) {
        while (left <= right && !goes_before(p.at, left, of)) left++;
        while (left <= right && goes_before(p.at, right, of)) right--;
        if (left > right) return left;
    }
}

/* Cuts a part at its first entry, and returns where this entry is then: those that go before it come first. */
static mr_pod_entry *cut(part p, int *exchanged, ranks of)
{
    mr_pod_entry *left = p.at + 1, *right = p.end - 1;
    for (*exchanged = 0;; *exchanged = 1, exchange(left++, right--)) {
        while (left <= right && goes_before(left, p.at, of)) left++;
        while (left <= right && !goes_before(right, p.at, of)) right--;
        if (left > right) break;
    }
    exchange(right, p.at);
    return right;
}

/* Sorts a part of the array that begins at `start`. */
static void sort_part(part p, const mr_pod_entry *start, int lots, ranks of)
{
    progress last = {lots, 1, 1};
    for (;;) {
        const ptrdiff_t n = p.end - p.at;
        int moves, exchanged;
        if (n <= SMALL) {
            sort_by_insertion(p, of);
            return;
        }
        if (!last.lots) {
            sort_as_heap(p, of);
            return;
        }
        if (!last.balanced) {
            shuffle(p);
            last.lots--;
        }
        mr_pod_entry *pivot = pivot_of(p, &moves, of);
        if (moves == MOST_MOVES) {
            reverse(p);
            pivot = p.end - 1 - (pivot - p.at);
            moves = 0;
        }
        if (last.balanced && last.in_order && !moves && is_mended(p, of)) return;
        exchange(p.at, pivot);
        if (p.at > start && !goes_before(p.at - 1, p.at, of)) {
            p.at = gather_equal(p, of);
            continue;
        }
        pivot = cut(p, &exchanged, of);
        last.in_order = !exchanged;
        const part before = {p.at, pivot}, after = {pivot + 1, p.end};
        const int is_left = pivot - p.at < p.end - pivot;
        const ptrdiff_t shorter = is_left ? pivot - p.at : p.end - pivot;
        last.balanced = shorter >= n / 8;
        sort_part(is_left ? before : after, start, last.lots, of);
        p = is_left ? after : before;
    }
}

void mr_sort_as_upstream(mr_pod_entry *pods, int32_t n, const mr_class_usage *usages, const mr_unit *units)
{
    const ranks of = {usages, units};
    sort_part((part){pods, pods + n}, pods, width_of(n), of);
}

#define FEW 16

static void insert_each(mr_pod_entry *pods, int32_t n, ranks of)
{
    for (int32_t i = 1; i < n; i++) {
        const mr_pod_entry pod = pods[i];
        int32_t at = i;
        for (; at && goes_before(&pod, &pods[at - 1], of); at--) pods[at] = pods[at - 1];
        pods[at] = pod;
    }
}

static void merge(const mr_pod_entry *from, int32_t middle, int32_t end, mr_pod_entry *to, ranks of)
{
    int32_t a = 0, b = middle;
    for (int32_t at = 0; at < end; at++) {
        const int second = a == middle || (b < end && goes_before(&from[b], &from[a], of));
        to[at] = second ? from[b++] : from[a++];
    }
}

void mr_sort_pod_entries(mr_pod_entry *pods, int32_t n, mr_pod_entry *scratch, const mr_class_usage *usages,
                         const mr_unit *units)
{
    const ranks of = {usages, units};
    mr_pod_entry *from = pods, *to = scratch;
    for (int32_t at = 0; at < n; at += FEW) insert_each(pods + at, n - at < FEW ? n - at : FEW, of);
    for (int32_t width = FEW; width < n; width *= 2) {
        for (int32_t at = 0; at < n; at += 2 * width) {
            const int32_t left = n - at;
            merge(from + at, left < width ? left : width, left < 2 * width ? left : 2 * width, to + at, of);
        }
        mr_pod_entry *other = from;
        from = to;
        to = other;
    }
    if (from != pods) memcpy(pods, from, (size_t)n * sizeof *pods);
}

static int are_in_order(const mr_pod_entry *pods, int32_t n, ranks of)
{
    for (int32_t i = 1; i < n; i++)
        if (goes_before(&pods[i], &pods[i - 1], of)) return 0;
    return 1;
}

/* Whether two of some entries that are in order are equal. */
static int are_any_equal(const mr_pod_entry *pods, int32_t n, ranks of)
{
    for (int32_t i = 1; i < n; i++)
        if (!goes_before(&pods[i - 1], &pods[i], of)) return 1;
    return 0;
}

static int32_t priority_of(const mr_pod_entry *entry, ranks of)
{
    return entry->pod_class < 0 ? of.units[mr_unit_of(entry)].priority : of.usages[entry->pod_class].priority;
}

int32_t mr_sort_for(int32_t priority, mr_pod_entry *pods, int32_t n, mr_pod_entry *scratch,
                    const mr_class_usage *usages, const mr_unit *units)
{
    const ranks of = {usages, units};
    int32_t lower = 0, at;
    if (are_in_order(pods, n, of)) return MR_ANY_CUT;
    memcpy(scratch + n, pods, (size_t)n * sizeof *pods);
    mr_sort_pod_entries(pods, n, scratch, usages, units);
    if (n <= SMALL || !are_any_equal(pods, n, of)) return MR_ANY_CUT;
    for (at = n; at && priority_of(&pods[at - 1], of) < priority; at--) lower++;
    if (lower <= SMALL) return at;
    for (int32_t i = n, to = at; i < 2 * n; i++)
        if (priority_of(&scratch[i], of) < priority) pods[to++] = scratch[i];
    mr_sort_as_upstream(pods + at, lower, usages, units);
    return at;
}

int mr_is_sorted_for(int32_t priority, const mr_pod_entry *pods, const mr_pod_span *span, const mr_class_usage *usages,
                     const mr_unit *units)
{
    const ranks of = {usages, units};
    const int32_t at = span->cut;
    if (at == MR_ANY_CUT) return 1;
    return (at == 0 || priority_of(&pods[at - 1], of) >= priority)
           && (at == span->count || priority_of(&pods[at], of) < priority);
}
