#include "dry_run.h"

#include <stddef.h>
#include <string.h>

void mr_preemptor_read(mr_preemptor *p)
{
    const mr_plan *plan = p->search->plan;
    const mr_shape *shape = p->search->shape;
    const mr_terms *terms = p->search->pod.terms;
    const int fit = mr_filters(plan, MR_NODE_RESOURCES_FIT);
    p->priority = shape->priority;
    p->need_cpu = fit && shape->need_cpu > 0 ? shape->need_cpu : INT64_MIN;
    p->need_memory = fit && shape->need_memory > 0 ? shape->need_memory : INT64_MIN;
    p->slots = fit ? 1 : INT32_MIN;
    p->n_others = fit ? shape->n_others : 0;
    p->ports = shape->n_ports && mr_filters(plan, MR_NODE_PORTS);
    p->spread = terms && terms->n_hard && mr_filters(plan, MR_POD_TOPOLOGY_SPREAD);
    p->inter_pod = terms && !mr_inter_pod_skips(terms) && mr_filters(plan, MR_INTER_POD_AFFINITY);
    p->terms = p->spread || p->inter_pod;
    p->more = p->n_others || p->ports || p->terms;
}

/* The state of a row during a dry run, while pods are removed and added again. */
typedef struct {
    mr_room room;
    int32_t *removed;  /* [matcher] number of removed pods; NULL if no matcher counts any */
    int32_t conflicts; /* 1: a host port of the preemptor is in use */
    int32_t asks;      /* 1: the filters that count pods must be evaluated */
} scene;

/* Updates the matchers for a removed pod (sign 1) or an added one (sign -1). */
static inline void count_removed(const mr_preemptor *p, const scene *s, int32_t pod_class, int32_t sign)
{
    for (int32_t w = 0; w < p->words; w++)
        for (uint64_t bits = p->matches[(int64_t)pod_class * p->words + w]; bits; bits &= bits - 1)
            s->removed[w * 64 + __builtin_ctzll(bits)] += sign;
}

/* Removes a pod (sign 1) or adds it (sign -1), except for its host ports. */
static inline void leave(const mr_preemptor *p, scene *s, int32_t pod_class, int32_t sign)
{
    const mr_class_usage *usage = &p->usages[pod_class];
    s->room.cpu += sign * usage->cpu;
    s->room.memory += sign * usage->memory;
    s->room.slots += sign;
    if (!p->more) return;
    for (int32_t i = 0; i < p->n_others; i++)
        for (int32_t j = 0; j < usage->shape->n_others; j++)
            if (usage->shape->others[j].resource == p->search->shape->others[i].resource)
                s->room.others[i] += sign * usage->shape->others[j].value;
    if (s->asks) count_removed(p, s, pod_class, sign);
}

/* The pods of an entry, all of a unit. */
typedef struct {
    const mr_member *at, *end;
} members;

/* `one` holds the result of an entry that is a pod. */
static inline members members_of(const mr_preemptor *p, int32_t row, const mr_pod_entry *entry, mr_member *one)
{
    if (entry->pod_class < 0) {
        const mr_unit *unit = &p->units[mr_unit_of(entry)];
        return (members){unit->members, unit->members + unit->count};
    }
    *one = (mr_member){entry->start, row, entry->pod_class, entry->number};
    return (members){one, one + 1};
}

/* The counters of a matcher; only affinity has several, one for each key. */
static mr_counter *counter_of(const mr_terms *terms, int32_t matcher, int32_t i)
{
    if (matcher < terms->n_hard) return i ? NULL : terms->hard[matcher].counter;
    matcher -= terms->n_hard;
    if (!matcher) return i < terms->n_affinity ? terms->affinity[i].counter : NULL;
    if (i) return NULL;
    matcher--;
    return matcher < terms->n_anti ? terms->anti[matcher].counter : terms->existing[matcher - terms->n_anti].counter;
}

