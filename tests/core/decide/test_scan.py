"""The fused kernel answers on every lane what the row-local kernels answer on its row."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.core._kernels import ffi, lib
from tests.core.kernel_world import DEFAULT_FILTERS, DEFAULT_SCORES, World
from tests.core.twins.kernel_twins import CPU, MEMORY, MIB, Port, Requirement, Row, Shape

LIMIT = 2**42  # capacities above it are slow
SIZES = [50 * MIB, 300 * MIB, 2000 * MIB]
COLUMNS = (
    *("alloc_cpu", "alloc_memory", "free_cpu", "free_memory", "used_cpu", "used_memory"),
    *("nonzero_free_cpu", "nonzero_free_memory", "per_cpu", "per_memory"),
)
SHARES = (
    *("nonzero_cpu_share", "nonzero_memory_share", "half_cpu_share", "half_memory_share"),
    *("cpu_share", "memory_share"),
)


def capacity(random: Random) -> int:
    """Sizes around the limit, of few factors and of many, and those that are slow."""
    choices = [
        LIMIT,
        LIMIT - random.randrange(1000),
        random.randrange(LIMIT // 2, LIMIT),
        random.choice([100, 4000, 64_000, 2**34, 3 * 2**33]),
        random.randrange(1, 300),
        random.randrange(1, LIMIT),
    ]
    # Beyond 2^63 / 100 the product wraps and the score leaves 0..100.
    slow = [0, LIMIT + 1, LIMIT + random.randrange(10**6), 2**53 + 1, 2**56 + 7]
    return random.choice(choices if random.random() < 0.95 else slow)


def use(random: Random, capacity: int, request: int) -> int:
    """Usage that leaves, with the request, a share near a whole percentage; or all, or too much."""
    at_percent = random.randrange(101) * capacity // 100 + random.choice([-1, 0, 0, 1])
    used = random.choice(
        [
            capacity - at_percent - request,
            capacity - at_percent - request,
            capacity - request + random.choice([-1, 0, 1]),
            random.randrange(capacity + 1),
            capacity * 2 + random.randrange(1000),
            0,
        ]
    )
    return max(used, 0)


def make_row(random: Random, shape: Shape) -> Row:
    alloc = capacity(random), capacity(random)
    used = [use(random, alloc[at], shape.requests[at]) for at in (0, 1)]
    if random.random() < 0.2 and alloc[0]:  # equal fractions
        used[1] = min(used[0] * alloc[1] // alloc[0], 2**62)  # an overfull node of tiny capacity
    nonzero = [use(random, alloc[at], shape.score_requests[at]) for at in (0, 1)]
    pods_max = random.choice([0, 1, 10])
    return Row(
        values=(*alloc, *used, *nonzero),
        pods=max(pods_max + random.choice([-5, -1, -1, -1, 0, 1]), 0),
        pods_max=pods_max,
        unschedulable=random.random() < 0.1,
        others=((random.choice([0, 0, 0, 1, 2, 3]), random.randrange(4)),),
        taint_set=random.choice([0, 0, 0, 1, 2]),
        name=random.choice(["n0", "n1"]),
        labels=random.choice([{}, {"k": "a"}, {"k": "b"}]),
        ports=random.choice([(), (("10.0.0.1", "TCP", 80),)]),
        images=tuple(
            (image, random.randrange(1, 10)) for image in random.sample(range(3), random.randrange(3))
        ),
    )


def amount(random: Random) -> int:
    return random.choice([0, 0, 1, 100, random.randrange(1000), random.randrange(2**34), LIMIT])


def make_shape(random: Random) -> Shape:
    """Mostly plain ones, as the columns show all that these ask for."""
    plain = random.random() < 0.6
    requests = amount(random), amount(random)
    port: Port = ("0.0.0.0", "TCP", 80)
    term = (Requirement("k", "MR_IN", ("a",)),)
    return Shape(
        requests=requests,
        score_requests=random.choice([requests, (amount(random), amount(random))]),
        others=() if plain else random.choice([(), ((0, 1),)]),
        ports=() if plain else random.choice([(), (port,)]),
        images=() if plain else random.choice([(), (0,), (1, 2), (2, 2)]),
        image_containers=2,
        taints=(0, random.choice([-1, 0, 2, -3]), random.choice([-1, 0, 2])),  # set 0 has no taints
        selector=() if plain else random.choice([(), term]),
        required=None if plain else random.choice([None, (), (term,)]),
        tolerates_unschedulable=random.random() < 0.5,
        needs=random.choice([None, (amount(random), amount(random))]),
    )


def make_search(world: World, rows: list[Row], shape: Shape, plan: Any) -> Any:
    """A search over the rows in their order, with columns written row by row."""
    n = len(rows)
    room = n + lib.MR_LANES  # whole blocks
    cluster, columns, search = (
        world.cluster(rows, SIZES, 10),
        world.new("mr_columns *"),
        world.new("mr_search *"),
    )
    for name in COLUMNS:
        setattr(columns, name, world.new(f"double[{room}]"))
    for name in ("balanced", "slots", "fixed", "free_milli", "free_kib"):
        setattr(columns, name, world.new(f"int32_t[{room}]"))
    for name in SHARES:
        setattr(columns, name, world.new(f"float[{room}]"))
    columns.slow = world.new(f"uint8_t[{room}]")
    for at in range(n, room):
        columns.free_milli[at] = lib.MR_NO_SLOT
    for at in range(n):
        lib.mr_columns_set(columns, at, ffi.addressof(cluster.ledger), cluster.taint_set, at)
    passes = [taint >= 0 for taint in shape.taints]
    fixed = [ok and (shape.tolerates_unschedulable or not off) for ok in passes for off in (False, True)]
    search.plan, search.cluster, search.shape = plan, cluster, world.shape(shape)
    search.columns, search.n = columns, n
    search.pod.ports = world.port_conflicts(cluster, search.shape, n)
    search.pod.taints = world.array("int16_t", shape.taints)
    search.fixed_ok = world.array("int8_t", fixed)
    search.taints_alike = not any(max(taint, -1 - taint) for taint in shape.taints)
    search.order = world.array("int32_t", range(n))
    search.has_images = any(image in dict(row.images) for row in rows for image in shape.images)
    world.number_symbols(cluster)
    return search


def statics_of(world: World, search: Any, having: list[int] | None = None) -> Any:
    """The positions that the filters by names, labels and taints pass, as bits, and a word more.

    With `having` only those of these rows, which alone have a resource.
    """
    bits = world.new(f"uint64_t[{search.n // lib.MR_LANES + 2}]")
    if having is None:
        lib.mr_static_lanes(search, bits)
    else:
        position, words = world.array("int32_t", range(1, search.n + 1)), [0] * (search.n // 32 + 1)
        for row in having:
            words[row // 32] |= 1 << row % 32
        holders = ffi.cast("int32_t *", world.array("uint32_t", words))
        lib.mr_static_lanes_of(search, holders, len(words), position, bits)
    return bits


def maybe_statics_of(world: World, search: Any, random: Random, rows: list[Row], shape: Shape) -> Any:
    """One way or the other, or not at all."""
    having = [at for at, row in enumerate(rows) if row.others[0][0]]
    ways = [ffi.NULL, statics_of(world, search)]
    return random.choice([*ways, statics_of(world, search, having)] if shape.others else ways)


def read(search: Any) -> Any:
    """What looks at rows take from plan, shape and pod."""
    local = ffi.new("mr_local *")
    lib.mr_local_read(local, search)
    return local


def row_local(search: Any, row: int) -> int:
    """Total + 1 of the scores that do not depend on other nodes, 0 where a filter rejects."""
    plan, shape = search.plan, search.shape
    given_c = plan, search.cluster, shape, ffi.addressof(search.pod), row
    if lib.mr_verdict(*given_c):
        return 0
    total = 1
    for at in range(plan.n_scores):
        kernel = plan.scores[at]
        best_effort = kernel == lib.MR_BALANCED_ALLOCATION and not (shape.cpu or shape.memory)
        if not lib.mr_is_normalized(kernel) and not best_effort:
            total += plan.weights[at] * lib.mr_score(kernel, *given_c)
    return total


def make_scores(random: Random) -> dict[str, int]:
    if random.random() < 0.5:
        return DEFAULT_SCORES
    names = random.sample(list(DEFAULT_SCORES), random.randrange(len(DEFAULT_SCORES) + 1))
    return {name: random.choice([1, 1, 2, 7, 1000, 10**6]) for name in names}


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**64), st.booleans(), st.booleans())
def test_each_lane_of_the_fused_kernel_answers_as_the_kernels_of_its_row(
    seed: int, difference: bool, names_node: bool
) -> None:
    random = Random(seed)
    world, shape = World(), make_shape(random)
    rows = [make_row(random, shape) for _ in range(lib.MR_BLOCK)]
    plan = world.plan(scores=make_scores(random), difference=difference)
    search = make_search(world, rows, shape, plan)
    if names_node and random.random() < 0.2:
        search.pod.node_name = world.symbol("n0")
    assert lib.mr_is_fused(search)
    search.static_ok = maybe_statics_of(world, search, random, rows, shape)
    first = random.randrange(200)
    out = ffi.new(f"int32_t[{lib.MR_BLOCK}]")
    lib.mr_fused_block(search, read(search), first, lib.MR_BLOCK - first, out)
    search.static_ok = ffi.NULL  # it is of blocks; a row is looked at by itself
    for lane in range(lib.MR_BLOCK - first):
        expected = row_local(search, first + lane)
        assert (out[lane], lib.mr_local_lane(search, read(search), first + lane)) == (expected,) * 2


def blocks_of(world: World, local: Any, n: int) -> Any:
    """The blocks of a list of that length."""
    out, blocks = world.new("mr_blocks *"), -(-n // lib.MR_LANES)
    out.totals = world.new(f"int16_t[{blocks * lib.MR_LANES}]")
    out.largest = world.new(f"int16_t[{blocks}]")
    out.fits, out.tops = world.new(f"uint64_t[{blocks}]"), world.new(f"uint64_t[{blocks}]")
    lib.mr_bound_blocks(local, 0, blocks, out)
    return out


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**64), st.booleans(), st.integers(1, lib.MR_BLOCK))
def test_bounds_of_a_block_are_never_below_its_exact_totals(seed: int, difference: bool, n: int) -> None:
    """Never below the exact totals; feasible where these are, and nowhere behind the list."""
    random = Random(seed)
    world, shape = World(), make_shape(random)
    plan = world.plan(
        scores={**make_scores(random), **random.choice([{}, DEFAULT_SCORES])}, difference=difference
    )
    rows = [make_row(random, shape) for _ in range(n)]
    search = make_search(world, rows, shape, plan)
    search.static_ok = maybe_statics_of(world, search, random, rows, shape)
    local, exact = read(search), ffi.new(f"int32_t[{lib.MR_BLOCK}]")
    assume(local.most <= lib.MR_CANDIDATE_LIMIT)
    lib.mr_fused_block(search, local, 0, n, exact)
    out = blocks_of(world, local, n)
    for block in range(-(-n // lib.MR_LANES)):
        lanes = range(block * lib.MR_LANES, (block + 1) * lib.MR_LANES)
        totals, true = [out.totals[at] for at in lanes], [exact[at] for at in lanes]
        if any(total < 0 for total in true):  # of a slow row
            assert out.largest[block] == lib.MR_OUT_OF_RANGE
            continue
        assert [total > 0 for total in totals] == [total > 0 for total in true]
        assert all(bound >= total for bound, total in zip(totals, true, strict=True))
        assert out.largest[block] == max(totals)
        assert out.fits[block] == sum(1 << at for at, total in enumerate(totals) if total)
        largest = [at for at, total in enumerate(totals) if total and total == max(totals)]
        assert out.tops[block] == sum(1 << at for at in largest)


@given(
    st.integers(1, 2**31), st.integers(-1100, 1100), st.integers(0, 2**40), st.sampled_from([0, 0, 1, 1023])
)
def test_memory_fits_to_the_byte(kib: int, spare: int, used: int, odd: int) -> None:
    """Whole KiB are compared as such, where they fit 32 bits; neither side need be whole."""
    world, request = World(), kib * 1024 + odd
    shape = Shape((0, request), (0, 0), (0, 0))
    rows = [Row((100, max(used + request + more, 1), 0, used, 0, 0), pods_max=1) for more in (spare, 0)]
    search = make_search(world, rows, shape, world.plan())
    out = ffi.new(f"int32_t[{lib.MR_BLOCK}]")
    assert lib.mr_fused_block(search, read(search), 0, 2, out) == (spare >= 0) + 1
    assert (out[0] > 0, out[1] > 0) == (spare >= 0, True)
    assert blocks_of(world, read(search), 2).fits[0] == (spare >= 0) + 2


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**64), st.booleans())
def test_codes_of_blocks(seed: int, unresolvable: bool) -> None:
    """From the columns or row by row, the codes are those of the filters' verdicts."""
    random = Random(seed)
    world, shape = World(), make_shape(random)
    rows = [make_row(random, shape) for _ in range(lib.MR_BLOCK)]
    search = make_search(world, rows, shape, world.plan(unresolvable=unresolvable))
    if random.random() < 0.5:
        search.static_ok = statics_of(world, search)
    first, codes = random.randrange(200), ffi.new(f"uint8_t[{lib.MR_BLOCK}]")
    lib.mr_status_block(search, read(search), first, lib.MR_BLOCK - first, codes)
    for lane, code in enumerate(codes[0 : lib.MR_BLOCK - first]):
        given_c = search.plan, search.cluster, search.shape, ffi.addressof(search.pod), first + lane
        verdict = lib.mr_verdict(*given_c)
        hopeless = verdict & lib.MR_UNRESOLVABLE
        expected = lib.MR_CODE_UNRESOLVABLE if hopeless else lib.MR_CODE_UNSCHEDULABLE
        assert code == (expected if verdict else 0)


