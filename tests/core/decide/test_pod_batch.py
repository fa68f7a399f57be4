"""PodBatch: what is read of pods, as runs of equal ones; and the sinks that take the placed ones."""

from __future__ import annotations

import gc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import pinned
from tests.doors.engine import (
    BoundSink,
    ClusterState,
    LedgerSink,
    Placements,
    PodBatch,
    Route,
    Routes,
    Sink,
    bound,
)
from tests.make import node, pod, port

from moorage.errors import CacheError
from moorage.kube import PersistentVolumeClaimVolumeSource, Pod, PodStatus, Volume

CLAIM = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
Piece = tuple[int, int, int]


def going(one: Pod) -> Pod:
    return replace(one, metadata=replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


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
    (pod("p", nominated="n1"), Route.NOMINATED),
    (going(pod("p", on="n2", nominated="n1")), Route.NAMED | Route.TERMINATING | Route.NOMINATED),
]
kinds = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 4)), max_size=6)


def state_target(state: ClusterState, one: Pod) -> tuple[int, int, int]:
    pod_class, name = state.classes.intern(one), one.spec.node_name
    symbol = state.classes.pinned_symbol(pod_class, one)
    return pod_class, state.symbols.intern(name) if name else 0, symbol


class Twin:
    """What a batch says of pods that are looked at one by one."""

    def __init__(self, state: ClusterState, pods: list[Pod], routes: list[int]) -> None:
        self.routes = list(routes)
        self.targets = [state_target(state, one) for one in pods]

    def cut(self, mask: int, first: int) -> list[Piece]:
        """Where the bits of a mask change."""
        routes = [route & mask for route in self.routes]
        begins = [first, *(at for at in range(first + 1, len(routes)) if routes[at] != routes[at - 1])]
        return [(begin, end, routes[begin]) for begin, end in pairwise([*begins, len(routes)]) if begin < end]


def agree(batch: PodBatch, twin: Twin, data: st.DataObject) -> None:
    n = len(twin.routes)
    assert len(batch) == n
    assert [batch.target(at) for at in range(n)] == twin.targets
    assert [batch.route(at) for at in range(n)] == twin.routes
    masks = st.sampled_from([0, Route.PORTS, Route.NAMED | Route.VOLUMES, Route.SIGNED | Route.REJECTED, -1])
    mask, first = data.draw(masks), data.draw(st.integers(0, n))
    assert batch.cut(mask, first) == twin.cut(mask, first)
    assert batch.has(mask) == any(route & mask for route in twin.routes)
    if first < n:
        end = data.draw(st.integers(first + 1, n))
        among = twin.targets[first:end]
        assert batch.targets(first, end) == list(dict.fromkeys(among))
        assert batch.classes(first, end) == list(dict.fromkeys(one[0] for one in among))
        assert batch.targets(first) == list(dict.fromkeys(twin.targets[first:]))


@settings(deadline=None, max_examples=200)
@given(kinds, st.data())
def test_what_is_read(runs: list[tuple[tuple[Pod, int], int]], data: st.DataObject) -> None:
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


@settings(deadline=None, max_examples=200)
@given(kinds, st.booleans(), st.data())
def test_what_others_know(runs: list[tuple[tuple[Pod, int], int]], each: bool, data: st.DataObject) -> None:
    """Of a class once for pods with volumes and once for those without; with `each`, of every pod besides."""
    state = ClusterState()
    both = [(kind, route) for (kind, route), n in runs for _ in range(n)]
    pods = [
        replace(one, metadata=replace(one.metadata, name=f"p{at}", uid=f"p{at}"))
        for at, (one, _) in enumerate(both)
    ]
    bits = st.sampled_from([0, Route.REJECTED, Route.PROFILE])
    known = dict[tuple[int, bool], int]()
    more = {one.name: data.draw(st.sampled_from([0, Route.SIGNED, Route.WAITS])) for one in pods}
    asked = list[str]()

    def of_class(one: Pod, target: tuple[int, int, int], uses_volumes: bool) -> int:
        assert target == state_target(state, one)
        key = target[0], uses_volumes
        assert uses_volumes == bool(one.spec.volumes and one.spec.volumes[0] == CLAIM)
        assert key not in known
        known[key] = data.draw(bits)
        return known[key]

    def of_pod(one: Pod) -> int:
        asked.append(one.name)
        return more[one.name]

    routes = Routes(of_class, of_pod if each else None)
    for _ in range(2):
        batch, expected = PodBatch(state, pods, routes), []
        for one, route in both:
            has_claim = bool(one.spec.volumes and one.spec.volumes[0] == CLAIM)
            expected.append(route | known[state.classes.intern(one), has_claim])
        if each:
            expected = [route | more[one.name] for one, route in zip(pods, expected, strict=True)]
        agree(batch, Twin(state, pods, expected), data)
    assert asked == [one.name for one in pods] * (2 if each else 0), "each once, and in order"


