"""What affinity terms see through namespace selectors, as in kube-scheduler v1.34 to v1.36."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.make import node, pod

from moorage import Scheduler
from moorage.objects import (
    Affinity,
    Cluster,
    LabelSelector,
    LabelSelectorRequirement,
    Namespace,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)

HOST = "kubernetes.io/hostname"
APP = {"app": "w"}


def selector(operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement("team", operator, values),))


def term(namespaces: LabelSelector) -> PodAffinityTerm:
    return PodAffinityTerm(
        label_selector=LabelSelector(match_labels=APP), topology_key=HOST, namespace_selector=namespaces
    )


def within(namespace: str, one: Pod) -> Pod:
    return replace(one, metadata=replace(one.metadata, namespace=namespace))


def scheduler(*bound: Pod) -> Scheduler:
    """Two nodes, and the namespaces a, of team x, and b, of none."""
    labels = {"a": {"team": "x"}, "b": dict[str, str]()}
    spaces = [Namespace(metadata=ObjectMeta(name=name, labels=own)) for name, own in labels.items()]
    nodes = [node(name, labels={HOST: name}) for name in ("n1", "n2")]
    return Scheduler(Cluster(nodes=nodes, pods=list(bound), namespaces=spaces))


def old() -> Pod:
    return within("a", pod("old", labels=APP, on="n1"))


NEGATIVE = [selector("NotIn", "x"), selector("DoesNotExist")]
POSITIVE = [selector("In", "y"), selector("Exists")]


@pytest.mark.parametrize("namespaces", NEGATIVE)
def test_required_terms_with_a_selector_of_no_labels_see_every_namespace(namespaces: LabelSelector) -> None:
    attracted = Affinity(pod_affinity=PodAffinity(required=(term(namespaces),)))
    repelled = Affinity(pod_anti_affinity=PodAffinity(required=(term(namespaces),)))
    assert scheduler(old()).examine(within("b", pod("p", affinity=attracted))).feasible == ["n1"]
    assert scheduler(old()).examine(within("b", pod("p", affinity=repelled))).feasible == ["n2"]


@pytest.mark.parametrize("namespaces", NEGATIVE)
def test_preferred_terms_do_so_too(namespaces: LabelSelector) -> None:
    weighted = (WeightedPodAffinityTerm(weight=100, pod_affinity_term=term(namespaces)),)
    seen = scheduler(old()).examine(
        within("b", pod("p", affinity=Affinity(pod_affinity=PodAffinity(preferred=weighted))))
    )
    assert dict(zip(seen.feasible, seen.raw["InterPodAffinity"].tolist(), strict=True)) == {
        "n1": 100,
        "n2": 0,
    }


def test_the_first_pod_of_a_group_that_attracts_itself_is_seen() -> None:
    affinity = Affinity(pod_affinity=PodAffinity(required=(term(selector("NotIn", "x")),)))
    assert scheduler().examine(within("a", pod("p", labels=APP, affinity=affinity))).feasible == ["n1", "n2"]


@pytest.mark.parametrize("namespaces", POSITIVE)
def test_other_selectors_see_the_namespaces_that_they_select(namespaces: LabelSelector) -> None:
    repelled = Affinity(pod_anti_affinity=PodAffinity(required=(term(namespaces),)))
    feasible = ["n2"] if namespaces == selector("Exists") else ["n1", "n2"]
    assert scheduler(old()).examine(within("b", pod("p", affinity=repelled))).feasible == feasible


def test_terms_of_pods_on_nodes_see_the_labels_of_the_namespace() -> None:
    repels = Affinity(pod_anti_affinity=PodAffinity(required=(term(selector("NotIn", "x")),)))
    there = within("b", pod("old", affinity=repels, on="n1"))
    found: dict[str, Any] = {
        name: scheduler(there).examine(within(name, pod("p", labels=APP))).feasible for name in ("a", "b")
    }
    assert found == {"a": ["n1", "n2"], "b": ["n2"]}
