"""Preemption with plugins that count pods, and by a plugin that has PreemptHandle alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from msgspec.structs import replace
from tests.doors.engine import Unit, schedule_one, violations
from tests.framework.make import status
from tests.make import node, pod
from tests.preemption.test_dry_run import clusters
from tests.preemption.twin import Twin
from tests.preemption.world import full, victim

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.compat import PreemptHandle
from moorage.engine.framework import Code, CycleState, NominatingInfo, Status, Victims
from moorage.engine.preemption import Candidate, pick_one_node
from moorage.engine.scheduler import Profile
from moorage.kube import Pod

NODES = [node("a"), node("b")]


# ---- DefaultPreemption -------------------------------------------------------------------------------------


def left(one: Scheduler) -> set[str]:
    return {each.name for each in one.client.list(Pod)[0]}


class Counted:
    def __init__(self, pods: int) -> None:
        self.pods = pods

    def clone(self) -> Counted:
        return Counted(self.pods)


class Alone(mo.PreFilterPlugin, mo.FilterPlugin):
    """Lets pods in where there is none with the label app. PreFilter counts them, the extensions follow."""

    name = "Alone"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> Status | None:
        if "app" in pod.metadata.labels:
            return status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "has the label itself")
        assert self.handle is not None
        there = [one for info in self.handle.snapshot().node_info_list for one in info.pods]
        state.write(self.name, Counted(sum("app" in one.metadata.labels for one in there)))
        return None

    def pre_filter_extensions(self) -> Alone:
        return self

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, node_info: Any) -> None:
        state.read(self.name).pods += "app" in other.metadata.labels

    def remove_pod(self, state: CycleState, pod: Pod, other: Pod, node_info: Any) -> None:
        state.read(self.name).pods -= "app" in other.metadata.labels

    def filter(self, state: CycleState, pod: Pod, node_info: Any) -> Status | None:
        return status(Code.UNSCHEDULABLE, "not alone") if state.read(self.name).pods else None


def test_pre_filter_says_which_pods_are_in_the_way_and_its_extensions_that_they_are_gone() -> None:
    there = [victim("free"), victim("x", labels={"app": "x"}), victim("also free")]
    profile = Profile((*default_profile().plugins, Alone()))
    one = full(*there, pod("p", requests={"cpu": 1}, priority=1), profile=profile)
    assert one.run().placements == {"default/p": "a"}
    assert left(one) == {"free", "also free", "p"}


def test_what_pre_filter_rejects_fits_nowhere_and_evicts_nobody() -> None:
    profile = Profile((*default_profile().plugins, Alone()))
    one = full(victim("x", labels={"app": "x"}), pod("p", priority=1, labels={"app": "y"}), profile=profile)
    assert "available: has the label itself." in one.run().unschedulable["default/p"].message
    assert left(one) == {"x", "p"}


# ---- a plugin of one's own ---------------------------------------------------------------------------------


def priority(one: Pod) -> int:
    return one.spec.priority or 0


def passes_filters(ph: PreemptHandle, state: CycleState, asked: Pod, info: Any) -> bool:
    """PodPassesFiltersOnNode of v1.20: with the nominated pods that go before, then without."""
    others = [one for one in ph.nominated_pods_for_node(info.name) if priority(one) >= priority(asked)]
    others = [one for one in others if one.metadata.uid != asked.metadata.uid]
    if others:
        with_them, there = state.clone(), info.clone()
        for one in others:
            there.add_pod(one)
            assert ph.run_pre_filter_extension_add_pod(with_them, asked, one, there) is None
        if ph.run_filter_plugins(with_them, asked, there):
            return False
    return not ph.run_filter_plugins(state, asked, info)


def select_victims(ph: PreemptHandle, state: CycleState, asked: Pod, info: Any) -> Victims | None:
    """selectVictimsOnNode of v1.20: all pods of lower priority leave, and come back while the pod fits."""

    def change(other: Pod, adds: bool) -> None:
        tell = ph.run_pre_filter_extension_add_pod if adds else ph.run_pre_filter_extension_remove_pod
        (info.add_pod if adds else info.remove_pod)(other)
        assert tell(state, asked, other, info) is None

    lower = [one for one in info.pods if priority(one) < priority(asked)]
    for one in lower:
        change(one, adds=False)
    if not lower or not passes_filters(ph, state, asked, info):
        return None
    lower.sort(key=lambda one: (-priority(one), one.status.start_time or "9"))
    counts = violations([Unit((one,), 0) for one in lower], ph.pod_disruption_budgets())
    protected = [one for one, count in zip(lower, counts, strict=True) if count]
    gone = []
    for one in (*protected, *(one for one in lower if one not in protected)):
        change(one, adds=True)
        if not passes_filters(ph, state, asked, info):
            change(one, adds=False)
            gone.append(one)
    gone.sort(key=lower.index)
    return Victims(tuple(gone), sum(one in protected for one in gone))


class OwnPreemption(mo.PostFilterPlugin):
    """Preemption of v1.20 with what its handle offers."""

    name = "OwnPreemption"

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[NominatingInfo | None, Status | None]:
        assert self.handle is not None
        ph = PreemptHandle(self.handle)
        found: list[Candidate] = []
        for name in (name for name, said in statuses.items() if said.code == Code.UNSCHEDULABLE):
            info = self.handle.cache.node_info(name)
            assert info is not None
            victims = select_victims(ph, state.clone(), pod, info.clone())
            if victims is not None and victims.pods:
                found.append(Candidate(name, victims))
        choice = pick_one_node(found)
        if choice is None:
            return None, Status(Code.UNSCHEDULABLE)
        for one in choice.candidate.victims.pods:
            if one.metadata.deletion_timestamp is None:
                self.handle.client.delete(Pod, one.name, one.namespace)
        return NominatingInfo(choice.candidate.name), None


def outcome(twin: Twin, budgets: Sequence[Any], profile: Profile) -> tuple[Any, set[str]]:
    """Where a pod is nominated to or placed, and who is left."""
    there = [one for pods in twin.pods.values() for one in pods]
    waiting = [
        replace(one, status=replace(one.status, nominated_node_name=name))
        for name, pods in twin.nominated.items()
        for one in pods
    ]
    one = full(*there, *waiting, twin.asked, nodes=twin.nodes, others=budgets, profile=profile)
    decision = schedule_one(one.context, one.pods.pending["default/p"])
    nominating = decision.nominating
    return (decision.node, (nominating and nominating.nominated_node_name) or ""), left(one)


@settings(deadline=None, max_examples=150)
@given(clusters())
def test_a_plugin_in_its_place_evicts_the_same(made: tuple[Twin, list[Any]]) -> None:
    others = [one for one in default_profile().plugins if one.name != "DefaultPreemption"]
    assert outcome(*made, Profile((*others, OwnPreemption()))) == outcome(*made, default_profile())