@pytest.mark.parametrize("at", [-1, 2])
@pytest.mark.parametrize("what", ["target", "route", "pod"])
def test_a_pod_that_is_not_there(what: str, at: int) -> None:
    batch = PodBatch(ClusterState(), [pod("a"), pod("b")])
    with pytest.raises(IndexError, match=f"there is no pod {at} among 2"):
        getattr(batch, what)(at)


@pytest.mark.parametrize("each", [True, False])
def test_routes_that_fail(each: bool) -> None:
    def fail(*about: object) -> int:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        PodBatch(
            ClusterState(), [pod("a")], Routes((lambda one, target, uses_volumes: 0) if each else fail, fail)
        )


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
    routes = Routes(lambda *given: Route.REJECTED, lambda one: Route.SIGNED)
    batch = PodBatch.of_template(state, template, 1000, routes=routes)
    assert batch.route(999) == Route.PINNED | Route.PORTS | Route.REJECTED | Route.SIGNED


def test_a_template_without_replicas_gives_an_empty_batch() -> None:
    batch = PodBatch.of_template(ClusterState(), pod("web"), 0)
    assert (len(batch), batch.cut(-1), batch.targets()) == (0, [], [])
    with pytest.raises(ValueError, match=r"^-1 pods$"):
        PodBatch.of_template(ClusterState(), pod("web"), -1)
    with pytest.raises(CacheError, match=r"^a template of pods needs "):
        PodBatch.of_template(ClusterState(), pod(""), 1)


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


@pytest.mark.parametrize("sink", [LedgerSink(), BoundSink()])
@pytest.mark.parametrize(("first", "end", "rows"), [(-1, 1, 2), (0, 3, 3), (0, 2, 1), (2, 1, 2), (0, 2, 0)])
def test_rows_that_the_ledger_cannot_take(first: int, end: int, rows: int, sink: Sink) -> None:
    state = over("a")
    with pytest.raises(IndexError, match=f"there are no pods {first} to {end} with a row"):
        sink.enter(PodBatch(state, [pod("p"), pod("q")]), placed(state, *[0] * rows), first, end)
    assert held(state) == {}


def test_a_row_that_is_not_there_enters_nobody() -> None:
    state = over("a")
    with pytest.raises(IndexError, match="there is no row 7"):
        LedgerSink().enter(PodBatch(state, [pod("p"), pod("q")]), placed(state, 0, 7), 0, 2)
    assert held(state) == {}


def test_replicas_have_to_be_in_the_batch() -> None:
    state = over("a")
    batch = PodBatch.of_template(state, pod("web"), 2)
    with pytest.raises(IndexError, match="there are no pods 0 to 3 with a row"):
        LedgerSink().enter(batch, placed(state, 0, 0, 0), 0, 3)
    with pytest.raises(IndexError, match="there are no pods 0 to 1 with a row"):
        BoundSink().enter(batch, placed(state, 0, 0), 0, 1)  # they have no objects
    assert held(state) == {}


def test_a_sink_of_nobodys() -> None:
    state = over("a")
    assert Sink().enter(PodBatch(state, [pod("p")]), placed(state, 0), 0, 1) == 0
    assert held(state) == {}


# ---- rows


def test_rows_names_and_how_many() -> None:
    """Names are those of the moment when they were noted: a row may be another node's later."""
    state = over("a", "b")
    out = Placements(state, 4)
    assert (len(out), out.rows.tolist(), out.nodes) == (4, [-1] * 4, [None] * 4)
    rows = out.rows
    rows[:3] = 1, 0, 1
    assert out.rows is rows
    out.note_names()
    state.remove_node("b")
    state.set_node(node("c"))
    assert out.nodes == ["b", "a", "b", None]
    out.truncate(2)
    assert (len(out), out.rows.tolist(), out.nodes) == (2, [1, 0], ["b", "a"])
    out.truncate(9)
    assert len(out) == 2
    with pytest.raises(ValueError, match=r"^-1 pods$"):
        Placements(state, -1)


def test_placed_and_unplaced_pods() -> None:
    out = placed(over("a", "b"), 1, -1, 0, -1)
    assert out.nodes_of([2, 0]) == ["a", "b"]
    assert (out.unplaced(0, 4), out.unplaced(2, 4), out.unplaced(2, 3)) == ([1, 3], [3], [])
    for at in (1, 4, -1):  # not placed, not there
        with pytest.raises(IndexError, match=r"there is no|has no node"):
            out.nodes_of([at])
    for first, end in ((0, 5), (-1, 2), (3, 2)):
        for ask in (out.unplaced, out.placed, lambda *pods: out.placed_of("pqrs", *pods)):
            with pytest.raises(IndexError, match="there are no pods"):
                ask(first, end)


