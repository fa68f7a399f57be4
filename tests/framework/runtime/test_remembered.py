"""What the runtime remembers of native plugins' PreFilter and PreScore, and when it asks again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.make import node, pod
from tests.doors.engine import NativePlugin
from tests.scheduler.make import profile_with

import moorage as mo
from moorage import Scheduler
from moorage.framework import Framework, PreFilterPlugin, PreScorePlugin
from moorage.objects import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Service,
    ServiceSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

HOSTNAME = "kubernetes.io/hostname"
AWAY = PodAffinityTerm(LabelSelector(match_labels={"app": "p"}), topology_key=HOSTNAME)


def scheduler(*plugins: Any) -> tuple[Scheduler, Framework]:
    nodes = [node(name, labels={HOSTNAME: name}) for name in ("a", "b")]
    made = Scheduler(mo.Cluster(nodes=nodes), profile=profile_with(*plugins))
    return made, made.context.rotation.holder.framework


def skipped(framework: Framework, of: Pod) -> tuple[set[str], set[str]]:
    """What answers Skip in PreFilter and in PreScore."""
    state = framework.new_state(of)
    framework.run_pre_filter_plugins(state, of)
    assert framework.run_pre_score_plugins(state, of, framework.all_nodes()) is None
    return state.skip_filter_plugins, state.skip_score_plugins


class Counting(NativePlugin, PreFilterPlugin, PreScorePlugin):
    name = "Counting"

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> None:
        self.asked.append(f"filter {pod.name}")

    def pre_score(self, state: Any, pod: Pod, nodes: Any) -> None:
        self.asked.append(f"score {pod.name}")


class Outside(PreFilterPlugin):
    name = "Outside"

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> None:
        pass


def test_equal_pods_are_not_asked_about_twice() -> None:
    plugin = Counting()
    _, framework = scheduler(plugin)
    first, other = skipped(framework, pod("p")), skipped(framework, pod("q", labels={"app": "q"}))
    assert skipped(framework, pod("r")) == first == other
    assert plugin.asked == ["filter p", "score p", "filter q", "score q"]


def test_beside_plugins_outside_the_core_native_ones_are_asked_each_time() -> None:
    plugin = Counting()
    _, framework = scheduler(plugin, Outside())
    skipped(framework, pod("p"))
    skipped(framework, pod("q"))
    assert plugin.asked == ["filter p", "score p", "filter q"]


def test_what_was_remembered_is_not_changed_by_a_cycle() -> None:
    _, framework = scheduler()
    state = framework.new_state(pod("p"))
    framework.run_pre_filter_plugins(state, pod("p"))
    before = set(state.skip_filter_plugins)
    state.skip_filter_plugins.add("Other")
    assert skipped(framework, pod("p"))[0] == before


def test_terms_of_pods_that_come_and_go() -> None:
    made, framework = scheduler()
    ours = pod("p", labels={"app": "p"})
    weighted = (WeightedPodAffinityTerm(1, AWAY),)
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(AWAY,), preferred=weighted))
    other = pod("other", node_name="a", affinity=affinity)
    alone = skipped(framework, ours)
    assert all("InterPodAffinity" in skipping for skipping in alone)
    for _ in range(2):
        made.cache.add_pod(other)
        assert not any("InterPodAffinity" in skipping for skipping in skipped(framework, ours))
        made.cache.remove_pod(other)
        assert skipped(framework, ours) == alone


def test_a_service_that_comes() -> None:
    made, framework = scheduler()
    ours = pod("p", labels={"app": "p"})
    assert "PodTopologySpread" in skipped(framework, ours)[1]
    service = Service(
        metadata=ObjectMeta(name="s", namespace=ours.namespace), spec=ServiceSpec(selector={"app": "p"})
    )
    made.client.create(service)
    made.sync()
    assert "PodTopologySpread" not in skipped(framework, ours)[1]


INVALID = LabelSelector(
    match_expressions=(LabelSelectorRequirement(key="app", operator="Near", values=("p",)),)
)
INVALID_NODE = NodeSelectorTerm(
    match_expressions=(NodeSelectorRequirement(key="app", operator="Near", values=("p",)),)
)
SPREAD = TopologySpreadConstraint(max_skew=1, topology_key=HOSTNAME, when_unsatisfiable="DoNotSchedule")


def named(*names: str) -> NodeAffinity:
    """Required node affinity to nodes that have each of some names."""
    fields = tuple(NodeSelectorRequirement(key="metadata.name", operator="In", values=(n,)) for n in names)
    return NodeAffinity(
        required=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=fields),) * 2)
    )


def with_affinity(**sides: Any) -> Pod:
    return changed(pod("p"), affinity=Affinity(**sides))


def changed(of: Pod, **fields: Any) -> Pod:
    return replace(of, spec=replace(of.spec, **fields))


MALFORMED = {
    "spread": changed(pod("p"), topology_spread_constraints=(replace(SPREAD, label_selector=INVALID),)),
    "soft spread": changed(
        pod("p"),
        topology_spread_constraints=(
            replace(SPREAD, label_selector=INVALID, when_unsatisfiable="ScheduleAnyway"),
        ),
    ),
    "pod affinity": with_affinity(
        pod_affinity=PodAffinity(required=(replace(AWAY, label_selector=INVALID),))
    ),
    "node affinity": with_affinity(
        node_affinity=NodeAffinity(preferred=(PreferredSchedulingTerm(weight=1, preference=INVALID_NODE),))
    ),
    "no node": with_affinity(node_affinity=named("a", "b")),
}
SOUND = {
    "plain": pod("p"),
    "labels": pod("p", labels={"app": "p"}),
    "anti-affinity": with_affinity(pod_anti_affinity=PodAffinity(required=(AWAY,))),
    "named nodes": with_affinity(node_affinity=named("a")),
}


@pytest.mark.parametrize("of", MALFORMED.values(), ids=MALFORMED)
def test_a_plugin_that_rejects_says_so_before_it_is_asked(of: Pod) -> None:
    made, framework = scheduler()
    target = made.context.target_of(of)
    assert framework.profile.may_reject(framework.shape_of(target))
    assert not made.context.engine_of(of).passes(target, of)


@pytest.mark.parametrize("of", SOUND.values(), ids=SOUND)
def test_what_no_plugin_may_reject_is_not_run(of: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    made, framework = scheduler()
    target = made.context.target_of(of)
    state = framework.state_of(target)
    ran = framework.run_pre_filter_plugins(state, of)
    assert not ran.error
    assert ran.rejection is None
    assert framework.run_pre_score_plugins(state, of, framework.all_nodes()) is None
    monkeypatch.setattr(framework, "run_pre_filter_plugins", None)
    assert made.context.engine_of(of).passes(target, of)


def test_a_plugin_that_does_not_say_what_it_rejects_is_asked() -> None:
    plugin = Counting()
    made, framework = scheduler(plugin)
    target = made.context.target_of(pod("p"))
    assert framework.profile.may_reject(framework.shape_of(target))
    assert made.context.engine_of(pod("p")).passes(target, pod("p"))
    assert plugin.asked == ["filter p", "score p"]
