"""What the runtime remembers of native plugins' PreFilter and PreScore, and when it asks again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.engine import NativePlugin
from tests.make import make, node, pod
from tests.scheduler.make import profile_with

import moorage as mo
from moorage import Scheduler
from moorage.engine.framework import Framework, PreFilterPlugin, PreScorePlugin
from moorage.kube import Pod

HOSTNAME = "kubernetes.io/hostname"
AWAY = {"labelSelector": {"matchLabels": {"app": "p"}}, "topologyKey": HOSTNAME}


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
    weighted = [{"weight": 1, "podAffinityTerm": AWAY}]
    sides = {REQUIRED: [AWAY], "preferredDuringSchedulingIgnoredDuringExecution": weighted}
    other = pod("other", "a", affinity={"podAntiAffinity": sides})
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
    made.client.create(make("Service", "default/s", {"selector": {"app": "p"}}))
    made.sync()
    assert "PodTopologySpread" not in skipped(framework, ours)[1]


NEAR = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["p"]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def spreading(when: str) -> Pod:
    constraint = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": when, "labelSelector": NEAR}
    return pod("p", topologySpreadConstraints=[constraint])


def named(*names: str) -> Pod:
    """A pod with required node affinity to nodes that have each of some names."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}] * 2}
    return pod("p", affinity={"nodeAffinity": {REQUIRED: terms}})


PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": NEAR}]}
MALFORMED = {
    "spread": spreading("DoNotSchedule"),
    "soft spread": spreading("ScheduleAnyway"),
    "pod affinity": pod("p", affinity={"podAffinity": {REQUIRED: [AWAY | {"labelSelector": NEAR}]}}),
    "node affinity": pod("p", affinity={"nodeAffinity": PREFERRED}),
    "no node": named("a", "b"),
}
SOUND = {
    "plain": pod("p"),
    "labels": pod("p", labels={"app": "p"}),
    "anti-affinity": pod("p", affinity={"podAntiAffinity": {REQUIRED: [AWAY]}}),
    "named nodes": named("a"),
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