/* Whether an earlier matcher, which then matches the same pods, has the counter too. */
static int is_shared(const mr_terms *terms, int32_t matcher, const mr_counter *counter)
{
    const mr_counter *other;
    for (int32_t before = 0; before < matcher && before <= terms->n_hard + terms->n_anti; before++)
        for (int32_t i = 0; (other = counter_of(terms, before, i)); i++)
            if (other == counter) return 1;
    return 0;
}

/* Updates the counters of the preemptor's terms for a pod of another row that is removed (sign 1) or added (-1). */
static void count_elsewhere(const mr_preemptor *p, const mr_member *pod, int32_t sign)
{
    const mr_terms *terms = p->search->pod.terms;
    mr_counter *counter;
    for (int32_t w = 0; w < p->words; w++)
        for (uint64_t bits = p->matches[(int64_t)pod->pod_class * p->words + w]; bits; bits &= bits - 1) {
            const int32_t matcher = w * 64 + __builtin_ctzll(bits);
            for (int32_t i = 0; (counter = counter_of(terms, matcher, i)); i++)
                if (!is_shared(terms, matcher, counter)) mr_counter_add(counter, pod->row, -sign, 0);
        }
}

/* `count_elsewhere` for the pods of a unit that are on other rows. */
static void move_elsewhere(const mr_preemptor *p, int32_t row, const mr_unit *unit, int32_t sign)
{
    for (int32_t i = 0; i < unit->count; i++)
        if (unit->members[i].row != row) count_elsewhere(p, &unit->members[i], sign);
    mr_terms_prepare(p->search->pod.terms);
}

/* Removes the pods of an entry (sign 1) or adds them (-1), except for their host ports. `with` is NULL for none. */
static inline void move(const mr_preemptor *p, int32_t row, const mr_pod_entry *entry, int32_t sign, scene *now,
                        scene *with)
{
    mr_member one;
    for (members pods = members_of(p, row, entry, &one); pods.at < pods.end; pods.at++) {
        if (pods.at->row != row) continue;
        leave(p, now, pods.at->pod_class, sign);
        if (with) leave(p, with, pods.at->pod_class, sign);
    }
    if (entry->pod_class < 0 && now->asks) move_elsewhere(p, row, &p->units[mr_unit_of(entry)], sign);
}

static int claims_port(const mr_preemptor *p, const mr_shape *shape)
{
    const mr_shape *own = p->search->shape;
    return mr_ports_conflict(own->ports, own->n_ports, shape->ports, shape->n_ports, p->search->cluster->any_ip);
}

static int frees(const mr_shape *shape, const mr_port *port)
{
    for (int32_t i = 0; i < shape->n_ports; i++)
        if (shape->ports[i].port == port->port && shape->ports[i].protocol == port->protocol
            && shape->ports[i].ip == port->ip)
            return 1;
    return 0;
}

/* Whether one of the pods of an entry that are on the row has a host port of the preemptor. */
static int entry_claims_port(const mr_preemptor *p, int32_t row, const mr_pod_entry *entry)
{
    mr_member one;
    for (members pods = members_of(p, row, entry, &one); pods.at < pods.end; pods.at++)
        if (pods.at->row == row && claims_port(p, p->usages[pods.at->pod_class].shape)) return 1;
    return 0;
}

/* Whether one of the pods of an entry that are on the row has a host port. */
static int entry_frees(const mr_preemptor *p, int32_t row, const mr_pod_entry *entry, const mr_port *port)
{
    mr_member one;
    for (members pods = members_of(p, row, entry, &one); pods.at < pods.end; pods.at++)
        if (pods.at->row == row && frees(p->usages[pods.at->pod_class].shape, port)) return 1;
    return 0;
}

/* Whether a host port of the preemptor is in use after the removal of all the pods. The ports of a row are a set:
 * removing a pod removes its ports even if another pod has them too. A pod with one of the preemptor's ports is thus
 * never added again, and the pods that are do not affect the result. */
