"""Preemption in whole cycles: by the pod, in runs and in batches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import pinned
from tests.doors.answers import examine_preemption
from tests.doors.engine import cycle, schedule_one
from tests.framework.make import UNSCHEDULABLE, make, status
from tests.make import node, pod, port
from tests.scheduler.make import events, scheduler_with

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import Code, Framework
from moorage.engine.scheduler import Eviction, Profile
from moorage.kube import Cluster, Pod, PodStatus

VAIN = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 "


def small(*pods: Pod, nodes: Any = None, **how: Any) -> Scheduler:
    return Scheduler(Cluster(nodes=nodes or [node("a")], pods=list(pods)), **how)


def low(name: str = "v", on: str = "a", cpu: int = 4, **spec: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu}, **spec)


def high(name: str = "p", cpu: int = 2, **spec: Any) -> Pod:
    return pod(name, **{"requests": {"cpu": cpu}, "priority": 10} | spec)


def stored(one: Scheduler) -> dict[str, str]:
    return {each.name: each.spec.node_name for each in one.client.list(Pod)[0]}


@pytest.mark.parametrize("outside", [False, True])
def test_an_engine_that_runs_no_post_filter_evicts_nobody(outside: bool) -> None:
    plugins = (make(mo.FilterPlugin, "X", filter=None),) if outside else ()
    expected = replace(high(), status=PodStatus(nominated_node_name="gone"))
    one = scheduler_with(*plugins, nodes=[node("a")], pods=[low(), expected])
    for engine in one.engines.values():
        engine.runs_post_filter = False
    decision = schedule_one(one.context, one.pods.pending["default/p"])
    assert decision.fit_error == "0/1 nodes are available: 1 Insufficient cpu."
    assert set(stored(one)) == {"v", "p"}


def test_pods_without_a_store_leave_the_cache() -> None:
    """Nobody would end the nomination of a pod that the store does not know: it is not nominated."""
    one = small()
    assert schedule_one(one.context, low("v", on="")).node == "a"
    decision = schedule_one(one.context, high())
    assert (decision.node, decision.evicts) == (None, True)
    assert one.cache.state.pods() == []
    assert not one.handle.nominator
    assert schedule_one(one.context, high()).node == "a"


def test_a_victim_that_is_assumed_and_not_bound_is_deleted() -> None:
    one = small(low("v", on=""))
    assert schedule_one(one.context, one.pods.pending["default/v"]).node == "a"
    one.client.create(high())
    one.sync()
    assert schedule_one(one.context, one.pods.pending["default/p"]).evicts
    assert (stored(one), one.cache.state.pods()) == ({"p": ""}, [])


def test_all_plugins_of_a_profile_take_part() -> None:
    steps: list[str] = []
    reserve = make(mo.ReservePlugin, "R", reserve=lambda self, state, pod, name: steps.append(name))
    one = scheduler_with(reserve, nodes=[node("a")], pods=[low(), high()])
    decision = schedule_one(one.context, one.pods.pending["default/p"])
    assert decision.evicts
    assert events(one)[0][:4] == ("v", "Normal", "Preempted", "Preempting")
    condition = one.client.get(Pod, "p", "default").status.conditions[0]
    assert (condition.reason, condition.message) == ("Unschedulable", decision.fit_error)
    assert schedule_one(one.context, one.pods.pending["default/p"]).node == "a"
    assert (steps, stored(one)) == (["a"], {"p": "a"})


# ---- runs --------------------------------------------------------------------------------------------------


def test_a_pod_that_is_evicted_in_its_own_run_is_not_bound() -> None:
    """A queue order of one's own lets lower priorities go first."""

    class Reversed(mo.QueueSortPlugin):
        name = "PrioritySort"

        def less(self, a: Any, b: Any) -> bool:
            return (a.pod.spec.priority or 0) < (b.pod.spec.priority or 0)

    plugins = [p for p in default_profile().plugins if p.name != "PrioritySort"]
    one = small(low("v", on=""), high(), profile=Profile((*plugins, Reversed())))
    result = one.run()
    assert (result.placements, result.unschedulable) == ({"default/p": "a"}, {})
    assert result.evicted == {"default/v": Eviction("a", "default/p")}
    assert stored(one) == {"p": "a"}


