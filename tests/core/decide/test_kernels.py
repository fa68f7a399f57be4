"""The row-local kernels and the tie-breaks against their twins."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.core._kernels import ffi, lib
from tests.core.kernel_world import EXACT, World
from tests.core.twins import kernel_twins as twins
from tests.core.twins.kernel_twins import CPU, MEMORY, MIB, Requirement, Row, Shape

CHECKED = settings(deadline=None, max_examples=200)

small = st.integers(0, 20)
near_exact = st.integers(EXACT - 3, EXACT + 3)
amounts = st.one_of(small, st.integers(0, 10**6), st.integers(0, 2**40), near_exact, st.integers(0, 2**60))
pairs = st.tuples(amounts, amounts)
OTHERS = 3


@st.composite
def rows(draw: st.DrawFn) -> Row:
    values = [draw(amounts) for _ in range(6)]
    others = tuple(draw(pairs) for _ in range(OTHERS))
    return Row(tuple(values), draw(small), draw(small), others=others)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    others = draw(st.dictionaries(st.integers(0, OTHERS - 1), amounts))
    shape = Shape(draw(pairs), draw(pairs), draw(pairs), tuple(others.items()))
    if draw(st.booleans()):
        return shape
    needs, scores = ([draw(amounts) for _ in others] for _ in range(2))  # a resize is in progress
    return replace(shape, needs=draw(pairs), other_needs=tuple(needs), other_scores=tuple(scores))


resource_lists = st.lists(st.sampled_from([CPU, MEMORY, 0, 1, 2]), unique=True)


# ---- NodeResourcesFit and its scores


@CHECKED
@given(rows(), shapes(), st.booleans(), st.sets(st.integers(0, OTHERS - 1)))
@example(Row((EXACT + 3, 2**34, EXACT + 1, 0, 0, 0), others=((0, 0),) * 3), Shape((3, 0)), True, set())
@example(Row((4000, 0, 5000, 0, 0, 0), others=((0, 0),) * 3), Shape((0, 0)), True, set())
@example(Row(others=((5, 9),) * 3), Shape(others=((1, 0), (2, 1))), True, set())
@example(Row(others=((5, 5),) * 3), Shape(others=((1, 5),)), True, set())  # all that there is, in use
def test_the_fit_of_a_row_is_that_of_the_twin(
    row: Row, shape: Shape, unresolvable: bool, ignored: set[int]
) -> None:
    world = World()
    cluster, c_shape, plan = world.cluster([row]), world.shape(shape), world.plan(unresolvable=unresolvable)
    pod = world.pod()
    pod.ignored = sum(1 << at for at, (resource, _) in enumerate(shape.others) if resource in ignored)
    reasons, above = twins.fit_reasons(row, shape, ignored)
    bits = {
        "pods": lib.MR_TOO_MANY_PODS,
        "cpu": lib.MR_INSUFFICIENT_CPU,
        "memory": lib.MR_INSUFFICIENT_MEMORY,
    }
    bits |= {str(resource): 8 << at for at, (resource, _) in enumerate(shape.others)}
    expected = sum(bits[reason] for reason in reasons)
    expected |= lib.MR_UNRESOLVABLE if above and unresolvable else 0
    assert lib.mr_fit_filter(plan, cluster, c_shape, pod, 0) == expected


@CHECKED
@given(
    rows(),
    shapes(),
    resource_lists,
    st.sampled_from(["MR_LEAST_ALLOCATED", "MR_MOST_ALLOCATED", "MR_REQUESTED_TO_CAPACITY_RATIO"]),
    st.dictionaries(st.integers(0, 100), st.integers(0, 10).map(lambda score: 10 * score), min_size=1),
    st.data(),
)
def test_each_strategy_scores_a_row_as_the_twin_does(
    row: Row, shape: Shape, resources: list[int], strategy: str, line: dict[int, int], data: st.DataObject
) -> None:
    assume(strategy == "MR_LEAST_ALLOCATED" or max(row.values) < 2**56)  # where the product wraps, so do ours
    world = World()
    weighted = [(resource, data.draw(st.integers(1, 100))) for resource in resources]
    points = sorted(line.items())
    plan = world.plan(fit=weighted, strategy=strategy, points=points)
    cluster, c_shape = world.cluster([row]), world.shape(shape)
    expected = twins.fit_score(row, shape, weighted, strategy, points)
    assert lib.mr_fit_score(plan, cluster, c_shape, 0) == expected


@CHECKED
@given(rows(), shapes(), resource_lists, st.booleans())
def test_balanced_allocation_of_a_row_is_that_of_the_twin(
    row: Row, shape: Shape, resources: list[int], difference: bool
) -> None:
    world = World()
    plan = world.plan(balanced=resources, difference=difference)
    cluster, c_shape = world.cluster([row]), world.shape(shape)
    expected = twins.balanced_allocation(row, shape, resources, difference)
    assert lib.mr_balanced_allocation(plan, cluster, c_shape, 0) == expected


# ---- ImageLocality

image_sizes = st.one_of(
    st.integers(0, 3000 * MIB),
    st.integers(23 * MIB - 2, 23 * MIB + 2),
    st.integers(1000 * MIB - 2, 1000 * MIB + 2),
)


@CHECKED
@given(
    st.lists(image_sizes, min_size=4, max_size=4),
    st.dictionaries(st.integers(0, 3), st.integers(1, 50)),
    st.lists(st.integers(0, 3), max_size=5).map(tuple),
    st.integers(1, 5),
    st.integers(50, 60),
)
@example([300 * MIB] * 4, {0: 50}, (0,), 1, 100)
def test_image_locality_of_a_row_is_that_of_the_twin(
    sizes: list[int], held: dict[int, int], wanted: tuple[int, ...], containers: int, nodes: int
) -> None:
    world = World()
    row, shape = Row(images=tuple(held.items())), Shape(images=wanted, image_containers=containers)
    cluster, c_shape = world.cluster([row], sizes, nodes), world.shape(shape)
    expected = twins.image_locality(row, shape, sizes, nodes)
    assert lib.mr_image_locality(cluster, c_shape, 0) == expected


# ---- NodeAffinity

texts = st.sampled_from(["", "a", "b", "5", "-3", "+7", "9223372036854775807", "9223372036854775808", "1_0"])
names = st.sampled_from(["n0", "n1"])
LABEL_OPS = ("MR_IN", "MR_NOT_IN", "MR_EXISTS", "MR_DOES_NOT_EXIST", "MR_GT", "MR_LT")
NAME_OPS = ("MR_NAME_IN", "MR_NAME_NOT_IN", "MR_NAME_PARAMETER")
label_requirements = st.builds(
    Requirement,
    st.sampled_from(["k", "l"]),
    st.sampled_from(LABEL_OPS),
    st.lists(texts, max_size=3).map(tuple),
    st.one_of(st.integers(-5, 8), st.integers(2**63 - 2, 2**63 - 1)),
)
name_requirements = st.builds(
    Requirement, st.just(""), st.sampled_from(NAME_OPS), st.lists(names, max_size=2).map(tuple)
)
terms = st.lists(st.one_of(label_requirements, name_requirements), max_size=3).map(tuple)


@CHECKED
@given(
    st.dictionaries(st.sampled_from(["k", "l"]), texts),
    terms,
    st.none() | st.lists(terms, max_size=3).map(tuple),
    st.lists(st.tuples(st.integers(1, 100), terms), max_size=3).map(tuple),
    names,
)
def test_node_affinity_of_a_row_is_that_of_the_twin(
    labels: dict[str, str],
    selector: twins.Term,
    required: tuple[twins.Term, ...] | None,
    preferred: tuple[tuple[int, twins.Term], ...],
    pinned: str,
) -> None:
    world = World()
    row = Row(name="n0", labels=labels)
    shape = Shape(selector=selector, required=required, preferred=preferred)
    cluster = world.cluster([row])
    c_shape, pod = world.shape(shape), world.pod(pinned=pinned)
    world.number_symbols(cluster)
    matches = twins.node_affinity_matches(row, shape, pinned)
    assert bool(lib.mr_node_affinity_matches(cluster, c_shape, pod, 0)) == matches
    score = twins.node_affinity_score(row, shape, pinned)
    assert lib.mr_node_affinity_score(cluster, c_shape, pod, 0) == score


# ---- NodePorts

ports = st.lists(
    st.tuples(
        st.sampled_from([twins.ANY_IP, "10.0.0.1", "10.0.0.2"]),
        st.sampled_from(["TCP", "UDP"]),
        st.sampled_from([80, 81]),
    ),
    max_size=3,
).map(tuple)


@CHECKED
@given(ports, ports)
def test_ports_conflict_where_the_twin_says_so(
    used: tuple[twins.Port, ...], wanted: tuple[twins.Port, ...]
) -> None:
    world = World()
    row, shape = Row(ports=used), Shape(ports=wanted)
    cluster, c_shape = world.cluster([Row(ports=((twins.ANY_IP, "TCP", 80),)), row]), world.shape(shape)
    used, n_used = cluster.ports + cluster.port_first[1], cluster.port_count[1]
    conflict = lib.mr_ports_conflict(c_shape.ports, c_shape.n_ports, used, n_used, cluster.any_ip)
    assert bool(conflict) == twins.ports_conflict(row, shape)


# ---- constants per bucket


@CHECKED
@given(st.lists(st.integers(0, 1000), min_size=1))
def test_scores_between_the_least_and_the_most_are_normalized_as_upstream_does(raw: list[int]) -> None:
    least, most = min(raw), max(raw)
    for value in raw:
        tolerated = 100 - 100 * value // most if most else 100
        affine = 100 * value // most if most else value
        spread = 100 * (most + least - value) // most if most else 100
        near = int(100.0 * (float(value - least) / float(most - least))) if most > least else 0
        expected = {
            "MR_TAINT_TOLERATION": tolerated,
            "MR_NODE_AFFINITY": affine,
            "MR_POD_TOPOLOGY_SPREAD": spread,
            "MR_INTER_POD_AFFINITY": near,
        }
        for kernel, constant in expected.items():
            assert lib.mr_constant(getattr(lib, kernel), value, least, most) == constant


@CHECKED
@given(st.integers(2, 2**24))
def test_logarithm_of_a_count(count: int) -> None:
    """Within the last bit of the nearest double."""
    assert abs(lib.mr_log(count) - math.log(count)) <= math.ulp(math.log(count))


# ---- rows: exact on both sides of 0 and 2^53

near = st.one_of(
    small,
    st.integers(EXACT // 2 - 2, EXACT // 2 + 2),
    near_exact,
    st.integers(0, 2**58),
    st.integers(0, 10**12),
    st.integers(-(2**58), -1),  # amounts beyond 64 bits wrap
)


def check_row(ledger: ffi.CData, values: Sequence[int]) -> None:
    """What a row says, and what derives from it."""
    row = ledger.rows[0]
    assert [lib.mr_row_value(ledger, 0, field) for field in range(6)] == list(values)
    wide = not all(0 <= value <= EXACT for value in values)
    slow = wide or not all(0 < value <= 2**42 for value in values[:2])
    assert bool(row.flags & lib.MR_WIDE) == wide
    assert bool(row.flags & lib.MR_SLOW) == slow
    assert row.flags & lib.MR_PRESENT
    if not wide:  # the fused kernel does not look at the others
        taken = Row(tuple(values)), Shape(), [CPU, MEMORY]
        assert row.balanced == twins.balance(*taken, with_pod=False)


@CHECKED
@given(st.lists(st.tuples(near, near, near, near, near, near), min_size=1, max_size=4))
def test_the_amounts_of_a_row_are_set_one_after_the_other(
    written: list[tuple[int, int, int, int, int, int]],
) -> None:
    world = World()
    ledger = world.ledger([Row()])
    for values in written:
        lib.mr_row_set(ledger, 0, list(values))
        check_row(ledger, values)


@CHECKED
@given(
    st.tuples(near, near),
    st.lists(st.tuples(st.tuples(near, near), st.tuples(near, near), near), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
@example((1, 1), [((EXACT, 0), (0, 0), 0), ((1, 0), (0, 0), 0), ((EXACT, EXACT), (EXACT, 1), 1)], None)
def test_row_add_pod(capacity: tuple[int, int], pods: list, random) -> None:
    """Pods come and go in any order; what is left is what is written, to the last byte."""
    world = World()
    ledger = world.ledger([Row((*capacity, 0, 0, 0, 0), others=((7, 0),))])
    placed = [Shape(requests, (0, 0), nonzero, ((0, other),)) for requests, nonzero, other in pods]
    c_shapes = [world.shape(shape) for shape in placed]
    events = [(at, 1) for at in range(len(placed))]
    leaving = list(range(len(placed)))
    if random:
        random.shuffle(leaving)
    present: list[Shape] = []
    for at, sign in [*events, *((at, -1) for at in leaving)]:
        lib.mr_row_add_pod(ledger, 0, c_shapes[at], sign)
        present = [*present, placed[at]] if sign > 0 else without(present, placed[at])
        usage = [sum(shape.requests[i] for shape in present) for i in range(2)]
        nonzero = [sum(shape.nonzero_requests[i] for shape in present) for i in range(2)]
        check_row(ledger, [*capacity, *usage, *nonzero])
        assert lib.mr_other(ledger, 0, 0)[1] == sum(dict(shape.others)[0] for shape in present)
        assert lib.mr_other(ledger, 0, 0)[0] == 7
        assert ledger.rows[0].pods == len(present)


def without(shapes: list[Shape], gone: Shape) -> list[Shape]:
    at = shapes.index(gone)
    return shapes[:at] + shapes[at + 1 :]


# ---- tie-breaks

totals = st.one_of(
    st.lists(st.integers(0, 3), min_size=1, max_size=300),
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=20),
)


@CHECKED
@given(totals)
def test_the_first_of_the_best_totals_is_picked(totals: list[int]) -> None:
    assert lib.mr_pick_first(totals, len(totals)) == totals.index(max(totals))


@settings(deadline=None, max_examples=500)
@given(totals)
@example([1] * 300)
@example([0, 1, 1, 0, 2, 2, 2])
def test_the_winner_of_gos_heap_is_picked(totals: list[int]) -> None:
    assert lib.mr_pick_heap(totals, len(totals)) == twins.heap_winner(totals)


@CHECKED
@given(totals, st.integers(0, 2**64 - 1))
def test_pick_random_is_one_of_the_best_and_repeatable(totals: list[int], seed: int) -> None:
    states = ffi.new("uint64_t *", seed), ffi.new("uint64_t *", seed)
    picked = [lib.mr_pick_random(totals, len(totals), state) for state in states]
    assert picked[0] == picked[1]
    assert totals[picked[0]] == max(totals)
    assert states[0][0] == states[1][0]
    if totals.count(max(totals)) == 1:  # nothing to draw
        assert states[0][0] == seed


def test_pick_random_is_uniform() -> None:
    totals, state, draws = [3, 7, 0, 7, 7, 1, 7, 7], ffi.new("uint64_t *", 1), 10_000
    counts = Counter(lib.mr_pick_random(totals, len(totals), state) for _ in range(draws))
    ties = [at for at, total in enumerate(totals) if total == 7]
    assert sorted(counts) == ties
    expected = draws / len(ties)
    # Chi squared with 4 degrees of freedom exceeds 23.5 once in 10,000 times; the seed is fixed.
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 23.5


@CHECKED
@given(st.integers(0, 2**32))
def test_random_picks_of_two_seeds_differ(seed: int) -> None:
    assume(seed)
    totals = [1] * 1000
    picks = [
        [lib.mr_pick_random(totals, 1000, state) for _ in range(5)]
        for state in (ffi.new("uint64_t *", seed), ffi.new("uint64_t *", seed - 1))
    ]
    assert picks[0] != picks[1]