static int ports_taken(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n)
{
    const mr_cluster *cluster = p->search->cluster;
    const mr_shape *own = p->search->shape;
    const int32_t set = cluster->port_set[row];
    for (int32_t i = 0; i < cluster->port_count[set]; i++) {
        const mr_port *used = &cluster->ports[cluster->port_first[set] + i];
        int taken = mr_ports_conflict(own->ports, own->n_ports, used, 1, cluster->any_ip);
        for (int32_t j = 0; j < n && taken; j++) taken = !entry_frees(p, row, &pods[j], used);
        if (taken) return 1;
    }
    return 0;
}

/* Whether the preemptor passes the filters that count pods. */
static int terms_pass(const mr_preemptor *p, const scene *s, int32_t row)
{
    if (p->spread && mr_spread_filter(p->search->pod.terms, row, s->removed)) return 0;
    return !p->inter_pod || !mr_inter_pod_filter(p->search->pod.terms, row, s->removed);
}

static int more_fits(const mr_preemptor *p, const scene *s, int32_t row)
{
    const mr_shape *shape = p->search->shape;
    if (s->conflicts) return 0;
    for (int32_t i = 0; i < p->n_others; i++)
        if (shape->others[i].need > 0 && shape->others[i].need > s->room.others[i]
            && !(p->search->pod.ignored >> i & 1)
            && !(p->search->pod.delegated >> i & 1
                 && *mr_other(&p->search->cluster->ledger, row, shape->others[i].resource) == 0))
            return 0;
    return !s->asks || terms_pass(p, s, row);
}

/* Whether the preemptor passes the filters that depend on pods. */
static inline int fits(const mr_preemptor *p, const scene *s, int32_t row)
{
    if (p->need_cpu > s->room.cpu || p->need_memory > s->room.memory || p->slots > s->room.slots) return 0;
    return !p->more || more_fits(p, s, row);
}

/* The verdict of all filters. */
static uint64_t judge(const mr_preemptor *p, const scene *s, int32_t row)
{
    const mr_search *search = p->search;
    for (int32_t i = 0; i < search->plan->n_filters; i++) {
        const int32_t kernel = search->plan->filters[i];
        uint64_t reasons;
        switch (kernel) {
        case MR_NODE_PORTS: reasons = (uint64_t)s->conflicts; break;
        case MR_NODE_RESOURCES_FIT:
            reasons = mr_fit_filter_in(search->plan, search->cluster, search->shape, &search->pod, row, &s->room);
            break;
        case MR_POD_TOPOLOGY_SPREAD:
            reasons = p->spread ? mr_spread_filter(search->pod.terms, row, s->removed) : 0;
            break;
        case MR_INTER_POD_AFFINITY:
            reasons = p->inter_pod ? mr_inter_pod_filter(search->pod.terms, row, s->removed) : 0;
            break;
        default: reasons = mr_filter(kernel, search->plan, search->cluster, search->shape, &search->pod, row);
        }
        if (reasons) return (uint64_t)(i + 1) << MR_VERDICT_SHIFT | reasons;
    }
    return 0;
}

static inline int32_t budgets_of(const mr_budgets *b, const mr_pod_entry *pods, int32_t first, int32_t j)
{
    return b->of_pod ? b->of_pod[first + j] : b->of_class[pods[j].pod_class];
}

/* Whether the eviction of one more pod of a set violates a budget. */
static inline int takes_too_many(const mr_budgets *b, int32_t set)
{
    int violates = 0;
    for (int32_t i = 0; i < b->count[set]; i++) {
        const int32_t budget = b->members[b->first[set] + i];
        violates |= ++b->taken[budget] > b->allowed[budget];
        if (violates && b->stops) break;
    }
    return violates;
}

