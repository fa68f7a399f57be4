"""Changes and conflicts of random pods, tried out on fresh schedulers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conftest import NIGHTLY
from tests.doors.answers import Probe, pod_constraints
from tests.doors.cluster import drop_request, effective_request, finer_constraints, lower, term_constraints
from tests.doors.engine import NativePlugin, PodGates
from tests.explain.explain_world import World, random_pod, random_world, renamed

from moorage import default_profile
from moorage.answers.explain import Explanation
from moorage.engine.framework import FilterPlugin, Plugin, Profile
from moorage.kube import Node, Pod, Taint, Toleration

SEEDS = range(1000 if NIGHTLY else 10)
GATES = PodGates()


Case = tuple[World, Pod, Explanation]


def made(seed: int) -> Case:
    random = Random(seed)
    world, pending = random_world(random), random_pod(random)
    return world, pending, world.scheduler().ask.explain(pending)


@pytest.fixture(scope="module", params=SEEDS)
def case(request: pytest.FixtureRequest) -> Case:
    """One case at a time for all tests of it: each holds a scheduler."""
    return made(request.param)


def test_every_change_places_the_pod_on_as_many_nodes_as_it_says(case: Case) -> None:
    world, pending, explanation = case
    assert bool(explanation.feasible) == bool(world.fits(pending))
    if explanation.feasible:
        assert (explanation.changes, explanation.conflicts, explanation.blocked) == ([], [], "")
    for change in explanation.changes:
        assert len(world.after(change)) == change.feasible_nodes > 0, change


def test_a_smaller_reduction_does_not_suffice(case: Case) -> None:
    world, pending, explanation = case
    for change in explanation.changes:
        if change.kind == "lower-request":
            request = effective_request(change.pod, change.values["resource"], GATES)
            lowered = lower(pending, change.values["resource"], request + 1, GATES)
            assert lowered is not None
            assert effective_request(lowered[0], change.values["resource"], GATES) == request + 1
            assert world.fits(lowered[0]) == []


def test_a_smaller_max_skew_does_not_suffice(case: Case) -> None:
    world, pending, explanation = case
    for change in explanation.changes:
        if (change.kind, change.values.get("field")) == ("change-spread", "maxSkew"):
            was = pending.spec.topology_spread_constraints
            spreads = change.pod.spec.topology_spread_constraints
            less = tuple(one if one in was else replace(one, max_skew=one.max_skew - 1) for one in spreads)
            assert (
                world.fits(replace(pending, spec=replace(pending.spec, topology_spread_constraints=less)))
                == []
            )


def test_a_label_helps_on_as_many_nodes_as_it_says(case: Case) -> None:
    world, pending, explanation = case
    for change in explanation.changes:
        if change.kind == "add-label":
            ((key, value),) = change.values["label"].items()
            lacking = [each for each in world.nodes if key not in each.metadata.labels]
            labelled = [
                replace(each, metadata=replace(each.metadata, labels=each.metadata.labels | {key: value}))
                for each in lacking
            ]
            helped = [each for each in labelled if world.fits(pending, world.with_node(each))]
            assert change.values["eligibleNodes"] == len(helped)
            assert change.values["node"] in [each.name for each in helped]


def test_uncordoning_helps_on_as_many_nodes_as_it_says(case: Case) -> None:
    world, pending, explanation = case
    if explanation.feasible:
        return
    cordoned = [each for each in world.nodes if each.spec.unschedulable]
    open_ = [replace(each, spec=replace(each.spec, unschedulable=False)) for each in cordoned]
    helped = [each.name for each in open_ if world.fits(pending, world.with_node(each))]
    offered = [change for change in explanation.changes if change.kind == "uncordon-node"]
    assert [change.values["eligibleNodes"] for change in offered] == ([len(helped)] if helped else [])
    assert all(change.values["node"] in helped for change in offered)


def test_no_kind_of_change_is_missed(case: Case) -> None:
    world, pending, explanation = case
    if explanation.feasible:
        return
    found = {change.kind for change in explanation.changes}
    least = (
        lower(pending, each, effective_request(drop_request(pending, each), each, GATES) + 1, GATES)
        for each in ("cpu", "memory", "nvidia.com/gpu")
    )
    assert ("lower-request" in found) == any(world.fits(one[0]) for one in least if one is not None)
    taints = [taint for each in world.nodes for taint in each.spec.taints]
    if any(world.fits(tolerating(pending, taint)) for taint in taints):
        assert "add-toleration" in found
    copies = [fresh(each) for each in world.nodes]
    assert ("add-node" in found) >= any(world.fits(pending, world.with_node(each)) for each in copies)
    drops = [*term_constraints(pending), *finer_constraints(pending)]
    opening = [each for each in drops if world.fits(each.drop(pending))]
    opening.sort(key=lambda each: -len(world.fits(each.drop(pending))))
    dropped = [change.values["constraint"] for change in explanation.changes if change.kind == "drop"]
    assert dropped == [each.named for each in opening]


def tolerating(pod: Pod, taint: Taint) -> Pod:
    toleration = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
    return with_spec(pod, tolerations=(*pod.spec.tolerations, toleration))


def fresh(original: Node) -> Node:
    return renamed(original, f"new-{original.name}", original.metadata.labels)


def test_conflicts_are_minimal(case: Case) -> None:
    world, pending, explanation = case
    if explanation.feasible or explanation.changes:
        return
    scheduler = world.scheduler()
    every = pod_constraints(Probe(scheduler.engines["default-scheduler"], pending))

    def only(*kept: object) -> Pod:
        bare = pending
        for constraint in every:
            if constraint not in kept:
                bare = constraint.drop(bare)
        return bare

    if explanation.blocked:
        assert explanation.conflicts == []
        assert world.scheduler().examine(only()).fit_error == explanation.blocked
        return
    assert explanation.conflicts
    for conflict in explanation.conflicts:
        assert world.fits(only(*conflict)) == []
        for dropped in conflict:
            assert world.fits(only(*(each for each in conflict if each != dropped)))
    standing = [each for conflict in explanation.conflicts for each in conflict]
    assert world.fits(only(*(each for each in every if each not in standing)))


def test_a_raised_priority_evicts_whom_it_says_and_a_lower_one_nobody() -> None:
    raised = [seed for seed in range(1500 if NIGHTLY else 30) if priority_is_raised(seed)]
    assert len(raised) >= (100 if NIGHTLY else 2)


def priority_is_raised(seed: int) -> bool:
    """Whether a higher priority is offered for a pod with requests alone; tried out if it is."""
    random = Random(seed)
    world, pending = random_world(random), random_pod(random)
    world.bound = [with_spec(one, priority=random.choice((0, 3, 7))) for one in world.bound]
    loose = {"node_name": "", "node_selector": None, "affinity": None, "topology_spread_constraints": ()}
    tolerant = (Toleration(operator="Exists"),)
    pending = with_spec(pending, priority=random.choice((0, 3)), tolerations=tolerant, **loose)
    scheduler = world.scheduler()
    scheduler.run()  # pods that a taint evicts leave without it
    raised = scheduler.ask.explain(pending).raised_priority
    if raised is None:
        return False
    for priority, victims in (raised.priority, raised.victims), (raised.priority - 1, ()):
        evicted = world.scheduler(with_spec(pending, priority=priority)).run().evicted
        assert set(evicted) == {pod.key for pod in victims}
    return True


def with_spec(pod: Pod, **fields: Any) -> Pod:
    return replace(pod, spec=replace(pod.spec, **fields))


def native_filters() -> list[Plugin]:
    return [plugin for plugin in default_profile().at(FilterPlugin) if isinstance(plugin, NativePlugin)]


@pytest.mark.parametrize("case", SEEDS, indirect=True)
def test_every_filter_speaks_for_itself(case: Case) -> None:
    world, pending, explanation = case
    plugins = default_profile().plugins
    for native in native_filters():
        profile = Profile([p for p in plugins if p.name == native.name or "queueSort" in p.extension_points])
        alone = world.scheduler(profile=profile).examine(pending).rejected
        for name in explanation.order:
            verdicts = explanation.node(name).verdicts
            if "PreFilter" not in verdicts:  # of NodeAffinity, which the profile of one filter lacks
                assert verdicts.get(native.name) == alone.get(name)
    in_groups = [name for group in explanation.groups for name in group.nodes]
    assert sorted([*in_groups, *explanation.feasible]) == sorted(explanation.order)
    for group in explanation.groups:
        for name in group.nodes:
            assert [s for s in explanation.node(name).verdicts.values() if s] == group.verdicts


@pytest.mark.nightly  # a test of the cases
def test_the_cases_are_worth_trying() -> None:
    explanations = [made(seed)[2] for seed in range(200)]
    for kind in ("lower-request", "add-toleration", "uncordon-node", "add-label", "add-node", "drop"):
        assert sum(kind in {change.kind for change in each.changes} for each in explanations) >= 5, kind
    rejecting = [s.plugin for each in explanations for group in each.groups for s in group.verdicts]
    for plugin in ("NodeAffinity", "NodePorts", "PodTopologySpread", "InterPodAffinity"):
        assert rejecting.count(plugin) >= 5, plugin
    sizes = [len(conflict) for each in explanations for conflict in each.conflicts]
    assert (sizes.count(1) >= 5, sizes.count(2) >= 5, max(sizes) > 2) == (True, True, True)
    assert any(each.blocked for each in explanations)
