#include "dry_run.h"

#include <stddef.h>
#include <string.h>

/* Whether a must precede b, which preceded it so far. */
static inline int goes_before(const mr_pod_entry *a, const mr_pod_entry *b)
{
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->members != b->members) return a->members > b->members;
    return a->start < b->start;
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
static void move_up(mr_pod_entry *entry, const mr_pod_entry *start)
{
    for (; entry > start && goes_before(entry, entry - 1); entry--) exchange(entry, entry - 1);
}

static void sort_by_insertion(part p)
{
    for (mr_pod_entry *entry = p.at + 1; entry < p.end; entry++) move_up(entry, p.at);
}

/* Moves an entry of a heap of n entries, the last one at its top, down to its place. */
static void sink(mr_pod_entry *heap, ptrdiff_t entry, ptrdiff_t n)
{
    for (ptrdiff_t child; (child = 2 * entry + 1) < n; entry = child) {
        if (child + 1 < n && goes_before(&heap[child], &heap[child + 1])) child++;
        if (!goes_before(&heap[entry], &heap[child])) return;
        exchange(&heap[entry], &heap[child]);
    }
}

static void sort_as_heap(part p)
{
    const ptrdiff_t n = p.end - p.at;
    for (ptrdiff_t entry = (n - 1) / 2; entry >= 0; entry--) sink(p.at, entry, n);
    for (ptrdiff_t last = n - 1; last >= 0; last--) {
        exchange(p.at, &p.at[last]);
        sink(p.at, 0, last);
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
static mr_pod_entry *median_of(mr_pod_entry *a, mr_pod_entry *b, mr_pod_entry *c, int *moves)
{
    mr_pod_entry *other;
    if (goes_before(b, a)) other = a, a = b, b = other, ++*moves;
    if (goes_before(c, b)) other = b, b = c, c = other, ++*moves;
    if (goes_before(b, a)) b = a, ++*moves;
    return b;
}

/* Chooses a pivot. `moves` becomes 0 if the part seems to be in order, and MOST_MOVES if in reverse order. */
static mr_pod_entry *pivot_of(part p, int *moves)
{
    const ptrdiff_t n = p.end - p.at, step = n / 4;
    mr_pod_entry *a = p.at + step, *b = a + step, *c = b + step;
    *moves = 0;
    if (n >= SAMPLED_TWICE) {
        a = median_of(a - 1, a, a + 1, moves);
        b = median_of(b - 1, b, b + 1, moves);
        c = median_of(c - 1, c, c + 1, moves);
    }
    return median_of(a, b, c, moves);
}

static void reverse(part p)
{
    for (; p.at < --p.end; p.at++) exchange(p.at, p.end);
}

/* Mends a part that is nearly in order; whether it is in order then. */
static int is_mended(part p)
{
    mr_pod_entry *entry = p.at + 1;
    for (int i = 0; i < MENDED; i++) {
        while (entry < p.end && !goes_before(entry, entry - 1)) entry++;
        if (entry == p.end) return 1;
        if (p.end - p.at < SAMPLED_TWICE) return 0;
        exchange(entry, entry - 1);
        move_up(entry - 1, p.at);
        for (mr_pod_entry *next = entry + 1; next < p.end && goes_before(next, next - 1); next++)
            exchange(next, next - 1);
    }
    return 0;
}

/* Moves the entries that equal the first one, which none goes before, to the start of a part; returns their end. */
static mr_pod_entry *gather_equal(part p)
{
    mr_pod_entry *left = p.at + 1, *right = p.end - 1;
    for (;; exchange(left++, right--)) {
        while (left <= right && !goes_before(p.at, left)) left++;
        while (left <= right && goes_before(p.at, right)) right--;
        if (left > right) return left;
    }
}

/* Cuts a part at its first entry, and returns where this entry is then: those that go before it come first. */
static mr_pod_entry *cut(part p, int *exchanged)
{
    mr_pod_entry *left = p.at + 1, *right = p.end - 1;
    for (*exchanged = 0;; *exchanged = 1, exchange(left++, right--)) {
        while (left <= right && goes_before(left, p.at)) left++;
        while (left <= right && !goes_before(right, p.at)) right--;
        if (left > right) break;
    }
    exchange(right, p.at);
    return right;
}

/* Sorts a part of the array that begins at `start`. */
static void sort_part(part p, const mr_pod_entry *start, int lots)
{
    progress last = {lots, 1, 1};
    for (;;) {
        const ptrdiff_t n = p.end - p.at;
        int moves, exchanged;
        if (n <= SMALL) {
            sort_by_insertion(p);
            return;
        }
        if (!last.lots) {
            sort_as_heap(p);
            return;
        }
        if (!last.balanced) {
            shuffle(p);
            last.lots--;
        }
        mr_pod_entry *pivot = pivot_of(p, &moves);
        if (moves == MOST_MOVES) {
            reverse(p);
            pivot = p.end - 1 - (pivot - p.at);
            moves = 0;
        }
        if (last.balanced && last.in_order && !moves && is_mended(p)) return;
        exchange(p.at, pivot);
        if (p.at > start && !goes_before(p.at - 1, p.at)) {
            p.at = gather_equal(p);
            continue;
        }
        pivot = cut(p, &exchanged);
        last.in_order = !exchanged;
        const part before = {p.at, pivot}, after = {pivot + 1, p.end};
        const int is_left = pivot - p.at < p.end - pivot;
        const ptrdiff_t shorter = is_left ? pivot - p.at : p.end - pivot;
        last.balanced = shorter >= n / 8;
        sort_part(is_left ? before : after, start, last.lots);
        p = is_left ? after : before;
    }
}

void mr_sort_as_upstream(mr_pod_entry *pods, int32_t n)
{
    sort_part((part){pods, pods + n}, pods, width_of(n));
}

static int are_in_order(const mr_pod_entry *pods, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (goes_before(&pods[i], &pods[i - 1])) return 0;
    return 1;
}

/* Whether two of some entries that are in order are equal. */
static int are_any_equal(const mr_pod_entry *pods, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (!goes_before(&pods[i - 1], &pods[i])) return 1;
    return 0;
}

int32_t mr_sort_for(int32_t priority, mr_pod_entry *pods, int32_t n, mr_pod_entry *scratch)
{
    int32_t lower = 0, at;
    if (are_in_order(pods, n)) return MR_ANY_CUT;
    memcpy(scratch, pods, (size_t)n * sizeof *pods);
    mr_sort_as_upstream(pods, n);
    if (n <= SMALL || !are_any_equal(pods, n)) return MR_ANY_CUT;
    for (at = n; at && pods[at - 1].priority < priority; at--) lower++;
    for (int32_t i = 0, to = at; i < n; i++)
        if (scratch[i].priority < priority) pods[to++] = scratch[i];
    mr_sort_as_upstream(pods + at, lower);
    return at;
}

int mr_is_sorted_for(int32_t priority, const mr_pod_entry *pods, const mr_pod_span *span)
{
    const int32_t at = span->cut;
    if (at == MR_ANY_CUT) return 1;
    return (at == 0 || pods[at - 1].priority >= priority)
           && (at == span->count || pods[at].priority < priority);
}
