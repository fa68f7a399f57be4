"""What the runtime remembers of native plugins' PreFilter and PreScore, and when it asks again."""

from __future__ import annotations

from typing import Any

from tests.core.make import node, pod
from tests.scheduler.make import profile_with

import moorage as mo
from moorage import Scheduler
from moorage.framework.plugin.interface import PreFilterPlugin, PreScorePlugin
from moorage.framework.profiles.in_core import NativePlugin
from moorage.framework.runtime.runtime import Framework
from moorage.objects.model.meta import LabelSelector, ObjectMeta
from moorage.objects.model.pod import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from moorage.objects.model.workload import Service, ServiceSpec

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