static inline void give_back(const mr_budgets *b, int32_t set)
{
    for (int32_t i = 0; i < b->count[set]; i++) b->taken[b->members[b->first[set] + i]] = 0;
}

/* `mark_violating` where entries may be units: also counts the violations of each entry. */
static void count_violating(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t first, int32_t n)
{
    const mr_budgets *b = p->budgets;
    mr_member one;
    int32_t before = 0;
    for (int32_t j = -first; j < 0; j++) before += pods[j].pod_class < 0 ? p->units[mr_unit_of(&pods[j])].count : 1;
    for (int32_t j = 0, at = before; j < n; j++) {
        p->costs[j] = 0;
        for (members its = members_of(p, row, &pods[j], &one); its.at < its.end; its.at++, at++)
            p->costs[j] += takes_too_many(b, b->of_pod ? b->of_pod[at] : b->of_class[its.at->pod_class]);
        p->violating[j / 64] |= (uint64_t)(p->costs[j] > 0) << j % 64;
    }
    for (int32_t j = 0, at = before; j < n; j++)
        for (members its = members_of(p, row, &pods[j], &one); its.at < its.end; its.at++, at++)
            give_back(b, b->of_pod ? b->of_pod[at] : b->of_class[its.at->pod_class]);
}

/* Marks the pods whose eviction violates a budget, in order of importance (filterPodsWithPDBViolation). */
static void mark_violating(const mr_preemptor *p, const mr_pod_entry *pods, int32_t first, int32_t n)
{
    const mr_budgets *b = p->budgets;
    if (b->only) {
        for (int32_t j = 0; j < n; j++) {
            const int32_t budget = b->only[budgets_of(b, pods, first, j)];
            p->violating[j / 64] |= (uint64_t)(++b->taken[budget] > b->allowed[budget]) << j % 64;
        }
        for (int32_t j = 0; j < n; j++) b->taken[b->only[budgets_of(b, pods, first, j)]] = 0;
        return;
    }
    for (int32_t j = 0; j < n; j++)
        p->violating[j / 64] |= (uint64_t)takes_too_many(b, budgets_of(b, pods, first, j)) << j % 64;
    for (int32_t j = 0; j < n; j++) give_back(b, budgets_of(b, pods, first, j));
}

/* Whether some of the pods are counted by the preemptor's terms. */
static inline int counts_any(const mr_preemptor *p, const mr_pod_entry *pods, int32_t n)
{
    uint64_t bits = 0;
    for (int32_t j = 0; j < n && p->words == 1; j++) bits |= p->matches[pods[j].pod_class];
    for (int32_t j = 0; j < n && p->words > 1; j++)
        for (int32_t w = 0; w < p->words; w++) bits |= p->matches[(int64_t)pods[j].pod_class * p->words + w];
    return bits != 0;
}

/* `counts_any` where entries may be units. */
static int counts_any_of(const mr_preemptor *p, int32_t row, const mr_pod_entry *entries, int32_t n)
{
    mr_member one;
    if (!p->units) return counts_any(p, entries, n);
    for (int32_t j = 0; j < n; j++)
        for (members pods = members_of(p, row, &entries[j], &one); pods.at < pods.end; pods.at++)
            for (int32_t w = 0; w < p->words; w++)
                if (p->matches[(int64_t)pods.at->pod_class * p->words + w]) return 1;
    return 0;
}

/* Whether the preemptor still fits after an entry was added again. Pods that no matcher counts cannot change the result
 * of the filters that count pods. */
static inline int still_fits(const mr_preemptor *p, scene *s, int32_t row, const mr_pod_entry *entry)
{
    const int asks = s->asks;
    s->asks = asks && counts_any_of(p, row, entry, 1);
    const int fit = fits(p, s, row);
    s->asks = asks;
    return fit;
}

/* Adds entries again, most important first, as long as the preemptor fits; the others become victims. `which`: those
 * whose eviction violates a budget (1) or does not (0). `with` is the row with its nominated pods; NULL for none. */
