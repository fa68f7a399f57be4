"""Candidates: all that is kept equals a recomputation, what is decided by it is what a search finds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import NIGHTLY
from tests.core._kernels import ffi, lib
from tests.core.candidates_world import KINDS, PREFERRED, WHOLE, Kept
from tests.core.decide.test_scan import make_search
from tests.core.kernel_world import World
from tests.core.twins.kernel_twins import Row, Shape
from tests.make import node, pod

from moorage import Scheduler
from moorage.kube import (
    Affinity,
    Cluster,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)

CHECKED = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 2**64)
sizes = st.sampled_from([1, 2, 63, 64, 65, 200, 511, 512, 513, 700])
large = st.sampled_from([WHOLE - 1, WHOLE, WHOLE + 1, 2 * WHOLE + 700])
labels = st.lists(st.sampled_from(["zone", "host"]), max_size=2)
terms = st.one_of(
    st.just(dict[str, list[str]]()), st.dictionaries(st.sampled_from(KINDS), labels, max_size=4)
)


@CHECKED
@given(seeds, sizes, terms)
def test_what_is_kept(seed: int, n: int, terms: dict[str, list[str]]) -> None:
    random = Random(seed)
    kept = Kept(random, n, terms)
    for _ in range(6):
        if kept.candidates.state != lib.MR_VALID:
            break
        kept.check()
        for _ in range(random.choice([1, 1, 100])):
            kept.change(random.randrange(n))


def check_decisions(kept: Kept, count: int) -> None:
    random, n, decided = kept.random, kept.n, 0
    for _ in range(count):
        if kept.candidates.state != lib.MR_VALID:
            kept.candidates = kept.build()
        if kept.candidates.state == lib.MR_UNSUITED:
            break
        start = random.choice([0, n - 1, random.randrange(n)])
        wanted = random.choice(
            [1, n, n + 1, random.randrange(1, n + 1), random.randrange(1, min(n, 100) + 1)]
        )
        for heap in (False, True):
            assert kept.decide(start, wanted, heap) == kept.search_for(start, wanted, heap), (start, wanted)
            decided += 1
        for _ in range(random.choice([0, 1, 5])):
            kept.change(random.randrange(n))
    kept.decided = decided


@pytest.mark.parametrize("labels", [["zone", "host"], ["host", "zone"]])
@pytest.mark.parametrize("kind", ["affinity", "anti", "existing"])
def test_terms_of_few_and_of_many_domains(kind: str, labels: list[str]) -> None:
    """Buckets tell few domains apart by their values; what terms of single nodes say is a flag."""
    for seed in range(5):
        kept = Kept(Random(seed), 200, {kind: labels}, lacking=0.1, plain=True)
        check_decisions(kept, 5)
        assert kept.decided == 10


@CHECKED
@given(seeds, sizes, terms)
def test_what_is_decided(seed: int, n: int, terms: dict[str, list[str]]) -> None:
    check_decisions(Kept(Random(seed), n, terms), 30)


@settings(deadline=None, max_examples=6)
@given(seeds, large, st.sampled_from([{}, {"soft": ["zone", "host"]}, {"hard": ["zone"]}]))
def test_large_lists_of_candidates_decide_as_a_search_does(
    seed: int, n: int, terms: dict[str, list[str]]
) -> None:
    kept = Kept(Random(seed), n, terms)
    check_decisions(kept, 20 if NIGHTLY else 6)
    if kept.candidates.state == lib.MR_VALID:
        kept.check()


def put(kept: Kept, at: int, values: list[int]) -> None:
    """Another use of a node."""
    cluster = kept.search.cluster
    ledger = ffi.addressof(cluster.ledger)
    lib.mr_row_set(ledger, at, values)
    lib.mr_columns_set(kept.search.columns, at, ledger, cluster.taint_set, at)
    lib.mr_candidates_refresh(kept.candidates, at)


FULL, HALF, EMPTY = [1, 1, 9, 9, 9, 9], [100, 100, 50, 50, 50, 50], [100, 100, 0, 0, 0, 0]


@settings(deadline=None, max_examples=20)
@given(seeds, st.sampled_from([200, 513, 700, 2 * WHOLE + 700]), st.sampled_from([0.0, 0.3, 3.0]))
def test_candidates_with_equal_totals_are_chosen_as_by_gos_heap(seed: int, n: int, full: float) -> None:
    """Nodes with few different totals, which Go's heap orders by its levels."""
    kept = Kept(Random(seed), n, {}, plain=True)
    for _ in range(int(full * n)):
        put(kept, kept.random.randrange(n), FULL)
    check_decisions(kept, 30)