def test_nothing_is_written_behind_the_end() -> None:
    """Ten of eleven positions, where the last is full."""
    world = World()
    rows = [Row((100, 100, 0, 0, 0, 0), pods_max=1, name="n0") for _ in range(10)]
    shape = Shape((1, 1), (1, 1))
    search = make_search(world, [*rows, Row((1, 1, 9, 9, 9, 9))], shape, world.plan())
    search.n, search.pod.terms = 10, world.new("mr_terms *")
    codes, ok = ffi.new("uint8_t[11]"), ffi.new("uint64_t[2]", [7, 7])
    lib.mr_status_block(search, read(search), 0, 10, codes)
    assert list(codes) == [0] * 11
    search.pod.node_name = world.symbol("n0")
    lib.mr_static_lanes(search, ok)
    assert list(ok) == [2**10 - 1, 7]


@pytest.mark.parametrize(
    ("by_columns", "filters"),
    [
        (True, DEFAULT_FILTERS),
        (True, (*DEFAULT_FILTERS, "MR_INTER_POD_AFFINITY", "MR_POD_TOPOLOGY_SPREAD")),
        (True, ("MR_NODE_DECLARED_FEATURES", *DEFAULT_FILTERS, "MR_NODE_DECLARED_FEATURES")),
        (False, ("MR_EXTERNAL", *DEFAULT_FILTERS)),
        (False, (*DEFAULT_FILTERS, "MR_EXTERNAL")),
        (False, (*DEFAULT_FILTERS[:4], *reversed(DEFAULT_FILTERS[4:]))),
        (False, (*DEFAULT_FILTERS[1:], "MR_NODE_UNSCHEDULABLE")),
        (False, ("MR_INTER_POD_AFFINITY", *DEFAULT_FILTERS)),
    ],
)
def test_where_codes_are_those_of_columns(by_columns: bool, filters: tuple[str, ...]) -> None:
    """Where the filters whose verdicts are final precede those of resources, and these precede counters."""
    world = World()
    for shape in (Shape(), Shape(others=((0, 1),)), Shape(ports=(("0.0.0.0", "TCP", 80),))):
        search = make_search(world, [Row(others=((0, 0),))], shape, world.plan(filters=filters))
        expected = by_columns and not shape.others
        assert bool(lib.mr_status_by_columns(search, read(search))) == expected