static void reprieve(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n, int which, scene *now,
                     scene *with)
{
    for (int32_t j = 0; j < n; j++) {
        if ((int)(p->violating[j / 64] >> j % 64 & 1) != which) continue;
        move(p, row, &pods[j], -1, now, with);
        if (still_fits(p, now, row, &pods[j]) && (!with || still_fits(p, with, row, &pods[j]))
            && !(p->ports && entry_claims_port(p, row, &pods[j])))
            continue;
        move(p, row, &pods[j], 1, now, with);
        p->victims[j / 64] |= 1ull << j % 64;
    }
}

static void sum_up(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t words, mr_eviction *out)
{
    int64_t most = INT64_MIN;
    mr_member one;
    out->victims = out->violations = 0;
    out->sum = 0;
    for (int32_t w = 0; w < words; w++) {
        for (uint64_t bits = p->victims[w]; bits; bits &= bits - 1) {
            const int32_t j = w * 64 + __builtin_ctzll(bits);
            const int is_first = !out->victims;
            for (members its = members_of(p, row, &pods[j], &one); its.at < its.end; its.at++, out->victims++) {
                const int32_t priority = p->usages[its.at->pod_class].priority;
                out->sum += priority + (1ll << 31);
                if (priority > most || (priority == most && its.at->start < out->start)) {
                    most = priority;
                    out->start = its.at->start;
                }
            }
            if (is_first) out->highest = (int32_t)most;
            if (p->units && p->budgets) out->violations += p->costs[j];
        }
        if (!p->units) out->violations += __builtin_popcountll(p->victims[w] & p->violating[w]);
    }
}

/* Restores the counters of the preemptor's terms: of the units in `victims`, or of all if it is NULL. */
static void restore_elsewhere(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n,
                              const uint64_t *victims)
{
    for (int32_t j = 0; j < n; j++)
        if (pods[j].pod_class < 0 && (!victims || victims[j / 64] >> j % 64 & 1))
            move_elsewhere(p, row, &p->units[mr_unit_of(&pods[j])], -1);
}

/* Initializes `with` as the row `now` with the pods that are nominated to it added. */
static void nominate(const mr_preemptor *p, const scene *now, scene *with)
{
    with->room = now->room;
    with->removed = p->removed_with;
    with->conflicts = now->conflicts;
    with->asks = p->terms;
    if (p->terms)
        memcpy(p->removed_with, p->removed, (size_t)mr_matchers(p->search->pod.terms) * sizeof *p->removed);
    for (int32_t j = 0; j < p->n_nominated; j++) {
        leave(p, with, p->nominated[j], -1);
        with->conflicts |= p->ports && claims_port(p, p->usages[p->nominated[j]].shape);
    }
}

/* Whether the filters that count pods reject a row whichever pods are removed; also sets now->asks. */
static inline int is_rejected_anyway(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n,
                                     scene *now)
{
    now->removed = NULL;
    now->asks = p->terms && (p->n_nominated || counts_any_of(p, row, pods, n));
    if (!now->asks) return p->terms && !terms_pass(p, now, row);
    now->removed = p->removed;
    memset(p->removed, 0, (size_t)mr_matchers(p->search->pod.terms) * sizeof *p->removed);
    return 0;
}

/* Initializes `now` as the row without the pods. */
static void clear(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n, scene *now)
{
    mr_room_read(&now->room, p->search->cluster, p->search->shape, row);
    for (int32_t j = 0; j < n; j++) move(p, row, &pods[j], 1, now, NULL);
    now->conflicts = p->ports && ports_taken(p, row, pods, n);
}

