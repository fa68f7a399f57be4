"""PodTopologySpread and InterPodAffinity as plugins: malformed terms, default constraints, arguments."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.make import ZONE, node, pod
from tests.doors.engine import InterPodAffinity, PodTopologySpread, schedule_one

from moorage import Scheduler, default_profile
from moorage.framework import Profile
from moorage.objects import (
    Affinity,
    Cluster,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Service,
    ServiceSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

HOST = "kubernetes.io/hostname"
APP = LabelSelector(match_labels={"app": "x"})
BROKEN = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Within"),))
WRONG = PodAffinityTerm(BROKEN, topology_key=ZONE)
NODES = [
    node("a", zone="z1", labels={HOST: "a"}),
    node("b", zone="z2", labels={HOST: "b"}),
    node("c", zone="z2", labels={HOST: "c"}),
]
SERVICE = Service(metadata=ObjectMeta(name="s", namespace="default"), spec=ServiceSpec(selector={"app": "x"}))


def scheduler(*pods: Pod, others: Any = (), **args: dict[str, Any]) -> Scheduler:
    """With arguments of plugins by their names."""
    classes = {"PodTopologySpread": PodTopologySpread, "InterPodAffinity": InterPodAffinity}
    plugins = [
        classes[plugin.name](args[plugin.name]) if plugin.name in args else plugin
        for plugin in default_profile().plugins
    ]
    cluster = Cluster(nodes=NODES, pods=list(pods), others=list(others))
    return Scheduler(cluster, profile=Profile(tuple(plugins)))


def affinity(side: str, *required: PodAffinityTerm, preferred: Any = ()) -> Affinity:
    weighted = tuple(WeightedPodAffinityTerm(3, term) for term in preferred)
    return Affinity(**{side: PodAffinity(required=required, preferred=weighted)})


# ---- malformed selectors


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (
            "DoNotSchedule",
            'running PreFilter plugin "PodTopologySpread": '
            "obtaining pod's hard topology spread constraints: ",
        ),
        (
            "ScheduleAnyway",
            'running PreScore plugin "PodTopologySpread": calculating preScoreState: '
            "obtaining pod's soft topology spread constraints: ",
        ),
    ],
)
def test_a_malformed_constraint_fails_the_cycle(action: str, text: str) -> None:
    broken = pod("p", topology_spread_constraints=(TopologySpreadConstraint(1, ZONE, action, BROKEN),))
    one = scheduler()
    error = f'{text}"Within" is not a valid label selector operator'
    assert one.examine(broken).error == error
    assert schedule_one(one.context, broken).error == error
    assert one.cache.state.pods() == []


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        (affinity("pod_affinity", WRONG), "requiredAffinityTerms"),
        (affinity("pod_anti_affinity", WRONG), "requiredAntiAffinityTerms"),
        (affinity("pod_affinity", preferred=[WRONG]), "preferredAffinityTerms"),
        (affinity("pod_anti_affinity", preferred=[WRONG]), "preferredAntiAffinityTerms"),
    ],
)
def test_a_malformed_term_rejects_the_pod(terms: Affinity, text: str) -> None:
    seen = scheduler().examine(pod("p", affinity=terms))
    wrong = f'{text}: "Within" is not a valid label selector operator'
    assert seen.fit_error == f"0/3 nodes are available: parsing pod: {wrong}."


def test_several_malformed_terms_are_told_together() -> None:
    seen = scheduler().examine(pod("p", affinity=affinity("pod_affinity", WRONG, preferred=[WRONG])))
    wrong = '"Within" is not a valid label selector operator'
    both = f"[requiredAffinityTerms: {wrong}, preferredAffinityTerms: {wrong}]"
    assert seen.fit_error == f"0/3 nodes are available: parsing pod: {both}."


def test_a_malformed_list_of_a_pod_there_says_nothing() -> None:
    """Its other lists do."""
    terms = Affinity(
        pod_affinity=PodAffinity(required=(WRONG,)),
        pod_anti_affinity=PodAffinity(required=(PodAffinityTerm(APP, topology_key=ZONE),)),
    )
    one = scheduler(pod("t", on="b", affinity=terms))
    assert one.examine(pod("p", labels={"app": "x"})).feasible == ["a"]


# ---- default constraints


def test_system_constraints_spread_pods_of_a_service() -> None:
    there = pod("t", on="b", labels={"app": "x"})
    one = scheduler(there, others=[SERVICE])
    seen = one.examine(pod("p", labels={"app": "x"}))
    assert dict(zip(seen.feasible, seen.normalized["PodTopologySpread"].tolist(), strict=True))["a"] == 100
    assert "PodTopologySpread" in one.examine(pod("q", labels={"app": "y"})).skipped_score
    one.client.delete("Service", "s", "default")
    one.sync()
    assert "PodTopologySpread" in one.examine(pod("p", labels={"app": "x"})).skipped_score


def test_constraints_of_a_list() -> None:
    listed = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    args = {"defaultingType": "List", "defaultConstraints": listed}
    there = pod("t", on="b", labels={"app": "x"})
    one = scheduler(there, others=[SERVICE], PodTopologySpread=args)
    seen = one.examine(pod("p", labels={"app": "x"}))
    assert seen.feasible == ["a"]
    assert "PodTopologySpread" in seen.skipped_score
    none = scheduler(there, others=[SERVICE], PodTopologySpread={"defaultingType": "List"})
    assert none.examine(pod("p", labels={"app": "x"})).feasible == ["a", "b", "c"]


# ---- arguments of InterPodAffinity


def scores(one: Scheduler, pod: Pod) -> dict[str, int]:
    seen = one.examine(pod)
    raw = seen.raw.get("InterPodAffinity")
    return {} if raw is None else dict(zip(seen.feasible, raw.tolist(), strict=True))


def test_the_weight_of_required_terms() -> None:
    there = pod("t", on="b", affinity=affinity("pod_affinity", PodAffinityTerm(APP, topology_key=ZONE)))
    seeker = pod("p", labels={"app": "x"})
    assert scores(scheduler(there), seeker) == {"a": 0, "b": 1, "c": 1}
    assert scores(scheduler(there, InterPodAffinity={"hardPodAffinityWeight": 7}), seeker)["b"] == 7
    assert scores(scheduler(there, InterPodAffinity={"hardPodAffinityWeight": 0}), seeker) == {}


def test_preferences_of_pods_there_can_be_ignored() -> None:
    near = affinity("pod_affinity", preferred=[PodAffinityTerm(APP, topology_key=ZONE)])
    there = pod("t", on="b", affinity=near)
    ignoring = {"ignorePreferredTermsOfExistingPods": True}
    assert scores(scheduler(there), pod("p", labels={"app": "x"}))["b"] == 3
    one = scheduler(there, InterPodAffinity=ignoring)
    assert scores(one, pod("p", labels={"app": "x"})) == {}
    asks = pod("p", labels={"app": "x"}, affinity=near)
    assert scores(one, asks)["b"] == 3, "a pod with preferences of its own heeds theirs as well"
