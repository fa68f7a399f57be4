"""What affinity terms see through namespace selectors, as in kube-scheduler v1.34 to v1.36: one that needs no
label sees every namespace, whatever its labels."""

from __future__ import annotations

import pytest
from tests.make import Json, make, node, pod, scheduler

from moorage import Scheduler
from moorage.kube import Pod

HOST = "kubernetes.io/hostname"
APP = {"app": "w"}
NOT_IN, ABSENT, IN, EXISTS = (
    {"key": "team", "operator": operator, "values": [*values]}
    for operator, values in (("NotIn", "x"), ("DoesNotExist", ""), ("In", "y"), ("Exists", ""))
)


def world(*bound: Pod) -> Scheduler:
    """Two nodes, and the namespaces a, of team x, and b, of none."""
    labels: Json = {"a": {"team": "x"}, "b": {}}
    spaces = [make("Namespace", name, metadata={"labels": own}) for name, own in labels.items()]
    return scheduler([node(name, labels={HOST: name}) for name in ("n1", "n2")], spaces, *bound)


def affinity(kind: str, namespaces: Json, weight: int = 0) -> Json:
    term = {
        "labelSelector": {"matchLabels": APP},
        "topologyKey": HOST,
        "namespaceSelector": {"matchExpressions": [namespaces]},
    }
    preferred = [{"weight": weight, "podAffinityTerm": term}]
    when = "DuringSchedulingIgnoredDuringExecution"
    return {kind: {f"preferred{when}": preferred} if weight else {f"required{when}": [term]}}


@pytest.mark.parametrize(
    ("kind", "namespaces", "feasible"),
    [
        *(("podAffinity", namespaces, ["n1"]) for namespaces in (NOT_IN, ABSENT, EXISTS)),
        *(("podAntiAffinity", namespaces, ["n2"]) for namespaces in (NOT_IN, ABSENT, EXISTS)),
        ("podAntiAffinity", IN, ["n1", "n2"]),
    ],
)
def test_required_terms(kind: str, namespaces: Json, feasible: list[str]) -> None:
    one = world(pod("a/old", "n1", labels=APP))
    assert one.examine(pod("b/p", affinity=affinity(kind, namespaces))).feasible == feasible


@pytest.mark.parametrize("namespaces", [NOT_IN, ABSENT])
def test_preferred_terms(namespaces: Json) -> None:
    one = world(pod("a/old", "n1", labels=APP))
    seen = one.examine(pod("b/p", affinity=affinity("podAffinity", namespaces, 100)))
    assert seen.raw["InterPodAffinity"].tolist() == [100, 0]


def test_the_first_pod_of_a_group_that_attracts_itself_is_seen() -> None:
    first = pod("a/p", labels=APP, affinity=affinity("podAffinity", NOT_IN))
    assert world().examine(first).feasible == ["n1", "n2"]


def test_terms_of_pods_on_nodes_see_the_labels_of_the_namespace() -> None:
    one = world(pod("b/old", "n1", affinity=affinity("podAntiAffinity", NOT_IN)))
    assert one.examine(pod("a/p", labels=APP)).feasible == ["n1", "n2"]
    assert one.examine(pod("b/p", labels=APP)).feasible == ["n2"]