@settings(deadline=None, max_examples=3)
@given(seeds)
def test_few_ties_among_unevenly_full_nodes(seed: int) -> None:
    """Stretches without ties are stepped over by the numbers of their feasible nodes."""
    kept = Kept(Random(seed), WHOLE + 700, {}, plain=True)
    random = kept.random
    for first in range(0, kept.n, lib.MR_LANES):
        share = random.random()
        for at in range(first, min(first + lib.MR_LANES, kept.n)):
            put(kept, at, FULL if random.random() < share else HALF)
    for _ in range(40):
        put(kept, random.randrange(kept.n), EMPTY)
    for _ in range(20):
        start = random.randrange(kept.n)
        assert kept.decide(start, kept.n, True) == kept.search_for(start, kept.n, True)


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**64 - 1))
def test_each_form_of_the_bit_operations_gives_the_same(w: int, mask: int) -> None:
    places = [place for place in range(64) if mask >> place & 1]
    assert [lib.mr_nth_bit(mask, k) for k in range(len(places))] == places
    assert [lib.mr_nth_bit_portable(mask, k) for k in range(len(places))] == places
    extracted = sum((w >> place & 1) << k for k, place in enumerate(places))
    assert lib.mr_extract(w & mask, mask) == lib.mr_extract_portable(w & mask, mask) == extracted


@given(st.lists(st.integers(0, 3), min_size=64, max_size=64), st.integers(0, 3))
def test_lanes_equal_to_a_value_are_its_set_bits(lanes: list[int], value: int) -> None:
    equal = sum(1 << at for at, lane in enumerate(lanes) if lane == value)
    assert lib.mr_equal_lanes(lanes, value) == equal


def made_of(terms: dict[str, list[str]], n: int = 300) -> int:
    """What becomes of candidates whose rows all have all labels."""
    kept = Kept(Random(1), n, terms, lacking=0.0)
    state: int = kept.candidates.state
    if state == lib.MR_VALID:
        check_decisions(kept, 3)
        assert kept.decided == 6
    return state


@pytest.mark.parametrize("kind", KINDS)
def test_labels_with_many_values_on_several_nodes_do_not_suit(kind: str) -> None:
    assert made_of({kind: ["zone"]}) == made_of({kind: ["host"]}) == lib.MR_VALID
    assert made_of({kind: ["rack"]}) == lib.MR_UNSUITED


def test_too_many_buckets_do_not_suit() -> None:
    kept = Kept(Random(2), 1000, {"hard": ["host"]}, lacking=0.0, plain=True)
    before = max(kept.counters[0].pods[2:1002])
    states = []
    for at in range(400):
        lib.mr_counter_add(kept.counters[0], at, before + at, 0)
        if kept.candidates.state == lib.MR_VALID:
            lib.mr_candidates_refresh(kept.candidates, at)
        if kept.candidates.state == lib.MR_MORE_BUCKETS:
            kept.candidates = kept.build()
            states.append(kept.candidates.stride)
    assert states == [16, 32, 64, 128, 256]
    assert kept.candidates.state == kept.build().state == lib.MR_UNSUITED


def suits(search: Any) -> bool:
    return bool(lib.mr_candidates_suit(search))