/* The verdict on a row without the pods; 0 if the preemptor fits. */
static uint64_t verdict_without(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n, scene *now,
                                scene *with)
{
    int rejected = is_rejected_anyway(p, row, pods, n, now);
    uint64_t verdict = 0;
    if (rejected && p->settled && !p->explains) return 1;
    clear(p, row, pods, n, now);
    if (with) nominate(p, now, with);
    rejected = rejected || !fits(p, now, row) || (with && !fits(p, with, row));
    if (p->settled && !(rejected && p->explains)) return (uint64_t)rejected;
    if (with) verdict = judge(p, with, row);
    return verdict ? verdict : judge(p, now, row);
}

/* Free resources of a row beyond the preemptor's requests, and the totals of its victims so far. */
typedef struct {
    int64_t cpu, memory, slots, sum, victims;
} headroom;

/* `reprieve` of the pods in `bits` if only cpu, memory and number of pods matter; returns the victims as bits. `asks`
 * masks out resources that the preemptor does not request. Branches would be unpredictable, so there are none. */
MR_INLINED uint64_t reprieve_resources_only(const mr_class_usage *usages, const headroom *asks,
                                            const mr_pod_entry *pods, uint64_t bits, headroom *left)
{
    uint64_t victims = 0;
    headroom t = *left;
    for (; bits; bits &= bits - 1) {
        const mr_class_usage *usage = &usages[pods[__builtin_ctzll(bits)].pod_class];
        const int64_t cpu = usage->cpu & asks->cpu, memory = usage->memory & asks->memory;
        t.cpu -= cpu;
        t.memory -= memory;
        t.slots -= asks->slots;
        const int64_t goes = (t.cpu | t.memory | t.slots) >> 63; /* all bits, or none */
        t.cpu += cpu & goes;
        t.memory += memory & goes;
        t.slots += asks->slots & goes;
        t.sum += usage->priority & goes;
        t.victims -= goes;
        victims |= bits & -bits & (uint64_t)goes;
    }
    *left = t;
    return victims;
}

/* The headroom of a row with all its pods. */
MR_INLINED headroom room_beyond(const mr_preemptor *p, int32_t row, const headroom *asks)
{
    const mr_ledger *ledger = &p->search->cluster->ledger;
    const int64_t cpu = mr_row_value(ledger, row, 0) - mr_row_value(ledger, row, 2) - p->need_cpu;
    const int64_t memory = mr_row_value(ledger, row, 1) - mr_row_value(ledger, row, 3) - p->need_memory;
    const int64_t slots = (int64_t)ledger->rows[row].pods_max - ledger->rows[row].pods - p->slots;
    return (headroom){.cpu = cpu & asks->cpu, .memory = memory & asks->memory, .slots = asks->slots ? slots : 0};
}

MR_INLINED int is_short(const headroom *left)
{
    return (left->cpu | left->memory | left->slots) < 0;
}

/* Removes the pods in `bits`, least important first, until the preemptor fits; returns the removed pods as bits. */
MR_INLINED uint64_t remove_until_fit(const mr_preemptor *p, const headroom *asks, const mr_pod_entry *pods,
                                     uint64_t bits, headroom *left, int *last)
{
    const uint64_t all = bits;
    while (bits && is_short(left)) {
        const int at = 63 - __builtin_clzll(bits);
        const mr_class_usage *usage = &p->usages[pods[at].pod_class];
        if (pods[at].priority >= p->priority) break;
        left->cpu += usage->cpu & asks->cpu;
        left->memory += usage->memory & asks->memory;
        left->slots += asks->slots;
        bits ^= 1ull << at;
        *last = at;
    }
    return all ^ bits;
}

/* Index of the first entry of a row with a lower priority than the preemptor. */
MR_INLINED int32_t first_below(const mr_preemptor *p, const mr_pod_entry *pods, int32_t n)
{
    while (n && pods[n - 1].priority < p->priority) n--;
    return n;
}

enum { LET_IN, REJECTED, IT_DEPENDS };

/* The result of the filters that count pods for any subset of less important pods removed. Spread and anti-affinity are
 * monotonic: if they pass with all pods on the row, they always pass. Affinity that is met with all of the pods and
 * with none of them is met with any subset. */
