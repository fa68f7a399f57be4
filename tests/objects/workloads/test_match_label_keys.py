"""The API server merges matchLabelKeys and mismatchLabelKeys into label selectors, once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.objects.make import expand, node, workload

from moorage import Scheduler
from moorage.kube import Pod, decode_object, defaults

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LABELS = {"app": "a", "rev": "1", "tenant": "t"}
KEYS = {"matchLabelKeys": ["rev", "absent"], "mismatchLabelKeys": ["tenant"]}
MERGED = [("rev", "In", ("1",)), ("tenant", "NotIn", ("t",))]


def filled(**spec: Any) -> Any:
    pod = {"kind": "Pod", "metadata": {"name": "p", "labels": LABELS}, "spec": spec}
    (out,) = defaults([decode_object(pod)])
    return out


def requirements(selector: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(r.key, r.operator, r.values) for r in selector.match_expressions]


@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
def test_match_label_keys_become_requirements_of_affinity_terms(side: str) -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}} | KEYS
    weighted = {"weight": 1, "podAffinityTerm": term}
    pod = filled(affinity={side: {REQUIRED: [term], PREFERRED: [weighted]}})
    affinity = pod.spec.affinity
    found = affinity.pod_affinity or affinity.pod_anti_affinity
    assert requirements(found.required[0].label_selector) == MERGED
    assert requirements(found.preferred[0].pod_affinity_term.label_selector) == MERGED
    assert found.required[0].label_selector.match_labels == {"app": "a"}
    assert defaults([pod])[0] is pod, "merged once"


def test_match_label_keys_become_requirements_of_spread_constraints() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "labelSelector": {},
        "matchLabelKeys": ["rev", "absent"],
    }
    (found,) = filled(topologySpreadConstraints=[constraint]).spec.topology_spread_constraints
    assert requirements(found.label_selector) == MERGED[:1]


def test_without_a_selector_nothing_is_selected() -> None:
    pod = filled(
        affinity={"podAffinity": {REQUIRED: [{"topologyKey": "zone"} | KEYS]}},
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "matchLabelKeys": ["rev"]}],
    )
    assert pod.spec.affinity.pod_affinity.required[0].label_selector is None
    assert pod.spec.topology_spread_constraints[0].label_selector is None


WITH_KEYS = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}} | KEYS
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "affinity": {"podAntiAffinity": {REQUIRED: [WITH_KEYS]}},
    },
}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
@pytest.mark.parametrize("is_read", [True, False])
def test_pods_that_a_controller_makes(kind: str, is_read: bool) -> None:
    """While a cluster is read, and when a workload is added."""
    several = {"parallelism": 1} if kind == "Job" else {"selector": {"matchLabels": {"app": "a"}}}
    made = workload(kind, "w", spec={"template": TEMPLATE} | several)
    one = Scheduler(expand(node("n"), *([made] if is_read else [])))
    if not is_read:
        one.change.apply([made])
    one.run()
    (found,) = one.client.list(Pod)[0]
    (term,) = found.spec.affinity.pod_anti_affinity.required
    assert requirements(term.label_selector) == MERGED
