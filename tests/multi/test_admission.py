"""Placements that the core checks together are decided as one by one."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import ZONE, node, pinned, pod, port
from tests.multi.kit import World, asking
from tests.multi.test_binder import anti_affinity
from tests.scheduler.groups.gang_kit import GATES

from moorage._core.decide.batch_rows import Placements
from moorage._core.decide.pod_batch import PodBatch
from moorage.errors import CacheError
from moorage.framework import as_status
from moorage.multi import Outcome, Placement
from moorage.objects import (
    GangSchedulingPolicy,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodSchedulingGroup,
    Taint,
    TopologySpreadConstraint,
)
from moorage.objects.model.godel import RESOURCE_TYPE

NODES = (
    node("a", zone="x"),
    node("b", zone="x"),
    node("c", zone="y"),
    node("d", zone="y", unschedulable=True),
    node("e", zone="y", taints=(Taint(key="k", effect="NoSchedule"),)),
)
SPREAD = TopologySpreadConstraint(
    max_skew=1,
    topology_key=ZONE,
    when_unsatisfiable="DoNotSchedule",
    label_selector=LabelSelector({"app": "s"}),
)
GANG = PodGroup(
    metadata=ObjectMeta(name="g", namespace="default"),
    spec=PodGroupSpec(scheduling_policy=PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=2))),
)


def annotated(one: Pod, **annotations: str) -> Pod:
    return replace(one, metadata=replace(one.metadata, annotations=annotations))


KINDS: dict[str, Any] = {
    "small": lambda name: asking(name, "1"),
    "large": lambda name: asking(name, "3"),
    "huge": lambda name: asking(name, "9"),
    "port": lambda name: pod(name, ports=[port(80)]),
    "spread": lambda name: pod(name, labels={"app": "s"}, topology_spread_constraints=(SPREAD,)),
    "apart": lambda name: pod(name, labels={"app": "t"}, affinity=anti_affinity("t")),
    "kept apart": lambda name: pod(name, labels={"app": "t"}),
    "pinned": lambda name: asking(name, affinity=pinned("b")),
    "best effort": lambda name: annotated(asking(name, "1"), **{RESOURCE_TYPE: "best-effort"}),
    "member": lambda name: asking(name, "2", scheduling_group=PodSchedulingGroup(pod_group_name="g")),
    "victim": lambda name: asking(name, "4"),
}
WHAT = st.lists(
    st.tuples(
        st.sampled_from(sorted(KINDS)),
        st.sampled_from(["a", "b", "c", "a", "b", "c", "d", "e", "gone"]),
        st.sampled_from([""] * 6 + ["deleted", "twice", "other"]),
    ),
    max_size=24,
)


def placements_of(world: World, wanted: list[tuple[str, str, str]]) -> list[Placement]:
    """Placements of new pods; some pods are deleted, placed twice, or of another UID than in the store."""
    names = [f"p{at}" for at in range(len(wanted))]
    world.store.create_many([KINDS[kind](name) for name, (kind, _, _) in zip(names, wanted, strict=True)])
    world.binder.sync()
    out = []
    for name, (kind, where, twist) in zip(names, wanted, strict=True):
        victims = [one for one in ("v", "w") if kind == "victim" and one in world.where()]
        placement = world.placement(name, where, *victims)
        if twist == "other":
            uid = replace(placement.pod.metadata, uid="other")
            placement = replace(placement, pod=replace(placement.pod, metadata=uid))
        out += [placement] * (2 if twist == "twice" else 1)
        if twist == "deleted":
            world.store.delete(Pod, name, "default")
    world.binder.sync()
    return out


def decided(world: World, wanted: list[tuple[str, str, str]]) -> tuple[list[tuple[str, bool, bool]], Any]:
    """The outcomes of placements in one call, and the state of store and cache after it."""
    world.store.create(GANG)
    world.store.create_many([asking("v", "2"), asking("w", "1")])
    world.binder.sync()
    assert all(world.bind(name, "a").is_bound for name in ("v", "w"))
    outcomes: list[Outcome] = world.binder.bind(placements_of(world, wanted))
    cache = world.binder.cache
    dump, table = cache.dump(), cache.state.table
    pods = {name: sorted(pod.name for pod in info.pods) for name, info in dump.nodes.items()}
    rows = [table.row_amounts(row, ledger) for row in range(len(table.names)) for ledger in (0, 1)]
    units = {pod.name: cache.units.running(f"SinglePodUnit/default/{pod.name}") for pod in cache.state.pods()}
    known = {pod.name: cache.get_pod(pod).spec.node_name for pod in cache.state.pods()}
    state = world.where(), pods, sorted(dump.assumed_pods), rows, units, known
    return [(one.reason, one.is_bound, one.waiting) for one in outcomes], state


@pytest.mark.parametrize("gates", [None, GATES])
@settings(max_examples=150, deadline=None)
@given(wanted=WHAT)
def test_together_as_one_by_one(gates: dict[str, bool] | None, wanted: list[tuple[str, str, str]]) -> None:
    together, singly = (World(nodes=NODES, feature_gates=gates) for _ in range(2))
    singly.binder.cache.admit = lambda placer, chosen, verdicts, first, end: first  # type: ignore[method-assign]
    assert decided(together, wanted) == decided(singly, wanted)


def test_many_are_checked_by_the_core() -> None:
    """Of 300 pods the nodes take 20, the limit of their pods; none is checked by itself."""
    world = World(*[asking(f"p{at}", "100m") for at in range(300)])
    world.binder._admit_each = None  # type: ignore[method-assign, assignment]
    outcomes = world.binder.bind([world.placement(f"p{at}", "ab"[at % 2]) for at in range(300)])
    assert [one.is_bound for one in outcomes] == [True] * 20 + [False] * 280
    assert {one.reason for one in outcomes[20:]} == {"Too many pods"}
    assert not world.binder.cache.dump().assumed_pods


def test_counters_follow_each_placement() -> None:
    world = World(*[KINDS["spread"](f"p{at}") for at in range(6)], nodes=NODES)
    outcomes = world.binder.bind([world.placement(f"p{at}", "acaaca"[at]) for at in range(6)])
    assert [one.is_bound for one in outcomes] == [True, True, True, False, True, True]


def test_reports_of_bindings_confirm_in_bulk() -> None:
    world = World(*[asking(f"p{at}", "100m") for at in range(10)])
    world.binder.cache.update_pod = None  # type: ignore[method-assign, assignment]
    assert all(
        one.is_bound for one in world.binder.bind([world.placement(f"p{at}", "a") for at in range(10)])
    )
    assert not world.binder.cache.dump().assumed_pods


def test_what_is_admitted_expires_and_names_its_node() -> None:
    """The binder dies between admission and binding."""

    def fail(pods: object, nodes: object) -> None:
        raise RuntimeError

    world = World(asking("p"))
    world.store.bind_many = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        world.bind("p", "a")
    cache = world.binder.cache
    assert cache.get_pod(world.get("p")).spec.node_name == "a"
    assert cache.is_assumed_pod(world.get("p"))
    cache.finish_binding(world.get("p"))
    world.clock.now += cache.handler.pod_assumed_ttl + 1
    cache.clean(world.clock.now)
    assert not cache.state.has_pod(world.get("p"))


def test_what_admission_refuses() -> None:
    world = World(asking("p"), asking("q"))
    state, engine = world.binder.cache.state, world.binder._engines[0]
    batch = PodBatch(state, [world.get("p"), world.get("q")])
    chosen, verdicts = Placements(state, 2, batch), np.zeros(2, dtype=np.uint64)
    assert engine.placer.admit(chosen, verdicts, 0, 2) == 0  # no rows
    for first, end in ((-1, 1), (0, 3), (2, 1)):
        with pytest.raises(IndexError, match="there are no pods"):
            engine.placer.admit(chosen, verdicts, first, end)
        with pytest.raises(IndexError, match="there are no pods"):
            world.binder.cache.pods.enter_admitted(chosen, first, end)
    chosen.rows[:] = 99
    with pytest.raises(IndexError):
        engine.placer.admit(chosen, verdicts, 0, 2)
    chosen.rows[:] = 0
    with world.binder.cache.transaction():
        assert engine.placer.admit(chosen, verdicts, 0, 2) == 0


def test_a_refusal_in_a_cycle_of_references_is_collected() -> None:
    """Its status has an exception, whose frames have the refusal."""
    error = CacheError("refused")
    error.outcome = Outcome(Placement(pod("p"), "a"), as_status(error))  # type: ignore[attr-defined]
    seen = ref(error)
    del error
    gc.collect()
    assert seen() is None