static int terms_verdict(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n)
{
    const mr_terms *terms = p->search->pod.terms;
    scene now;
    now.removed = NULL;
    if (p->inter_pod && terms->n_affinity && mr_affinity_rejects(terms, row)) return REJECTED;
    const int before = terms_pass(p, &now, row);
    if (before && mr_affinity_met(terms, row, n)) return LET_IN;
    const int32_t first = first_below(p, pods, n);
    if (!counts_any(p, pods + first, n - first)) return before ? LET_IN : REJECTED;
    if (!before) return IT_DEPENDS;
    now.removed = p->removed;
    memset(p->removed, 0, (size_t)mr_matchers(terms) * sizeof *p->removed);
    for (int32_t j = first; j < n; j++) count_removed(p, &now, pods[j].pod_class, 1);
    return terms_pass(p, &now, row) ? LET_IN : REJECTED;
}

/* Adds removed pods again while the preemptor fits, except the last removed one, which is a victim; returns all victims
 * as bits. */
MR_INLINED uint64_t find_victims(const mr_preemptor *p, const headroom *asks, const mr_pod_entry *pods,
                                 uint64_t removed, uint64_t violating, int last, headroom *left)
{
    uint64_t victims = 1ull << last;
    if (!removed) return 0;
    left->victims = 1;
    left->sum = p->usages[pods[last].pod_class].priority;
    removed ^= victims;
    if (violating) victims |= reprieve_resources_only(p->usages, asks, pods, removed & violating, left);
    return victims | reprieve_resources_only(p->usages, asks, pods, removed & ~violating, left);
}

/* The earliest start of the victims whose own priority is the highest. Without groups that is the first of them. */
static int64_t start_of_highest(const mr_class_usage *usages, const mr_pod_entry *pods, uint64_t victims)
{
    int64_t start = MR_NOT_STARTED;
    int32_t most = INT32_MIN;
    for (; victims; victims &= victims - 1) {
        const mr_pod_entry *pod = &pods[__builtin_ctzll(victims)];
        const int32_t priority = usages[pod->pod_class].priority;
        if (priority > most || (priority == most && pod->start < start)) start = pod->start;
        if (priority > most) most = priority;
    }
    return start;
}

/* `mr_dry_run` of a row with few pods if only cpu, memory and number of pods matter and no exact verdict is needed;
 * returns 0 if that is not so. Pods are removed from the least important on, until the preemptor fits. More important
 * pods would all be added again, so they are not removed; the pod removed last is a victim. `alone`: there are neither
 * budgets nor terms. */
MR_INLINED int dry_run_resources_only(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n, int alone,
                                      mr_eviction *out, uint64_t *bits)
{
    const headroom asks = {.cpu = -(int64_t)(p->need_cpu > 0), .memory = -(int64_t)(p->need_memory > 0),
                        .slots = p->slots > 0};
    uint64_t violating = 0;
    int32_t first = n > 64 ? n - 64 : 0;
    int last = 0;
    out->verdict = 1;
    out->victims = 0;
    if (!alone && p->terms) {
        const int verdict = terms_verdict(p, row, pods, n);
        if (verdict != LET_IN) return verdict == REJECTED;
    }
    if (!alone && p->budgets) {
        first = first_below(p, pods, n);
        if (n - first > 64) return 0;
    }
    pods += first;
    n -= first;
    if (!alone && p->budgets) {
        p->violating[0] = 0;
        mark_violating(p, pods, first, n);
        violating = p->violating[0];
    }
    const uint64_t all = n ? ~0ull >> (64 - n) : 0;
    headroom left = room_beyond(p, row, &asks);
    uint64_t removed = remove_until_fit(p, &asks, pods, all & ~violating, &left, &last);
    if (violating) removed |= remove_until_fit(p, &asks, pods, violating, &left, &last);
    if (is_short(&left)) return !first || removed != all || pods[-1].priority >= p->priority;
    const uint64_t victims = *bits = find_victims(p, &asks, pods, removed, violating, last, &left);
    out->verdict = 0;
    out->first = first;
    out->victims = (int32_t)left.victims;
    out->sum = left.sum + (left.victims << 31);
    out->violations = violating ? __builtin_popcountll(victims & violating) : 0;
    /* Without victims these fields are not read. */
    const mr_pod_entry *most = &pods[victims ? __builtin_ctzll(victims) : 0];
    out->highest = p->usages[most->pod_class].priority;
    out->start = p->has_groups ? start_of_highest(p->usages, pods, victims) : most->start;
    return 1;
}