def room_of(world: World, n: int) -> Any:
    """Candidates whose blocks a scan writes."""
    room = world.new("mr_candidates *")
    room.search.n = room.n = n
    memory = world.new(f"char[{lib.mr_candidates_layout(room, ffi.NULL, 1) + 64}]")
    lib.mr_candidates_layout(room, memory, 1)
    for at in range(n // lib.MR_LANES**2 + 1):
        room.supers[at] = 2**15 - 1
    return room


def found_by_search(world: World, search: Any, start: int, wanted: int, heap: bool) -> tuple[int, int, int]:
    """Position, looked at, feasible."""
    found, n = world.new("mr_found *"), search.n
    found.positions, found.totals = world.new(f"int32_t[{n + 1}]"), world.new(f"int64_t[{n + 1}]")
    found.rows, found.scores = world.new(f"int32_t[{n + 1}]"), world.new(f"int64_t[{n + 1}]")
    assert lib.mr_search_run(search, start, wanted, found) == 0
    pick = lib.mr_pick_heap if heap else lib.mr_pick_first
    at = pick(found.totals, found.feasible) if found.feasible > 1 else 0
    return found.positions[at] if found.feasible else -1, found.evaluated, found.feasible


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**64), st.sampled_from([1, 63, 64, 65, 300, 700, 1400]), st.booleans())
def test_a_scan_decides_as_the_kernels_of_each_row(seed: int, n: int, is_narrow: bool) -> None:
    """One room for scans of several classes and starts."""
    random = Random(seed)
    world = World()
    room, decision = room_of(world, n), world.new("mr_decision *")
    for _ in range(4):
        taints = 0, random.choice([-1, 0]), random.choice([-1, 0])
        shape = replace(make_shape(random), taints=taints)
        if is_narrow:
            amounts = random.choice([(7, 4096), (0, 1024), (70, 0), (10**9, 2**40)])
            shape = replace(shape, requests=amounts, score_requests=amounts, needs=None)
        made, kinds = random.choice([3, 30, n]), list[Row]()
        while not kinds:
            kinds = [
                row for row in (make_row(random, shape) for _ in range(made)) if max(row.values[:2]) <= LIMIT
            ]
        scores = random.choice([DEFAULT_SCORES, {"MR_NODE_RESOURCES_FIT": 1}])
        search = make_search(
            world, [random.choice(kinds) for _ in range(n)], shape, world.plan(scores=scores)
        )
        assert lib.mr_scan_suits(search)
        start, heap = random.randrange(n), random.random() < 0.5
        few = random.randrange(1, min(n, 100) + 1)
        wanted = random.choice([1, n, n + 1, random.randrange(1, n + 1), few])
        search.threads = random.choice([1, 2, 5])  # for any number of nodes
        assert lib.mr_scan_decide(room, read(search), start, wanted, heap, decision) == (search.threads > 1)
        search.threads = 1
        chosen = decision.position, decision.looked_at, decision.feasible
        assert chosen == found_by_search(world, search, start, wanted, heap)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**64))