def test_a_run_without_anybody_to_evict_stays_in_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pending pods of lower priority are nobody to evict."""
    pods = [high(f"p{at}", cpu=3) for at in range(3)] + [low("v", on="", cpu=2)]
    one = small(*pods)
    monkeypatch.setattr(cycle, "schedule_pod", AssertionError)
    result = one.run()
    assert result.placements == {"default/p0": "a"}
    first, second = (result.unschedulable[f"default/p{at}"] for at in (1, 2))
    assert first is second
    assert (
        first.message
        == f"0/1 nodes are available: 1 Insufficient cpu. {VAIN}No preemption victims found for incoming pod."
    )


def test_equal_pods_for_whom_nobody_can_leave_share_a_failure() -> None:
    """PostFilter is asked about the first of them only, as long as nothing changes."""
    asked: list[str] = []
    one = small(low(cpu=1), low("stays", cpu=3, priority=20), *[high(f"p{at}", cpu=3) for at in range(5)])
    framework = one.engines["default-scheduler"].framework
    run = framework.run_post_filter_plugins

    def counted(state: Any, pod: Pod, statuses: Any) -> Any:
        asked.append(pod.name)
        return run(state, pod, statuses)

    framework.run_post_filter_plugins = counted  # type: ignore[method-assign]
    result = one.run()
    assert asked == ["p0"]
    failures = [result.unschedulable[f"default/p{at}"] for at in range(5)]
    assert all(failure is failures[0] for failure in failures)
    assert failures[0].message.endswith(f"{VAIN}Insufficient cpu.")
    assert set(stored(one)) >= {"v", "stays"}


def test_the_examination_tells_all_and_does_nothing() -> None:
    one = small(low(), low("w", on="b"), nodes=[node("a"), node("b"), node("c", cpu=1)])
    engine = one.engines["default-scheduler"]
    seen = examine_preemption(engine, high())
    assert [each.name for each in seen.dry_run.candidates] == ["a", "b"]
    assert seen.choice is not None
    assert (seen.choice.candidate.name, seen.choice.criterion, seen.choice.tied) == ("a", "order", ("a", "b"))
    assert set(stored(one)) == {"v", "w"}
    assert examine_preemption(engine, pod("fits", requests={"cpu": 1}, priority=5)).choice is None
    assert (
        examine_preemption(
            small(nodes=[node("a")]).engines["default-scheduler"], pod("fits")
        ).dry_run.potential
        == []
    )


def test_the_examination_of_a_pod_that_no_plugin_lets_through() -> None:
    soft = make(mo.PreFilterPlugin, "No", pre_filter=status(UNSCHEDULABLE, "no"))
    one = scheduler_with(soft, nodes=[node("a")], pods=[low()])
    seen = examine_preemption(one.engines["default-scheduler"], high())
    assert seen.dry_run.potential == ["a"], "code 2 of PreFilter speaks for all nodes"
    hard = make(mo.PreFilterPlugin, "No", pre_filter=status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "no"))
    two = scheduler_with(hard, nodes=[node("a")], pods=[low()])
    assert examine_preemption(two.engines["default-scheduler"], high()).dry_run.potential == []
    failing = make(mo.FilterPlugin, "F", filter=ValueError("x"))
    three = scheduler_with(failing, nodes=[node("a")], pods=[low(cpu=1)])
    assert examine_preemption(three.engines["default-scheduler"], high()).dry_run.potential == []
    four = scheduler_with(failing, nodes=[node("a")], pods=[low()])
    seen = examine_preemption(four.engines["default-scheduler"], high())
    assert seen.dry_run.error == 'running "F" filter plugin: plugin "F" raised ValueError: x'


# ---- batches and single cycles -----------------------------------------------------------------------------


@st.composite
def clusters(draw: Any) -> tuple[list[Any], list[Pod], list[Pod]]:
    nodes = [node(name, pods=4) for name in "abc"[: draw(st.integers(1, 3))]]
    names = [one.name for one in nodes]
    priorities = st.integers(0, 3)
    there = [
        pod(
            f"v{at}",
            on=draw(st.sampled_from(names)),
            requests={"cpu": draw(st.integers(1, 2))},
            priority=draw(priorities),
        )
        for at in range(draw(st.integers(0, 6)))
    ]
    coming = []
    for at in range(draw(st.integers(1, 8))):
        spec: dict[str, Any] = {"requests": {"cpu": draw(st.integers(1, 5))}, "priority": draw(priorities)}
        kind = draw(st.integers(0, 6))
        if kind == 0:
            spec["affinity"] = pinned(draw(st.sampled_from(names)))
        elif kind == 1:
            spec["ports"] = [port(80)]
        elif kind == 2:
            spec["preemption_policy"] = "Never"
        coming.append(pod(f"p{at}", **spec))
    return nodes, there, coming


@settings(deadline=None, max_examples=120)
@given(clusters(), st.booleans())
def test_a_batch_decides_like_single_cycles(
    made: tuple[list[Any], list[Pod], list[Pod]], known: bool
) -> None:
    """Whether the store knows the pods or not."""
    nodes, there, coming = made

    def world() -> Scheduler:
        return small(*there, *(coming if known else []), nodes=nodes, tie_break="go-heap")

    batch, single = world(), world()
    result = batch.schedule_pods(coming)
    for at, each in enumerate(coming):
        decision = schedule_one(single.context, each)
        row = result.rows[at]
        assert (None if row < 0 else batch.table.row_name(row)) == decision.node
        if decision.node is None:
            failure = result.failures[at]
            assert failure.message == decision.fit_error
            info = decision.nominating
            assert failure.nominated_node == ("" if info is None else info.nominated_node_name)
    assert sorted(one.key for one in batch.cache.state.pods()) == sorted(
        one.key for one in single.cache.state.pods()
    )
    assert stored(batch) == stored(single)
    assert batch.placer.decider.start == single.placer.decider.start


@pytest.mark.parametrize(
    ("asks", "is_read"), [({}, False), ({"priority": 10}, True), ({"affinity": pinned("a")}, True)]
)
def test_pre_filter_is_run_where_its_answer_is_read(
    asks: dict[str, Any], is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, run = list[str](), Framework.run_pre_filter_plugins

    def noted(self: Framework, state: Any, one: Pod) -> Any:
        asked.append(one.name)
        return run(self, state, one)

    monkeypatch.setattr(Framework, "run_pre_filter_plugins", noted)
    small(low(), high(**{"priority": 0} | asks)).run()
    assert bool(asked) == is_read