static inline int is_alone(const mr_preemptor *p)
{
    return !p->budgets && !p->terms;
}

static int is_plain(const mr_preemptor *p)
{
    return !p->n_others && !p->ports && !p->n_nominated && p->settled && !p->explains && p->adds_up && !p->units;
}

static void dry_run_all_filters(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n,
                                mr_eviction *out)
{
    scene now, with, *also = p->n_nominated ? &with : NULL;
    const int32_t first = first_below(p, pods, n);
    out->first = first;
    out->victims = 0;
    n -= first;
    pods += first;
    now.asks = 0;
    out->verdict = n ? verdict_without(p, row, pods, n, &now, also) : MR_NO_VICTIMS;
    if (out->verdict) {
        if (p->units && now.asks) restore_elsewhere(p, row, pods, n, NULL);
        return;
    }
    const int32_t words = (n + 63) / 64;
    memset(p->victims, 0, (size_t)words * sizeof *p->victims);
    memset(p->violating, 0, (size_t)words * sizeof *p->violating);
    if (p->budgets) {
        if (p->units) count_violating(p, row, pods, first, n);
        else mark_violating(p, pods, first, n);
        reprieve(p, row, pods, n, 1, &now, also);
    }
    reprieve(p, row, pods, n, 0, &now, also);
    sum_up(p, row, pods, words, out);
    if (p->units && now.asks) restore_elsewhere(p, row, pods, n, p->victims);
}

void mr_dry_run(const mr_preemptor *p, int32_t row, const mr_pod_entry *pods, int32_t n, mr_eviction *out)
{
    if (!is_plain(p) || !dry_run_resources_only(p, row, pods, n, is_alone(p), out, p->victims))
        dry_run_all_filters(p, row, pods, n, out);
}

/* dry_run_resources_only for the rows in `bits`; returns the rows, as bits, that need mr_dry_run. */
MR_INLINED uint64_t dry_runs_resources_only(const mr_preemptor *p, const int32_t *order, const mr_pod_span *spans,
                                     const mr_pod_entry *entries, uint64_t bits, int alone,
                                     mr_eviction *restrict results)
{
    uint64_t others = 0, victims;
    for (; bits; bits &= bits - 1) {
        const int32_t at = __builtin_ctzll(bits), row = order[at];
        const mr_pod_span *span = &spans[row];
        if (!dry_run_resources_only(p, row, entries + span->first, span->count, alone, &results[at], &victims))
            others |= bits & -bits;
    }
    return others;
}

MR_DISPATCHED
void mr_dry_runs(const mr_preemptor *p, const int32_t *order, const mr_pod_span *spans, const mr_pod_entry *entries,
                 uint64_t bits, mr_eviction *restrict results)
{
    if (is_plain(p))
        bits = is_alone(p) ? dry_runs_resources_only(p, order, spans, entries, bits, 1, results)
                           : dry_runs_resources_only(p, order, spans, entries, bits, 0, results);
    for (; bits; bits &= bits - 1) {
        const int32_t at = __builtin_ctzll(bits), row = order[at];
        dry_run_all_filters(p, row, entries + spans[row].first, spans[row].count, &results[at]);
    }
}
