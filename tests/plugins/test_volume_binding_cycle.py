"""VolumeBinding: scores, and what it does with volumes once a node is chosen."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.make import pod
from tests.plugins.volume_binding_kit import (
    LATE,
    MADE,
    NODES,
    Bench,
    asking,
    bound,
    disk,
    unresolvable,
    waiting,
)
from tests.words import BIND_COMPLETED, BIND_CONFLICT, SELECTED_NODE

from moorage import Scheduler
from moorage.engine.framework import Code, CycleState, Status
from moorage.kube import Cluster, PersistentVolume, PersistentVolumeClaim

# ---- scores ------------------------------------------------------------------------------------------------


def test_scores_by_the_gate_alone() -> None:
    """Its default shape prefers storage with more room. Pods without volumes have scores too, which are 0."""
    cluster = Cluster(
        nodes=NODES,
        others=[LATE, waiting("c"), disk("v1", size="2Gi", on="z1"), disk("v2", size="10Gi", on="z2")],
    )
    for gate, expected in ((True, [50, 90]), (False, None)):
        one = Scheduler(cluster, feature_gates={"StorageCapacityScoring": gate})
        seen = one.examine(asking("p", "c"))
        scores = seen.raw.get("VolumeBinding")
        assert (None if scores is None else scores.tolist()) == expected
        assert seen.best == (["b"] if gate else ["a", "b"])
        plain = one.examine(pod("q"))
        assert ("VolumeBinding" in plain.skipped_score) is not gate
        assert gate is ("VolumeBinding" in plain.raw and not plain.raw["VolumeBinding"].any())


# ---- Reserve and Unreserve ---------------------------------------------------------------------------------


def cached(bench: Bench) -> tuple[Any, ...]:
    """What all profiles believe of volumes and claims."""
    sources = bench.plugin.binder.sources
    return sources.pv_cache.list_pvs("late"), sources.pvc_cache.list_value("default")


def test_what_is_reserved_is_nobody_elses() -> None:
    """Not of a pod of another profile either, before the volume is bound."""
    bench = Bench(LATE, waiting("c"), waiting("d"), disk("v", on="z1"))
    before = cached(bench)
    state = bench.reserve(asking("p", "c"))
    assert bench.other.binder is not bench.plugin.binder
    assert bench.other.binder.sources is bench.plugin.binder.sources
    asked = asking("q", "d", scheduler_name="other")
    others, status = bench.begin(asked, bench.other)
    assert status is None
    assert bench.other.filter(others, asked, bench.info("a")) == unresolvable(BIND_CONFLICT)
    for _ in range(2):
        bench.plugin.unreserve(state, asking("p", "c"), "a")
        assert cached(bench) == before
    bench.reserve(asked, plugin=bench.other)
    (volume,) = cached(bench)[0]
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.name == "d"


def test_the_node_is_selected_for_claims_whose_volumes_are_made() -> None:
    bench = Bench(MADE, waiting("c", "made"))
    before = cached(bench)
    state = bench.reserve(asking("p", "c"))
    (one,) = cached(bench)[1]
    assert one.metadata.annotations == {SELECTED_NODE: "a"}
    bench.plugin.unreserve(state, asking("p", "c"), "b")  # nothing was found there
    assert cached(bench) != before
    bench.plugin.unreserve(state, asking("p", "c"), "a")
    assert cached(bench) == before
    assert bench.store.get("PersistentVolumeClaim", "c", "default").metadata.annotations == {}


def test_a_reserve_that_fails_leaves_everything_as_it_was() -> None:
    bench = Bench(LATE, MADE, waiting("c"), waiting("d", "made"), disk("v"))
    asked = asking("p", "c", "d")
    state, _ = bench.begin(asked)
    assert bench.plugin.filter(state, asked, bench.info("a")) is None
    bench.store.delete("PersistentVolumeClaim", "d", "default")
    bench.scheduler.sync()
    before = cached(bench)
    status = bench.plugin.reserve(state, asked, "a")
    assert status is not None
    text = 'could not find v1.PersistentVolumeClaim "default/d"'
    assert (status.code, status.message()) == (Code.ERROR, text)
    assert cached(bench) == before
    bench.plugin.unreserve(state, asked, "a")
    assert cached(bench) == before


# ---- PreBind -----------------------------------------------------------------------------------------------


def flight(bench: Bench, state: CycleState, on: str = "a") -> Status | None:
    return bench.plugin.pre_bind_pre_flight(state, pod("p"), on)


def test_nothing_to_bind() -> None:
    bench = Bench(bound("c", "v"), disk("v"))
    for filters in (True, False):  # all nodes at once, nothing is kept of them
        asked = asking("p", "c")
        state, _ = bench.begin(asked)
        if filters:
            assert bench.plugin.filter(state, asked, bench.info("a")) is None
        assert bench.plugin.reserve(state, asked, "a") is None
        said = flight(bench, state)
        assert said is not None
        assert said.is_skip
        assert bench.pre_bind(state, asked, "a") is None
    assert bench.waits == []


def test_a_node_for_which_nothing_was_found() -> None:
    bench = Bench(LATE, waiting("c"), disk("v"))
    state = bench.reserve(asking("p", "c"))
    assert flight(bench, state) is None
    expected = Status(Code.ERROR, ('no pod volumes found for node "b"',))
    assert flight(bench, state, "b") == expected
    assert bench.pre_bind(state, asking("p", "c"), "b") == expected


def complete(bench: Bench, after: int = 1) -> None:
    """The controller at work, in the so manieth second."""
    if len(bench.waits) == after:
        one = bench.store.get(PersistentVolumeClaim, "c", "default")
        marked = replace(one.metadata, annotations=one.metadata.annotations | {BIND_COMPLETED: "yes"})
        bench.store.update(replace(one, metadata=marked, spec=replace(one.spec, volume_name="v")))


@pytest.mark.parametrize("timeout", [1, 7, None])
def test_binding_that_takes_too_long(timeout: int | None) -> None:
    args: Any = {} if timeout is None else {"bindTimeoutSeconds": timeout}
    bench = Bench(LATE, waiting("c"), disk("v"), **args)
    asked = asking("p", "c")
    bench.store.create(asked)
    bench.scheduler.sync()
    for _ in range(2):  # each pod has all of it
        bench.waits.clear()
        state = bench.reserve(asked)
        status = bench.pre_bind(state, asked, "a")
        assert status is not None
        text = "binding volumes: context deadline exceeded"
        assert (status.code, status.message()) == (Code.ERROR, text)
        assert len(bench.waits) == (timeout or 600)
        bench.plugin.unreserve(state, asked, "a")


def test_writes_that_are_refused() -> None:
    bench = Bench(LATE, waiting("c"), disk("v"))
    asked = asking("p", "c")
    bench.store.create(asked)
    bench.scheduler.sync()
    state = bench.reserve(asked)
    held = bench.store.get(PersistentVolume, "v")
    changed = bench.store.update(replace(held, metadata=replace(held.metadata, labels={"new": "er"})))
    status = bench.pre_bind(state, asked, "a")
    assert status is not None
    assert status.code == Code.ERROR
    assert "the object has been modified" in status.message()
    assert bench.waits == []
    bench.plugin.unreserve(state, asked, "a")
    bench.scheduler.sync()
    assert cached(bench)[0] == (changed,)


def test_a_run_waits_for_somebody_else() -> None:
    """Who is waited for need not tell the scheduler: it hears of it after each wait."""
    bench = Bench(LATE, waiting("c"), disk("v", on="z2"), wait=lambda one: complete(one, 2))
    bench.store.create(asking("p", "c"))
    assert bench.scheduler.run().placements == {"default/p": "b"}
    assert bench.waits == [1.0, 1.0]
