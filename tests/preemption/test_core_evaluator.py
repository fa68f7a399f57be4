"""The core's preemption of a single pod, held against the evaluator that asks plugins in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.twins import preemption_world
from tests.core.twins.preemption_world import LABELS_OF_NAMESPACES, World
from tests.doors.engine import schedule_one
from tests.make import node
from tests.make import pod as make_pod
from tests.preemption.test_eviction_units import SINGLE, group
from tests.preemption.world import full, preemptor, victim
from tests.scheduler.groups.gang_kit import GATES
from tests.scheduler.make import Nothing

from moorage import Scheduler, default_profile
from moorage.engine.framework import FrameworkHandle, Plugin
from moorage.engine.preemption import DefaultPreemption, Evaluator
from moorage.engine.scheduler import Profile
from moorage.kube import Cluster, Namespace, ObjectMeta, Pod


@dataclass
class Case:
    """A cluster, and pods that are scheduled one after the other."""

    world: World
    asked: list[Pod]
    offset: int
    least: int

    def scheduler(self, *more: Plugin) -> Scheduler:
        names = [
            Namespace(metadata=ObjectMeta(name=name, labels=labels))
            for name, labels in LABELS_OF_NAMESPACES.items()
        ]
        groups = [group(name, priority) for name, priority in self.world.whole.items()]
        groups += [group(name, priority, SINGLE) for name, priority in self.world.single.items()]
        pods = [pod for there in self.world.pods.values() for pod in there]
        expected = [
            replace(pod, status=replace(pod.status, nominated_node_name=name))
            for name, there in self.world.nominated.items()
            for pod in there
        ]
        wanted = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": self.least}
        plugin = DefaultPreemption(wanted)
        plugins = [plugin if one.name == plugin.name else one for one in default_profile(GATES).plugins]
        one = Scheduler(
            profile=Profile((*plugins, *more)),
            cluster=Cluster(
                nodes=list(self.world.nodes.values()),
                pods=[*pods, *expected, *self.asked],
                others=[*names, *groups, *self.world.budgets],
            ),
            feature_gates=GATES,
        )
        for handle in handles(one):
            handle.preemption_offset = lambda pod, nodes: self.offset % nodes
        return one


def handles(one: Scheduler) -> list[FrameworkHandle]:
    return [engine.handle for engine in one.engines.values()]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    world = draw(preemption_world.worlds(16))
    drawn = [world.preemptor, draw(preemption_world.pods("other", constrained=True))]
    some = st.lists(st.tuples(st.sampled_from(drawn), st.sampled_from([7, 9])), min_size=1, max_size=5)
    asked = [demanding(pod, priority, f"a{at}") for at, (pod, priority) in enumerate(draw(some))]
    return Case(world, asked, draw(st.integers(0, 3)), draw(st.integers(1, 4)))


def demanding(pod: Pod, priority: int, name: str) -> Pod:
    """The same, so that others have to go for it."""
    requests = {"cpu": "2", **pod.spec.containers[0].resources.requests}
    asked = make_pod("", requests=requests).spec.containers[0].resources
    containers = (replace(pod.spec.containers[0], resources=asked),)
    meta = replace(pod.metadata, name=name, uid=name)
    spec = replace(pod.spec, containers=containers, priority=priority)
    return preemption_world.alive(replace(pod, metadata=meta, spec=spec))


def outcome(one: Scheduler, asked: Pod) -> list[Any]:
    """What comes of a cycle about a pod, and of the pods around it."""
    decision = schedule_one(one.context, asked)
    left = {pod.key: pod.status.nominated_node_name for pod in one.client.list(Pod)[0]}
    nominator = one.handle.nominator
    nominated = {name: nominator.nominated_pods_for_node(name) for name in one.context.view_order()}
    keys = {name: [pod.key for pod in pods] for name, pods in nominated.items()}
    texts = (
        decision.error,
        decision.fit_error,
        decision.diagnosis and decision.diagnosis.post_filter_message(),
    )
    return [decision.node, decision.nominating, decision.start, decision.next, *texts, left, keys]


@settings(max_examples=150, deadline=None)
@given(cases())
def test_the_core_preempts_as_the_evaluator_does(case: Case) -> None:
    """A plugin in Python has the evaluator try each node."""
    ours, theirs = case.scheduler(), case.scheduler(Nothing())
    for pod in case.asked:
        assert outcome(ours, pod) == outcome(theirs, pod)


def test_the_core_is_asked() -> None:
    one = full(victim("v", cpu=4), nodes=[node("a")])
    with patch.object(Evaluator, "find_candidates", side_effect=AssertionError):
        assert schedule_one(one.context, preemptor()).evicts


@pytest.mark.parametrize("offset", [-6, -1, 0, 2, 7])
def test_an_offset_counts_modulo_the_potential_nodes(offset: int) -> None:
    plugin = DefaultPreemption({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1})
    profile = Profile(
        tuple(plugin if each.name == plugin.name else each for each in default_profile().plugins)
    )
    nodes = [node(name) for name in "abcde"]
    one = full(*(victim(f"v{name}", on=name, cpu=4) for name in "abcde"), nodes=nodes, profile=profile)
    handles(one)[0].preemption_offset = lambda pod, potential: offset
    decision = schedule_one(one.context, preemptor())
    assert decision.nominating is not None
    assert decision.nominating.nominated_node_name == "abcde"[offset % 5]
