"""Kept totals: all that is derived equals a recomputation, what is read off them is what a search finds."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.kernel_twins import Requirement, Row, Shape
from tests.core.kernel_world import World
from tests.core.make import node, pod
from tests.core.test_scan import COLUMNS, make_search

from moorage._core._kernels import ffi, lib
from moorage.objects import Cluster
from moorage.scheduler import Scheduler

CHECKED = settings(deadline=None, max_examples=60)
WHOLE = lib.MR_LANES * lib.MR_LANES  # positions of a superblock
seeds = st.integers(0, 2**64)
sizes = st.sampled_from([1, 2, 63, 64, 65, 511, 512, 513, 1000, WHOLE - 1, WHOLE, WHOLE + 1, 2 * WHOLE + 700])


class Kept:
    """Candidates over nodes of 100 millicores and bytes, of which `levels` many amounts are free."""

    def __init__(self, n: int, levels: int, full: float, seed: int) -> None:
        self.n, self.world, random = n, World(), np.random.default_rng(seed)
        self.columns: dict[str, Any] = {name: np.full(n, 100.0) for name in COLUMNS}
        self.columns |= {"per_cpu": np.ones(n), "per_memory": np.ones(n)}
        self.columns |= {"used_cpu": np.zeros(n), "used_memory": np.zeros(n)}
        self.columns["nonzero_free_cpu"] = random.integers(1, levels + 1, n).astype(np.float64)
        self.columns |= {name: np.zeros(n, np.int32) for name in ("balanced", "fixed")}
        self.columns["slots"] = (random.random(n) >= full).astype(np.int32)
        self.columns["slow"] = np.zeros(n, np.uint8)
        columns, self.search = self.world.new("mr_columns *"), self.world.new("mr_search *")
        for name, values in self.columns.items():
            kind = {"f": "double[]", "i": "int32_t[]", "u": "uint8_t[]"}[values.dtype.kind]
            setattr(columns, name, ffi.from_buffer(kind, values))
        self.search.plan, self.search.cluster = self.world.plan(), self.world.cluster([Row()])
        self.search.shape, self.search.columns, self.search.n = (
            self.world.shape(Shape((1, 1), (1, 1))),
            columns,
            n,
        )
        self.search.taints_alike = 1
        self.search.order = self.world.array("int32_t", range(n))
        supers = n // WHOLE + 1
        self.c = self.world.new("mr_candidates *")
        self.c.totals = self.world.new(f"int16_t[{supers * WHOLE}]")
        self.c.blocks = self.world.new(f"int16_t[{supers * lib.MR_LANES}]")
        self.c.supers = self.world.new(f"int16_t[{supers}]")
        self.c.fits = self.world.new(f"uint64_t[{supers * lib.MR_LANES}]")
        self.c.counts = self.world.new(f"uint16_t[{supers * lib.MR_LANES // lib.MR_COUNTED}]")
        lib.mr_candidates_build(self.c, self.search)

    def check(self) -> None:
        """All that is derived from totals, and the totals themselves."""
        supers = self.n // WHOLE + 1
        expected = np.zeros(supers * WHOLE, np.int32)
        lib.mr_fused_block(self.search, 0, self.n, ffi.from_buffer("int32_t[]", expected))
        assert ffi.unpack(self.c.totals, len(expected)) == expected.tolist()
        by_block = expected.reshape(-1, lib.MR_LANES)
        assert ffi.unpack(self.c.blocks, len(by_block)) == by_block.max(axis=1).tolist()
        assert ffi.unpack(self.c.supers, supers) == expected.reshape(supers, -1).max(axis=1).tolist()
        words = [sum(1 << at for at in np.flatnonzero(block).tolist()) for block in by_block]
        assert ffi.unpack(self.c.fits, len(words)) == words
        counts = (expected.reshape(-1, lib.MR_LANES * lib.MR_COUNTED) != 0).sum(axis=1)
        assert ffi.unpack(self.c.counts, len(counts)) == counts.tolist()
        assert (self.c.n, self.c.feasible) == (self.n, self.columns["slots"].sum()) == (self.n, counts.sum())

    def decide(self, start: int, wanted: int) -> tuple[int, int, int]:
        """Looked at, and chosen by either tie-break (-1: none)."""
        looked_at = lib.mr_candidates_window(self.c, start, wanted)
        if not self.c.feasible:
            return looked_at, -1, -1
        picks = lib.mr_candidates_first, lib.mr_candidates_heap
        first, heap = (pick(self.c, start, looked_at) for pick in picks)
        return looked_at, first, heap

    def search_for(self, start: int, wanted: int) -> tuple[int, int, int]:
        """The same by a search."""
        found = ffi.new("mr_found *")
        room = {"positions": "int32_t", "totals": "int64_t", "rows": "int32_t", "scores": "int64_t"}
        kept = {name: ffi.new(f"{kind}[{self.n + 1}]") for name, kind in room.items()}
        for name, memory in kept.items():
            setattr(found, name, memory)
        assert lib.mr_search_run(self.search, start, wanted, found) == 0
        if not found.feasible:
            return found.evaluated, -1, -1
        first, heap = (
            found.positions[pick(found.totals, found.feasible) if found.feasible > 1 else 0]
            for pick in (lib.mr_pick_first, lib.mr_pick_heap)
        )
        return found.evaluated, first, heap


shares = st.sampled_from([0.0, 0.3, 0.95, 0.999, 1.0])
levels = st.sampled_from([1, 2, 20, 100])


@CHECKED
@given(seeds, sizes, levels, shares)
def test_what_is_derived(seed: int, n: int, levels: int, full: float) -> None:
    random, kept = Random(seed), Kept(n, levels, full, seed)
    kept.check()
    for _ in range(12):
        for _ in range(random.choice([1, 1, 200])):
            at = random.randrange(n)
            if random.random() < 0.4:
                kept.columns["slots"][at] ^= 1
            else:
                kept.columns["nonzero_free_cpu"][at] = random.choice([1.0, random.randrange(1, levels + 2)])
            lib.mr_candidates_refresh(kept.c, kept.search, at)
        kept.check()


@CHECKED
@given(seeds, sizes, levels, shares)
def test_what_is_chosen(seed: int, n: int, levels: int, full: float) -> None:
    random, kept = Random(seed), Kept(n, levels, full, seed)
    for _ in range(60):
        start = random.choice([0, n - 1, random.randrange(n)])
        wanted = random.choice(
            [1, n, n + 1, random.randrange(1, n + 1), random.randrange(1, min(n, 100) + 1)]
        )
        assert kept.decide(start, wanted) == kept.search_for(start, wanted), (start, wanted)


PREFERRED = ((3, (Requirement("k", "MR_EXISTS"),)),)
FIT = "MR_NODE_RESOURCES_FIT"


@pytest.mark.parametrize(
    ("suits", "row", "shape", "change"),
    [
        (True, Row(), Shape(), {}),
        (True, Row(taint_set=1), Shape(taints=(0, -1)), {}),  # rejects, and scores nothing
        (False, Row(taint_set=1), Shape(taints=(0, 1)), {}),
        (False, Row(), Shape(preferred=PREFERRED), {}),
        (True, Row(), Shape(preferred=PREFERRED), {"scores": {FIT: 1}}),
        (True, Row(), Shape(), {"scores": {FIT: 319}}),
        (False, Row(), Shape(), {"scores": {FIT: 320}}),
        (False, Row(), Shape(), {"filters": ()}),  # not fused
        (False, Row((2**42 + 1, 1, 0, 0, 0, 0)), Shape(), {}),  # slow
    ],
)
def test_what_suits(suits: bool, row: Row, shape: Shape, change: dict[str, Any]) -> None:
    world = World()
    search = make_search(world, [row], shape, world.plan(**change))
    assert bool(lib.mr_candidates_suit(search)) == suits


@pytest.mark.parametrize("kind", ["hard", "affinity", "anti", "existing"])
def test_what_depends_on_other_rows_is_not_kept(kind: str) -> None:
    world = World()
    search = make_search(world, [Row()], Shape(), world.plan())
    search.pod.terms = world.new("mr_terms *")
    assert lib.mr_is_local(search)
    setattr(search.pod.terms, f"n_{kind}", 1)
    assert not lib.mr_is_local(search)


def test_a_nominated_node_is_not_kept() -> None:
    world = World()
    search = make_search(world, [Row()], Shape(), world.plan())
    search.n_nominated = 1
    assert not lib.mr_is_local(search)


# ---- in a run


def run(tie_break: str, pods: int, percentage: int = 100, keeps: bool = True) -> Scheduler:
    pending = [pod(f"p{at}", requests={"cpu": "100m"}) for at in range(pods)]
    nodes = [node(f"n{at:03}", cpu=2 + at % 3) for at in range(200)]
    scheduler = Scheduler(
        Cluster(nodes=nodes, pods=pending), tie_break=tie_break, percentage_of_nodes_to_score=percentage
    )
    scheduler.cycle.keeps_candidates = keeps
    scheduler.run()
    return scheduler


@pytest.mark.parametrize(
    ("expected", "setting"),
    [
        (2, {"tie_break": "first", "pods": 2}),
        (9, {"tie_break": "go-heap", "pods": 9}),
        (0, {"tie_break": "random", "pods": 9}),
        (0, {"tie_break": "first", "pods": 1}),  # to keep what one pod asks for is no gain
        (0, {"tie_break": "first", "pods": 2, "percentage": 10}),
        (3, {"tie_break": "first", "pods": 3, "percentage": 50}),
        (0, {"tie_break": "first", "pods": 9, "keeps": False}),
    ],
)
def test_when_totals_are_kept(expected: int, setting: dict[str, Any]) -> None:
    assert run(**setting).cycle.from_candidates == expected
