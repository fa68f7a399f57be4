"""PodBatch: what is read of pods, as runs of equal ones; and the sinks that take the placed ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import node, pinned, pod, port

from moorage._core.decide.pod_batch import LedgerSink, Placements, PodBatch, Route, Sink
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_spec import bound
from moorage.errors import CacheError
from moorage.objects.model.pod import (
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodStatus,
    Volume,
)

CLAIM = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
Piece = tuple[int, int, int]


def going(one: Pod) -> Pod:
    return replace(one, metadata=replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


def nominated(one: Pod) -> Pod:
    return replace(one, status=PodStatus(nominated_node_name="n1"))


KINDS: list[tuple[Pod, int]] = [
    (pod("p"), 0),
    (pod("p", requests={"cpu": 1}), 0),
    (pod("p", on="n1"), Route.NAMED),
    (pod("p", on="n2"), Route.NAMED),
    (pod("p", affinity=pinned("n1")), Route.PINNED),
    (pod("p", affinity=pinned("n2")), Route.PINNED),
    (pod("p", affinity=pinned("n2"), ports=[port(80)]), Route.PINNED | Route.PORTS),
    (pod("p", ports=[port(80)]), Route.PORTS),
    (pod("p", volumes=(CLAIM,)), Route.VOLUMES),
    (pod("p", volumes=(Volume(name="no-claim"),)), 0),
    (going(pod("p")), Route.TERMINATING),
    (nominated(pod("p")), Route.NOMINATED),
    (nominated(going(pod("p", on="n2"))), Route.NAMED | Route.TERMINATING | Route.NOMINATED),
]
kinds = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 4)), max_size=6)


class Twin:
    """What a batch says of pods that are looked at one by one."""

    def __init__(self, state: ClusterState, pods: list[Pod], routes: list[int]) -> None:
        self.routes = list(routes)
        self.targets = list[tuple[int, int, int]]()
        for one in pods:
            pod_class, name = state.classes.intern(one), one.spec.node_name
            symbol = state.classes.pinned_symbol(pod_class, one)
            self.targets.append((pod_class, state.symbols.intern(name) if name else 0, symbol))

    def cut(self, mask: int, first: int) -> list[Piece]:
        """Where the bits of a mask change."""
        routes = [route & mask for route in self.routes]
        begins = [first, *(at for at in range(first + 1, len(routes)) if routes[at] != routes[at - 1])]
        return [(begin, end, routes[begin]) for begin, end in pairwise([*begins, len(routes)]) if begin < end]

    def route_by(self, route_of: Callable[[int], int], each: bool) -> None:
        """With `each`, of every pod; otherwise of the first of a run alone."""
        runs = groupby(range(len(self.routes)), lambda at: (self.targets[at], self.routes[at]))
        for run in [list(run) for _, run in runs]:
            more = [route_of(at) if each else route_of(run[0]) for at in run]
            for at, bits in zip(run, more, strict=True):
                self.routes[at] |= bits


def agree(batch: PodBatch, twin: Twin, data: st.DataObject) -> None:
    n = len(twin.routes)
    assert len(batch) == n
    assert [batch.target(at) for at in range(n)] == twin.targets
    assert [batch.route(at) for at in range(n)] == twin.routes
    masks = st.sampled_from([0, Route.PORTS, Route.NAMED | Route.VOLUMES, Route.SIGNED | Route.REJECTED, -1])
    mask, first = data.draw(masks), data.draw(st.integers(0, n))
    assert batch.cut(mask, first) == twin.cut(mask, first)
    if first < n:
        end = data.draw(st.integers(first + 1, n))
        among = twin.targets[first:end]
        assert batch.targets(first, end) == list(dict.fromkeys(among))
        assert batch.classes(first, end) == list(dict.fromkeys(one[0] for one in among))
        assert batch.targets(first) == list(dict.fromkeys(twin.targets[first:]))


@settings(deadline=None, max_examples=200)
@given(kinds, st.booleans(), st.data())
def test_what_is_read(runs: list[tuple[tuple[Pod, int], int]], each: bool, data: st.DataObject) -> None:
    """Of objects of their own, though equal ones follow one another."""
    state = ClusterState()
    both = [(kind, route) for (kind, route), n in runs for _ in range(n)]
    pods = [
        replace(one, metadata=replace(one.metadata, name=f"p{at}", uid=f"p{at}"))
        for at, (one, _) in enumerate(both)
    ]
    batch, twin = PodBatch(state, pods), Twin(state, pods, [route for _, route in both])
    assert batch.pods is pods
    assert [batch.pod(at) for at in range(len(pods))] == pods
    agree(batch, twin, data)
    bits = st.sampled_from([0, Route.SIGNED, Route.REJECTED, Route.PROFILE])
    more = data.draw(st.lists(bits, min_size=len(pods), max_size=len(pods)))
    asked = list[int]()

    def route_of(at: int) -> int:
        asked.append(at)
        return more[at]

    batch.route_by(route_of, each)
    once, asked = asked, []
    twin.route_by(route_of, each)
    assert once == list(dict.fromkeys(asked)), "each once, and in order"
    agree(batch, twin, data)


def test_without_pods() -> None:
    for batch in (PodBatch(ClusterState(), []), PodBatch(ClusterState())):
        assert (len(batch), list(batch.pods)) == (0, [])
        assert (batch.cut(-1), batch.classes(), batch.targets()) == ([], [], [])
        batch.route_by(lambda at: 1 // 0, each=True)


@pytest.mark.parametrize("at", [-1, 2])
@pytest.mark.parametrize("what", ["target", "route", "pod"])
def test_a_pod_that_is_not_there(what: str, at: int) -> None:
    batch = PodBatch(ClusterState(), [pod("a"), pod("b")])
    with pytest.raises(IndexError, match=f"there is no pod {at} among 2"):
        getattr(batch, what)(at)


@pytest.mark.parametrize("each", [True, False])
def test_routes_that_fail_leave_pods_as_they_are(each: bool) -> None:
    batch = PodBatch(ClusterState(), [pod("a"), pod("b"), pod("c", on="n")])

    def fail(at: int) -> int:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        batch.route_by(fail, each)
    assert [batch.route(at) for at in range(len(batch))] == [0, 0, Route.NAMED]


# ---- replicas of a template


def test_replicas_of_a_template() -> None:
    state = ClusterState()
    template = pod("web", affinity=pinned("n1"), ports=[port(80)])
    batch = PodBatch.of_template(state, template, 1000)
    pod_class = state.classes.intern(template)
    target = pod_class, 0, state.classes.pinned_symbol(pod_class, template)
    assert (len(batch), list(batch.pods), batch.targets()) == (1000, [], [target])
    assert batch.cut(-1) == [(0, 1000, Route.PINNED | Route.PORTS)]
    assert [batch.pod(at).metadata.name for at in (0, 999)] == ["web-0", "web-999"]
    assert batch.pod(7).metadata.uid == "default/web-#7"
    assert batch.pod(7).spec is template.spec
    asked = list[int]()
    batch.route_by(lambda at: asked.append(at) or Route.SIGNED)
    assert asked == [0], "equal ones have one route"
    assert batch.route(999) == Route.PINNED | Route.PORTS | Route.SIGNED


def test_no_replicas() -> None:
    batch = PodBatch.of_template(ClusterState(), pod("web"), 0)
    assert (len(batch), batch.cut(-1), batch.targets()) == (0, [], [])
    with pytest.raises(ValueError, match=r"^-1 pods$"):
        PodBatch.of_template(ClusterState(), pod("web"), -1)
    with pytest.raises(CacheError, match=r"^a template of pods needs "):
        PodBatch.of_template(ClusterState(), pod(""), 1)


# ---- pods by their classes


def ints(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def test_classes() -> None:
    state = ClusterState()
    plain, pins = state.classes.intern(pod("p")), state.classes.intern(pod("q", affinity=pinned("x")))
    symbol = state.symbols.intern("n1")
    batch = PodBatch.of_classes(
        state, ints(plain, plain, pins, pins, plain), ints(0, 0, symbol, 0, 0), ints(0, 0, 0, 0, symbol)
    )
    assert [batch.target(at) for at in range(5)] == [
        (plain, 0, 0),
        (plain, 0, 0),
        (pins, 0, symbol),
        (pins, 0, 0),
        (plain, symbol, 0),
    ]
    assert batch.cut(-1) == [(0, 2, 0), (2, 4, Route.PINNED), (4, 5, Route.NAMED)]
    assert PodBatch.of_classes(state, ints(plain), ints(0)).target(0) == (plain, 0, 0)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((ints(0, 0), ints(0)), "one number for each pod is wanted"),
        ((ints(0), ints(0, 0)), "one number for each pod is wanted"),
        ((ints(0), ints(0), ints()), "one number for each pod is wanted"),
        ((ints(-1), ints(0)), "there is no class -1"),
        ((ints(0, 9), ints(0, 0)), "there is no class 9"),
        ((ints(0), ints(99)), "there is no symbol 99"),
        ((ints(0), ints(0), ints(-1)), "there is no symbol -1"),
    ],
)
def test_classes_that_are_not_there(given: Any, text: str) -> None:
    state = ClusterState()
    assert state.classes.intern(pod("p")) == 0
    with pytest.raises((ValueError, IndexError), match=text):
        PodBatch.of_classes(state, *given)


# ---- sinks


def over(*nodes: str) -> ClusterState:
    state = ClusterState()
    for name in nodes:
        state.set_node(node(name))
    return state


def placed(state: ClusterState, *rows: int) -> Placements:
    out = Placements(state, len(rows))
    out.rows[:] = rows
    return out


def held(state: ClusterState) -> dict[str, str]:
    return {one.name: one.spec.node_name for one in state.pods()}


def test_the_ledger_takes_pods_with_a_row_as_assumed() -> None:
    state = over("a", "b")
    pods = [pod("p0"), pod("p1"), pod("p2", requests={"cpu": 1}), pod("p3"), pod("p4")]
    batch, rows = PodBatch(state, pods), placed(state, 0, -1, 1, 1, 0)
    LedgerSink().enter(batch, rows, 0, 4)
    assert held(state) == {"p0": "a", "p2": "b", "p3": "b"}
    assert all(state.is_assumed_pod(one) for one in state.pods())
    state.forget_pod(bound(pods[2], "b"))
    assert state.table.requested["cpu"].tolist() == [0, -1000], "whoever placed it has accounted for it"
    LedgerSink().enter(batch, rows, 4, 5)
    assert held(state)["p4"] == "a"


@pytest.mark.parametrize(("first", "end", "rows"), [(-1, 1, 2), (0, 3, 3), (0, 2, 1), (2, 1, 2), (0, 2, 0)])
def test_rows_that_the_ledger_cannot_take(first: int, end: int, rows: int) -> None:
    state = over("a")
    with pytest.raises(IndexError, match=f"there are no pods {first} to {end} with a row"):
        LedgerSink().enter(PodBatch(state, [pod("p"), pod("q")]), placed(state, *[0] * rows), first, end)
    assert held(state) == {}


def test_a_row_that_is_not_there_enters_nobody() -> None:
    state = over("a")
    with pytest.raises(IndexError, match="there is no row 7"):
        LedgerSink().enter(PodBatch(state, [pod("p"), pod("q")]), placed(state, 0, 7), 0, 2)
    assert held(state) == {}


def test_the_ledger_takes_no_pods_without_objects() -> None:
    state = over("a")
    state.classes.intern(pod("p"))
    batch = PodBatch.of_classes(state, ints(0, 0), ints(0, 0))
    with pytest.raises(IndexError, match="there are no pods 0 to 2 with a row"):
        LedgerSink().enter(batch, placed(state, 0, 0), 0, 2)


def test_replicas_are_entered_up_to_the_first_that_fits_nowhere() -> None:
    state, template = over("a", "b"), pod("web")
    batch, sink = PodBatch.of_template(state, template, 9, 5), LedgerSink()
    rows = placed(state, 0, 1, -1, 0, -1, -1, -1, -1, 1)
    sink.enter(batch, rows, 0, 1)
    sink.enter(batch, rows, 1, 8)
    assert held(state) == {"web-5": "a", "web-6": "b"}
    sink.enter(batch, rows, 8, 9)
    assert held(state)["web-13"] == "b", "the ordinal follows from the place"
    sink.enter(batch, rows, 4, 4)
    assert len(state.ledger) == 3


def test_a_sink_of_nobodys() -> None:
    state = over("a")
    assert Sink().enter(PodBatch(state, [pod("p")]), placed(state, 0), 0, 1) == 0
    assert held(state) == {}