def test_shares_at_whole_percentages_are_truncated_as_in_the_kernels_of_a_row(seed: int) -> None:
    """Free shares on, just below and just above each whole percentage of large capacities."""
    random = Random(seed)
    shape = Shape((0, 0), (0, 0), (0, 0))
    rows = []
    for _ in range(lib.MR_BLOCK):
        alloc = random.randrange(LIMIT - 10**6, LIMIT + 1), random.randrange(1, LIMIT + 1)
        free = [min(max(-(-random.randrange(101) * c // 100) - random.randrange(2), 0), c) for c in alloc]
        rows.append(Row((*alloc, 0, 0, alloc[0] - free[0], alloc[1] - free[1])))
    world = World()
    search = make_search(world, rows, shape, world.plan(scores={"MR_NODE_RESOURCES_FIT": 1}))
    out = ffi.new(f"int32_t[{lib.MR_BLOCK}]")
    lib.mr_fused_block(search, read(search), 0, lib.MR_BLOCK, out)
    for lane, row in enumerate(rows):
        shares = [(row.values[at] - row.values[4 + at]) * 100 // row.values[at] for at in (0, 1)]
        assert out[lane] == 1 + sum(shares) // 2, row


@pytest.mark.parametrize(
    ("fused", "change"),
    [
        (True, {}),
        (False, {"fit": ((CPU, 1), (MEMORY, 2))}),
        (False, {"fit": ((MEMORY, 1), (CPU, 1))}),
        (False, {"balanced": (CPU, MEMORY, 0)}),
        (False, {"filters": DEFAULT_FILTERS[:-1]}),
        (False, {"filters": DEFAULT_FILTERS[1:]}),
        (True, {"scores": {"MR_NODE_RESOURCES_FIT": 10**6}}),
        (False, {"scores": {"MR_NODE_RESOURCES_FIT": 10**6 + 1}}),
        (False, {"scores": {"MR_NODE_RESOURCES_FIT": -1}}),
        (False, {"scores": {"MR_BALANCED_ALLOCATION": -1}}),
        (False, {"scores": {"MR_IMAGE_LOCALITY": -1}}),
    ],
)
def test_what_is_fused(fused: bool, change: dict[str, Any]) -> None:
    world = World()
    search = make_search(world, [Row()], Shape(), world.plan(**change))
    assert bool(lib.mr_is_fused(search)) == fused


@pytest.mark.parametrize("amounts", [(LIMIT + 1, 0), (0, LIMIT + 1)])
def test_large_requests_are_not_fused(amounts: tuple[int, int]) -> None:
    for shape in (Shape(amounts), Shape(score_requests=amounts)):
        world = World()
        search = make_search(world, [Row()], shape, world.plan())
        assert not lib.mr_is_fused(search)
        search.columns = ffi.NULL
        assert not lib.mr_is_fused(search)


# ---- whole searches


PREFERRED = ((3, (Requirement("k", "MR_IN", ("a",)),)), (5, (Requirement("k", "MR_EXISTS"),)))


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**64), st.integers(1, 700))
def test_a_search_finds_as_many_feasible_nodes_as_asked_from_its_start(seed: int, n: int) -> None:
    """Wraps at the end of the list, stops on the feasible node after the last wanted one, adds constants."""
    random = Random(seed)
    world, shape = World(), make_shape(random)
    shape = replace(shape, preferred=random.choice([(), (), PREFERRED]))
    rows = [make_row(random, shape) for _ in range(n)]
    sign = random.choice([1, 1, 1, -1])
    scores = {name: sign * weight for name, weight in make_scores(random).items()}
    search = make_search(world, rows, shape, world.plan(scores=scores))
    start, wanted = random.randrange(n), random.choice([1, n, n + 1, random.randrange(1, n + 1)])
    found = world.new("mr_found *")
    found.positions, found.totals = world.new(f"int32_t[{n + 1}]"), world.new(f"int64_t[{n + 1}]")
    found.rows, found.scores = world.new(f"int32_t[{n + 1}]"), world.new(f"int64_t[{n + 1}]")
    found.lanes = world.new(f"int32_t[{n + 1}]")
    found.scores[0 : n + 1] = [1000] * (n + 1)  # what another search has left
    search.threads = random.choice([1, 2, 3])  # for any number of nodes
    assert lib.mr_search_run(search, start, wanted, found) == 0
    assert found.parallel == (search.threads > 1)

    given_c = search.plan, search.cluster, search.shape, ffi.addressof(search.pod)
    feasible = [at % n for at in range(start, start + n) if not lib.mr_verdict(*given_c, at % n)]
    assert found.evaluated == (n if len(feasible) <= wanted else (feasible[wanted] - start) % n)
    feasible = feasible[:wanted]
    assert list(found.positions[0 : found.feasible]) == feasible
    if len(feasible) > 1:
        totals = [row_local(search, at) - 1 for at in feasible]
        for name in {"MR_TAINT_TOLERATION", "MR_NODE_AFFINITY"} & scores.keys():
            if name == "MR_NODE_AFFINITY" and not shape.preferred:
                continue
            kernel = getattr(lib, name)
            raw = [lib.mr_score(kernel, *given_c, at) for at in feasible]
            constants = [lib.mr_constant(kernel, value, min(raw), max(raw)) for value in raw]
            totals = [
                total + scores[name] * constant for total, constant in zip(totals, constants, strict=True)
            ]
        assert list(found.totals[0 : len(feasible)]) == totals