def test_candidates_are_kept_for_searches_that_suit_alone() -> None:
    world = World()
    search = make_search(world, [Row()], Shape(preferred=PREFERRED), world.plan())
    assert suits(search)
    search.pod.terms = world.new("mr_terms *")
    assert suits(search)
    search.pod.terms.affinity_off = 1
    assert not suits(search)
    search.pod.terms = ffi.NULL
    search.columns = ffi.NULL
    assert not suits(search)


@pytest.mark.parametrize("kind", KINDS)
def test_terms_do_not_suit_a_scan(kind: str) -> None:
    """Whether they matter may change with the next pod."""
    with_terms, without = (Kept(Random(1), 5, terms, plain=True) for terms in ({kind: ["zone"]}, {}))
    with_terms.search.nominated = without.search.nominated = ffi.NULL
    assert lib.mr_scan_suits(without.search)
    assert not lib.mr_scan_suits(with_terms.search)


@pytest.mark.parametrize("kind", ["filters", "scores"])
def test_other_plugins_do_not_suit(kind: str) -> None:
    world = World()
    search = make_search(world, [Row()], Shape(), world.plan())
    plan = world.new("mr_plan *", search.plan[0])
    search.plan = plan
    assert suits(search)
    getattr(plan, kind)[0] = lib.MR_EXTERNAL
    assert not suits(search)


@pytest.mark.parametrize(
    ("weight", "state"), [(100, lib.MR_VALID), (400, lib.MR_UNSUITED), (-1, lib.MR_UNSUITED)]
)
def test_totals_out_of_range_do_not_suit(weight: int, state: int) -> None:
    kept = Kept(Random(1), 5, {}, plain=True, scores={"MR_NODE_RESOURCES_FIT": weight})
    assert kept.candidates.state == state


# ---- following the change log


def test_candidates_follow_the_rows_of_the_change_log() -> None:
    kept = Kept(Random(3), 100, {}, plain=True)
    c, changes = kept.candidates, kept.changes
    kinds, ids = kept.world.new("uint8_t[4]"), kept.world.new("int32_t[4]")
    changes.kind, changes.id, changes.mask, changes.rows = kinds, ids, 3, 100
    changes.position = kept.world.array("int32_t", [*range(1, 101), 1])  # of 100 rows
    kept.search.cluster.ledger.rows[0].pods += 500
    kept.search.cluster.ledger.rows[7].pods += 500
    ids[0], changes.head = 7, 1
    lib.mr_candidates_follow(c, changes)
    assert (c.state, c.cursor, c.totals[7]) == (lib.MR_VALID, 1, 0)
    kinds[1], ids[1], kinds[2], ids[2], changes.head = 3, 99999, lib.MR_LOG_STATIC, 100, 3
    lib.mr_candidates_follow(c, changes)  # neither concerns a row of the list
    assert (c.state, c.cursor) == (lib.MR_VALID, 3)
    assert c.totals[0]
    kinds[3], changes.head = lib.MR_LOG_ORDER, 4
    lib.mr_candidates_follow(c, changes)
    assert c.state == lib.MR_UNMADE
    c.state, c.cursor, changes.head = lib.MR_VALID, 4, 9
    lib.mr_candidates_follow(c, changes)  # the ring holds four
    assert c.state == lib.MR_UNMADE


def test_what_is_kept_is_of_one_list_and_one_kind_of_class() -> None:
    """Another length, or other things that tell nodes apart, and all is made anew."""
    kept = Kept(Random(3), 100, {}, plain=True)
    c, search = kept.candidates, kept.search
    states = []
    for shape, n in (
        (search.shape, 100),
        (kept.world.shape(Shape(preferred=PREFERRED)), 100),
        (search.shape, 99),
    ):
        other = kept.world.new("mr_search *", search[0])
        other.shape, other.n = shape, n
        c.state = lib.MR_VALID
        lib.mr_candidates_point(c, other)
        states.append(c.state)
        lib.mr_candidates_point(c, search)
    assert states == [lib.MR_VALID, lib.MR_UNMADE, lib.MR_UNMADE]


