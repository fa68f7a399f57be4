"""Which changes let a workload be tried again that waits for something to happen."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.kube import Object, decode_object
from moorage.queues import Kueue

Json = dict[str, Any]
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def obj(kind: str, name: str, namespace: str = "", **more: Any) -> Object:
    group = "v1" if kind in ("Namespace", "LimitRange") else "kueue.x-k8s.io/v1beta2"
    meta = {"name": name, "uid": name, "labels": more.pop("labels", {})} | (
        {"namespace": namespace} if namespace else {}
    )
    return decode_object({"apiVersion": group, "kind": kind, "metadata": meta, **more})


def local(**more: Any) -> Object:
    return obj("LocalQueue", "l", "default", spec={"clusterQueue": "q"} | more)


def limits(**of_container: Any) -> Object:
    of_container = {"type": "Container", **of_container}
    return obj("LimitRange", "limits", "default", spec={"limits": [of_container]})


def waiting() -> Kueue:
    """A workload that waits as the only flavor of its queue has a taint."""
    quota = {"name": "cpu", "nominalQuota": "4"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    kueue = Kueue(
        [
            obj("ResourceFlavor", "f", spec={"nodeTaints": [TAINT]}),
            obj("ClusterQueue", "q", spec={"namespaceSelector": {}, "resourceGroups": [group]}),
            local(),
            obj("Workload", "w", "default", spec={"queueName": "l", "podSets": [pods]}),
        ]
    )
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
