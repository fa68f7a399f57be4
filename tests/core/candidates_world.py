"""Candidates over made-up rows and counters, and the search that they stand for."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.core._kernels import ffi, lib
from tests.core.decide.test_scan import make_row, make_search, make_shape, read
from tests.core.kernel_world import DEFAULT_FILTERS, DEFAULT_SCORES, World
from tests.core.twins.kernel_twins import Requirement, Row, Shape

PREFERRED = ((3, (Requirement("k", "MR_IN", ("a",)),)), (5, (Requirement("k", "MR_EXISTS"),)))
WHOLE = lib.MR_LANES * lib.MR_LANES  # positions of a superblock
FILTERS = (*DEFAULT_FILTERS, "MR_POD_TOPOLOGY_SPREAD", "MR_INTER_POD_AFFINITY")
SCORES = {**DEFAULT_SCORES, "MR_POD_TOPOLOGY_SPREAD": 2, "MR_INTER_POD_AFFINITY": 2}
ROOMY = Row((100, 100, 0, 0, 0, 0), pods_max=500)
KINDS = ("hard", "soft", "affinity", "anti", "existing", "preferred")


def make_rows(random: Random, shape: Shape, n: int) -> list[Row]:
    """Of a few kinds, so that totals tie; without the odd capacities that leave 0..100."""
    kinds = [make_row(random, shape) for _ in range(min(n, random.choice([3, 30])))]
    kinds = [
        replace(row, values=(100, 1000, 0, 0, random.randrange(100), random.randrange(1000)))
        if max(row.values[:2]) > 2**42
        else row
        for row in kinds
    ]
    return [random.choice(kinds) for _ in range(n)]


class Kept:
    """A search, its candidates, and the counters of its terms.

    Parameters
    ----------
    terms : dict of str to list of str
        Per kind of term the labels: "zone" has three values, "rack" has two nodes each, "host" one;
        "zone7" is another label like "zone".
    lacking : float
        Share of the nodes that lack a label.
    plain : bool
        All nodes are alike and have room for the pod.
    """

    def __init__(
        self,
        random: Random,
        n: int,
        terms: dict[str, list[str]],
        lacking: float = 0.1,
        plain: bool = False,
        scores: dict[str, int] | None = None,
    ) -> None:
        self.random, self.n, self.world = random, n, World()
        self.shape = Shape((1, 1), (1, 1)) if plain else make_shape(random)
        if random.random() < 0.4 and not plain:
            self.shape = replace(self.shape, preferred=PREFERRED)
        self.rows = [ROOMY] * n if plain else make_rows(random, self.shape, n)
        plan = self.world.plan(filters=FILTERS, scores=scores or SCORES)
        self.search = make_search(self.world, self.rows, self.shape, plan)
        self.search.threads = 1
        if random.random() < 0.5:
            self.search.nominated = self.world.array("uint64_t", [random.random() < 0.1 for _ in range(n)])
        self.lacking, self.counters = lacking, list[Any]()
        used = dict.fromkeys(("zone", "rack", "host", *(one for some in terms.values() for one in some)))
        self.topologies = {label: self._topology(label) for label in used}
        if terms:
            self._make_terms(terms)
        self.lanes = self.world.new(f"int32_t[{n + 1}]")
        self.seen = self.world.new(f"uint8_t[{n + 100}]")
        self.changes = self.world.new("mr_changes *")
        self.candidates = self.build()

    # ---- terms

    def _topology(self, label: str) -> tuple[Any, int]:
        """Domain of each row, and one more than the last domain."""
        kind = label.rstrip("0123456789")
        values = {"zone": 3, "rack": max(70, self.n // 2), "host": max(self.n, 70)}[kind]
        domains = [2 + (at if label == "host" else at % values) for at in range(self.n)]
        domains = [0 if self.random.random() < self.lacking else domain for domain in domains]
        return self.world.array("int32_t", domains), values + 2

    def _counter(self, label: str) -> Any:
        domain, domains = self.topologies[label]
        counter = self.world.new("mr_counter *")
        counter.domain, counter.domains = domain, domains
        counter.pods, counter.nodes = (
            self.world.new(f"int32_t[{domains}]"),
            self.world.new(f"int32_t[{domains}]"),
        )
        counter.counts = self.world.array("uint8_t", [1] * self.n)
        for at in range(self.n):
            lib.mr_counter_add(counter, at, 0, 1)
        self.counters.append(counter)
        for _ in range(self.random.choice([0, self.n // 3, self.n])):
            lib.mr_counter_add(counter, self.random.randrange(self.n), 1, 0)
        return counter

    def _make_terms(self, given: dict[str, list[str]]) -> None:
        t = self.search.pod.terms = self.world.new("mr_terms *")
        t.self_affine, t.soft_needs_all = self.random.randrange(2), self.random.randrange(2)
        for kind in KINDS:
            labels = given.get(kind, [])
            ctype = "mr_constraint" if kind in ("hard", "soft") else "mr_pod_term"
            items = self.world.new(f"{ctype}[{max(len(labels), 1)}]")
            for item, label in zip(items, labels, strict=False):
                item.counter = self._counter(label)
                if ctype == "mr_constraint":
                    item.max_skew, item.min_domains, item.self = self.random.choice([1, 3]), 1, 1
                    if kind == "soft" and label == "host":
                        item.row_pods = self._row_pods(item.counter)
                else:
                    item.weight = self.random.choice([1, 50, -30])
            setattr(t, kind, items)
            setattr(t, f"n_{kind}", len(labels))

    def _row_pods(self, counter: Any) -> Any:
        pods = [counter.pods[counter.domain[at]] if counter.domain[at] else 0 for at in range(self.n)]
        out = self.world.array("int32_t", pods)
        self.counted_rows = out
        return out

    def terms(self) -> Any:
        if self.search.pod.terms:
            lib.mr_terms_prepare(self.search.pod.terms)
        return self.search.pod.terms

    # ---- candidates

    def build(self) -> Any:
        """Candidates from scratch."""
        c = self.world.new("mr_candidates *")
        lib.mr_candidates_point(c, self.search)
        supers = self.n // WHOLE + 1
        blocks = supers * lib.MR_LANES
        c.stride = 8 if c.key.size else 1
        c.state = lib.MR_MORE_BUCKETS
        while c.state == lib.MR_MORE_BUCKETS:
            c.totals = self.world.new(f"int16_t[{supers * WHOLE}]")
            c.bucket = self.world.new(f"int16_t[{supers * WHOLE}]")
            c.blocks = self.world.new(f"int16_t[{blocks * c.stride}]")
            c.supers = self.world.new(f"int16_t[{supers * c.stride}]")
            c.fits = self.world.new(f"uint64_t[{blocks * c.stride}]")
            c.tops = self.world.new(f"uint64_t[{blocks * c.stride}]")
            c.counts = self.world.new(f"uint16_t[{blocks // lib.MR_COUNTED * c.stride}]")
            c.keys = self.world.new(f"int32_t[{c.stride * lib.MR_KEY}]")
            c.hashes = self.world.new(f"uint32_t[{c.stride}]")
            c.feasible = self.world.new(f"int32_t[{c.stride}]")
            c.member = self.world.new(f"int32_t[{c.stride}]")
            lib.mr_candidates_build(c, self.changes, self.lanes, self.seen)
            if c.state == lib.MR_MORE_BUCKETS:
                c.stride *= 2
        return c

    def change(self, at: int) -> None:
        """Something happens to a row: other usage, a nomination, or a pod that counters count."""
        if self.search.nominated and self.random.random() < 0.3:
            self.search.nominated[at] = 0 if self.search.nominated[at] else 1 << 56
        elif self.counters and self.random.random() < 0.6:
            for counter in self.counters:
                lib.mr_counter_add(counter, at, 1, 0)
            if hasattr(self, "counted_rows"):
                self.counted_rows[at] += 1
        else:
            row = self.random.choice(self.rows)
            lib.mr_row_set(ffi.addressof(self.search.cluster.ledger), at, list(row.values))
            self.search.cluster.ledger.rows[at].pods = row.pods
            lib.mr_columns_set(
                self.search.columns,
                at,
                ffi.addressof(self.search.cluster.ledger),
                self.search.cluster.taint_set,
                at,
            )
        lib.mr_candidates_refresh(self.candidates, at)

    def check(self) -> None:
        """All that is kept equals a recomputation."""
        c, fresh, stride = self.candidates, self.build(), self.candidates.stride
        size = (self.n // WHOLE + 1) * WHOLE
        totals, bucket = ffi.unpack(c.totals, size), ffi.unpack(c.bucket, size)
        bare = self.world.new("mr_search *", self.search[0])
        bare.pod.terms = ffi.NULL
        local = read(bare)
        for at in range(self.n):
            is_full = self.search.nominated and self.search.nominated[at]
            assert totals[at] == (0 if is_full else lib.mr_local_lane(bare, local, at))
        assert not any(totals[self.n :])
        pairs = {(bucket[at], fresh.bucket[at]) for at in range(self.n) if totals[at]}
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
        for block in range(size // lib.MR_LANES):
            lanes = range(block * lib.MR_LANES, (block + 1) * lib.MR_LANES)
            for g in range(stride):
                mine = [at for at in lanes if totals[at] and bucket[at] == g]
                assert c.fits[block * stride + g] == sum(1 << at % lib.MR_LANES for at in mine)
                largest = max((totals[at] for at in mine), default=0)
                assert c.blocks[block * stride + g] == largest
                assert c.tops[block * stride + g] == sum(
                    1 << at % lib.MR_LANES for at in mine if totals[at] == largest
                )
        for g in range(stride):
            column = [c.blocks[block * stride + g] for block in range(size // lib.MR_LANES)]
            for at in range(size // WHOLE):
                of_super = column[at * lib.MR_LANES : (at + 1) * lib.MR_LANES]
                assert c.supers[at * stride + g] == max(of_super)
            feasible = [totals[at] != 0 and bucket[at] == g for at in range(size)]
            assert c.feasible[g] == sum(feasible)
            span = lib.MR_LANES * lib.MR_COUNTED
            for at in range(size // span):
                assert c.counts[at * stride + g] == sum(feasible[at * span : (at + 1) * span])

    # ---- deciding

    def decide(self, start: int, wanted: int, heap: bool) -> tuple[int, int, int]:
        """Looked at, feasible and chosen, by candidates."""
        decision = ffi.new("mr_decision *")
        self.terms()
        lib.mr_candidates_decide(self.candidates, start, wanted, heap, self.seen, decision)
        return decision.looked_at, decision.feasible, decision.position

    def search_for(self, start: int, wanted: int, heap: bool) -> tuple[int, int, int]:
        """The same by a search."""
        found = ffi.new("mr_found *")
        room = {"positions": "int32_t", "totals": "int64_t", "rows": "int32_t", "scores": "int64_t"}
        kept = {name: ffi.new(f"{kind}[{self.n + 1}]") for name, kind in room.items()}
        for name, memory in kept.items():
            setattr(found, name, memory)
        found.seen = self.seen
        self.terms()
        assert lib.mr_search_run(self.search, start, wanted, found) == 0
        if not found.feasible:
            return found.evaluated, 0, -1
        pick = lib.mr_pick_heap if heap else lib.mr_pick_first
        winner = pick(found.totals, found.feasible) if found.feasible > 1 else 0
        return found.evaluated, found.feasible, found.positions[winner]