# ---- in a run


def run(tie_break: str, pods: int, percentage: int = 100, keeps: bool = True) -> Scheduler:
    pending = [pod(f"p{at}", requests={"cpu": "100m"}) for at in range(pods)]
    nodes = [node(f"n{at:03}", cpu=2 + at % 3) for at in range(200)]
    scheduler = Scheduler(
        Cluster(nodes=nodes, pods=pending), tie_break=tie_break, percentage_of_nodes_to_score=percentage
    )
    scheduler.placer.decider.keeps_candidates = keeps
    scheduler.run()
    return scheduler


@pytest.mark.parametrize(
    ("expected", "setting"),
    [
        (9, {"tie_break": "first", "pods": 9}),
        (9, {"tie_break": "go-heap", "pods": 9}),
        (0, {"tie_break": "random", "pods": 9}),
        (0, {"tie_break": "first", "pods": 1}),  # to keep what one pod asks for is no gain
        (0, {"tie_break": "first", "pods": 9, "keeps": False}),
    ],
)
def test_when_candidates_are_kept(expected: int, setting: dict[str, Any]) -> None:
    placer = run(**setting).placer
    assert (placer.decider.from_candidates, placer.decider.from_scans) == (
        expected,
        setting["pods"] - expected,
    )


# ---- many topology keys


@pytest.mark.parametrize(
    ("keys", "state"), [(lib.MR_KEY, lib.MR_VALID), (lib.MR_KEY + 1, lib.MR_UNSUITED), (500, lib.MR_UNSUITED)]
)
def test_what_tells_buckets_apart_is_bounded(keys: int, state: int) -> None:
    zones = [f"zone{key}" for key in range(keys)]
    kept = Kept(Random(1), 100, {"preferred": zones}, 0.0, plain=True, scores={"MR_INTER_POD_AFFINITY": 1})
    assert kept.candidates.key.n_domains == lib.MR_KEY
    assert kept.candidates.state == state


def avoiding(at: int, keys: int, which: int) -> Pod:
    """A pod whose term rests on one key, and which all such pods' terms select."""
    term = PodAffinityTerm(
        topology_key=f"k{which % keys}", label_selector=LabelSelector(match_labels={"app": "a"})
    )
    weighted = (WeightedPodAffinityTerm(weight=1 + which % 7, pod_affinity_term=term),)
    affinity = Affinity(pod_anti_affinity=PodAffinity(preferred=weighted))
    return pod(f"p{at}", requests={"cpu": "10m"}, labels={"app": "a"}, affinity=affinity)


@pytest.mark.parametrize("keys", [lib.MR_KEY, lib.MR_KEY + 1, 64, 300])
def test_other_pods_terms_rest_on_many_keys(keys: int) -> None:
    """Nobody's own terms are many; those of the pods that are there count as well."""
    outcomes = []
    for keeps in (True, False):
        labels = [{f"k{key}": f"v{(at + key) % (2 + key % 5)}" for key in range(keys)} for at in range(30)]
        scheduler = Scheduler(
            Cluster(nodes=[node(f"n{at}", pods=200, labels=labels[at]) for at in range(30)]),
            percentage_of_nodes_to_score=100,
        )
        scheduler.placer.decider.keeps_candidates = keeps
        scheduler.schedule_pods([avoiding(at, keys, at) for at in range(keys)])
        after = scheduler.schedule_pods([avoiding(keys + at, keys, at // 100) for at in range(200)])
        outcomes.append(after.rows.tolist())
    assert outcomes[0] == outcomes[1]
    assert len(set(outcomes[0])) > 1


def test_many_values_on_several_nodes_do_not_suit_where_nothing_else_tells_nodes_apart() -> None:
    kept = Kept(Random(1), 300, {"soft": ["rack"]}, 0.0, plain=True, scores={"MR_POD_TOPOLOGY_SPREAD": 2})
    assert kept.candidates.state == lib.MR_UNSUITED