def test_what_belongs_to_placed_pods() -> None:
    out, entries = placed(over("a", "b"), 1, -1, 0), ["p", "q", "r"]
    assert out.placed_of(entries, 0, 3) == (["p", "r"], ["b", "a"])
    assert out.placed_of(entries, 1, 2) == ([], [])
    out = placed(over("a", "b"), 1, 0)
    assert out.placed_of(entries[:2], 0, 2) == (["p", "q"], ["b", "a"])
    assert out.placed_of(entries, 0, 2) == (["p", "q"], ["b", "a"])
    assert out.placed_of("pq", 0, 2) == (["p", "q"], ["b", "a"])
    every = ["p", "q"]
    assert out.placed_of(every, 0, 2)[0] is every
    with pytest.raises(IndexError, match="there is no row 7"):
        placed(over("a"), 7).placed_of(every, 0, 1)


def test_rows_of_nodes_by_their_names() -> None:
    out = placed(over("a", "b"), -1, -1, 1)
    out.place_on(["b", "gone"])
    assert out.rows.tolist() == [1, -1, 1]
    out.place_on(["a"])
    assert out.rows.tolist() == [0, -1, 1]
    with pytest.raises(IndexError, match="there are no pods 0 to 4 among 3"):
        out.place_on(["a"] * 4)


PARTS = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(["default", "other"]),
        "labels": st.sampled_from([{}, {"app": "a"}, {"app": "b"}]),
        "annotations": st.sampled_from([{}, {"godel.bytedance.com/pod-group-name": "g"}]),
        "deletion_timestamp": st.sampled_from([None, "2026-01-01T00:00:00Z"]),
        "spec": st.sampled_from(
            [pod("p").spec, pod("p", requests={"cpu": 1}).spec, pod("p", volumes=(CLAIM,)).spec]
        ),
        "status": st.sampled_from([PodStatus(), PodStatus(nominated_node_name="n1")]),
        "copies": st.booleans(),
    }
)


@given(st.lists(PARTS, max_size=8))
def test_pods_that_share_objects_are_read_as_others(parts: list[dict[str, Any]]) -> None:
    state, pods = ClusterState(), list[Pod]()
    for at, one in enumerate(parts):
        meta = {name: one[name] for name in ("namespace", "labels", "annotations", "deletion_timestamp")}
        if one["copies"]:
            meta |= {"labels": {**meta["labels"]}, "annotations": {**meta["annotations"]}}
        base = pod(f"p{at}")
        pods.append(
            replace(base, metadata=replace(base.metadata, **meta), spec=one["spec"], status=one["status"])
        )
    batch = PodBatch(state, pods)
    for at, one in enumerate(pods):
        alone = PodBatch(state, [one])
        assert (batch.target(at), batch.route(at)) == (alone.target(0), alone.route(0))


def test_rows_of_results_that_are_collected() -> None:
    """The collector clears a result in a circle before its memory is freed: the rows are the array's then."""

    class Circle(Placements):
        pass

    for _ in range(200):
        one = Circle(ClusterState(), 1000)
        one.itself, rows = one, one.rows  # type: ignore[attr-defined]
        del one
        gc.collect(0)
        rows[:] = 7
        assert (rows == 7).all()


def test_pods_with_the_same_objects_have_one_route() -> None:
    """Until one of the objects that routes are read of is another."""
    asked, bits = list[str](), iter(range(1, 99))

    def of_pod(one: Pod) -> int:
        asked.append(one.name)
        return next(bits) << 16

    one = pod("a", labels={"l": "a"})
    one = replace(one, metadata=replace(one.metadata, annotations={"n": "a"}))
    meta = one.metadata
    others = [
        replace(one, metadata=replace(meta, name="b", uid="b")),
        replace(one, metadata=replace(meta, name="c", labels=dict(meta.labels))),
        replace(one, metadata=replace(meta, name="d", annotations=dict(meta.annotations))),
        replace(one, metadata=replace(meta, name="e", namespace="other")),
        replace(one, metadata=replace(meta, name="f"), spec=replace(one.spec)),
        replace(one, metadata=replace(meta, name="g"), status=replace(one.status)),
    ]
    for repeats in False, True:
        routes = Routes(lambda pod, target, uses_volumes: 0, of_pod, repeats)
        for other in others:
            batch = PodBatch(ClusterState(), [one, other, other, one], routes)
            alike = [batch.route(1) == batch.route(0), batch.route(2) == batch.route(1)]
            assert alike == [repeats and other.name == "b", repeats], other.name
            assert batch.route(3) != batch.route(1) or other.name == "b"
    assert "".join(asked[24:]) == "a" + "acaadaaeaafaaga"
