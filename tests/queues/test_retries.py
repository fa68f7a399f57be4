"""Which changes let a workload be tried again that waits for something to happen."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.kube import Object, decode_object
from moorage.queues import Kueue

Json = dict[str, Any]
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def obj(kind: str, name: str, namespace: str = "", **more: Any) -> Object:
    group = "v1" if kind in ("Namespace", "LimitRange", "Node") else "kueue.x-k8s.io/v1beta2"
    meta = {"name": name, "uid": name, "labels": more.pop("labels", {})} | (
        {"namespace": namespace} if namespace else {}
    )
    return decode_object({"apiVersion": group, "kind": kind, "metadata": meta, **more})


def local(**more: Any) -> Object:
    return obj("LocalQueue", "l", "default", spec={"clusterQueue": "q"} | more)


def limits(**of_container: Any) -> Object:
    of_container = {"type": "Container", **of_container}
    return obj("LimitRange", "limits", "default", spec={"limits": [of_container]})


def queue(*flavors: str, labels: Json | None = None, **more: Any) -> Object:
    quotas = [{"name": "cpu", "nominalQuota": "4"}]
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": each, "resources": quotas} for each in flavors],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group]} | more
    return obj("ClusterQueue", "q", labels=labels or {}, spec=spec)


def pods(name: str, count: int = 1, **more: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container]} | more}}


def workload(name: str, *sets: Json, to: str = "l", **more: Any) -> Object:
    return obj("Workload", name, "default", spec={"queueName": to, "podSets": sets}, **more)


def waiting(*others: Object) -> Kueue:
    """A workload that waits as the only flavor of its queue has a taint."""
    taint = obj("ResourceFlavor", "f", spec={"nodeTaints": [TAINT]})
    kueue = Kueue([taint, queue("f"), local(), *others, workload("w", pods("main"))])
    kueue.run()
    assert kueue.waiting("q") == ([], ["default/w"])
    return kueue


@pytest.mark.parametrize(
    ("change", "is_tried"),
    [
        (obj("ResourceFlavor", "f", spec={}), False),
        (obj("AdmissionCheck", "c", spec={"controllerName": "c"}), False),
        (obj("Namespace", "default", labels={"team": "a"}), False),
        (limits(max={"cpu": "2"}), False),
        (limits(default={"memory": "1Gi"}), True),
        (local(fairSharing={"weight": "2"}), False),
        (obj("Cohort", "other", spec={}), False),
        (obj("Node", "n", status={"allocatable": {"cpu": "4"}}), False),
        (queue("f", labels={"team": "a"}), False),
        (queue("f", cohortName="c"), True),
    ],
)
def test_only_what_opens_a_queue_or_changes_a_workload_lets_it_be_tried(
    change: Object, is_tried: bool
) -> None:
    kueue = waiting()
    kueue.apply(change)
    kueue.settle()
    assert kueue.waiting("q")[0] == (["default/w"] if is_tried else [])


def test_a_queue_that_becomes_active_is_tried() -> None:
    kueue = waiting()
    kueue.delete("ResourceFlavor", "f")
    kueue.apply(obj("ResourceFlavor", "f", spec={}))
    assert [each.workload for cycle in kueue.run() for each in cycle.admitted] == ["default/w"]


def tolerant(to: str, **more: Any) -> Object:
    return workload("a", pods("main", tolerations=[{"operator": "Exists"}]), to=to, **more)


def other(**more: Any) -> Object:
    return obj("LocalQueue", "m", "default", spec={"clusterQueue": "q"} | more)


def test_what_a_stopped_local_queue_gives_back_lets_nothing_be_tried() -> None:
    kueue = waiting(other(), tolerant("m"))
    kueue.apply(other(stopPolicy="HoldAndDrain"))
    kueue.settle()
    assert kueue.workloads["default/a"].status == "pending"
    assert kueue.waiting("q")[1] == ["default/w"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_local_queue_that_starts_knows_its_workloads(restarts: bool) -> None:
    pod_sets = [{"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}]
    held = {
        "admission": {"clusterQueue": "q", "podSetAssignments": pod_sets},
        "conditions": [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")],
    }
    kueue = waiting(other())
    kueue.apply(tolerant("m", status=held))
    for policy in ("Hold", "None") if restarts else ():
        kueue.apply(other(stopPolicy=policy))
    kueue.finish("default/a")
    kueue.settle()
    assert kueue.waiting("q")[0] == (["default/w"] if restarts else [])


@pytest.mark.parametrize("change", ["none", "amounts", "update"])
def test_what_lets_the_search_for_flavors_start_anew(change: str) -> None:
    """New amounts in the status, or an update of a queue whose flavors have labels, even with the same spec.
    The second set of pods has no flavor, so that the next attempt goes on behind that of the first."""
    flavors = [obj("ResourceFlavor", name, spec={"nodeLabels": {"kind": name}}) for name in "fg"]
    sets = pods("first", nodeSelector={"kind": "f"}), pods("second", 2, nodeSelector={"kind": "none"})
    kueue = Kueue([*flavors, queue("f", "g"), local(), workload("w", *sets)])
    texts = []
    for _ in range(3):
        texts += kueue.cycle().waiting.values()
        if change == "amounts":
            kueue.reclaim("default/w", {"second": 1})
        elif change == "update":
            kueue.apply(queue("f", "g", labels={"team": "a"}))
    assert ["second" in text for text in texts] == [True, True, change != "none"]
