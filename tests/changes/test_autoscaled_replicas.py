"""Autoscalers give their targets the least or the most replicas."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.workloads.make import machine, pods, replicas, scheduler
from tests.make import written

from moorage.kube import Object, decode_object


def hpa(target: str, least: int | None, most: int, kind: str = "Deployment", **more: Any) -> Object:
    version = {"CloneSet": "apps.kruise.io/v1alpha1", "RayCluster": "ray.io/v1"}.get(kind, "apps/v1")
    ref = {"apiVersion": version, "kind": kind, "name": target}
    spec = {"scaleTargetRef": ref, "maxReplicas": most} | ({} if least is None else {"minReplicas": least})
    meta = {"name": f"hpa-{target}", "namespace": "default"} | more
    value = written("autoscaling/v2/HorizontalPodAutoscaler", meta, spec)
    return decode_object(value)


def keda(target: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    meta = {"name": f"so-{target}", "namespace": "default", "annotations": annotations or {}}
    value = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": meta}
    return decode_object(value | {"spec": {"scaleTargetRef": {"name": target}} | spec})


CASES: dict[str, tuple[Object, tuple[int, int]]] = {
    "of-an-hpa": (hpa("web", 2, 5), (2, 5)),
    "at-least-one": (hpa("web", None, 5), (1, 5)),
    "of-a-scaled-object": (keda("web", minReplicaCount=1, maxReplicaCount=4), (1, 4)),
    "to-zero": (keda("web", maxReplicaCount=4), (0, 4)),
    "idle": (keda("web", minReplicaCount=2, idleReplicaCount=0, maxReplicaCount=4), (0, 4)),
    "most-of-keda": (keda("web"), (0, 100)),
    "paused": (keda("web", {"autoscaling.keda.sh/paused-replicas": "3"}), (3, 3)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bound", ["min", "max"])
def test_the_target_gets_the_bound(case: str, bound: Any) -> None:
    autoscaler, (least, most) = CASES[case]
    one = scheduler(machine("a", 200), replicas("Deployment", "web", 6), autoscaler)
    assert one.change.autoscale_to(bound).changed == ("Deployment default/web",)
    one.run()
    assert len(pods(one, "web")) == (least if bound == "min" else most)
    assert one.change.autoscale_to(bound).changed == ()


def test_stateful_sets_and_clone_sets_are_scaled_too() -> None:
    sets = [replicas("StatefulSet", "db", 1), replicas("CloneSet", "cache", 1)]
    scaled = [hpa("db", 1, 3, "StatefulSet"), hpa("cache", 1, 4, "CloneSet")]
    one = scheduler(machine("a", 20), *sets, *scaled)
    one.change.autoscale_to("max")
    one.run()
    assert (len(pods(one, "db")), len(pods(one, "cache"))) == (3, 4)


def test_of_two_autoscalers_the_widest_bound_counts() -> None:
    for bound, expected in (("min", 1), ("max", 7)):
        first, second = hpa("web", 3, 4), hpa("web", 1, 7, name="other")
        one = scheduler(machine("a", 20), replicas("Deployment", "web", 5), first, second)
        one.change.autoscale_to("min" if bound == "min" else "max")
        one.run()
        assert len(pods(one, "web")) == expected


def test_the_hpa_that_keda_has_made_does_not_count() -> None:
    owner = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "so-web", "controller": True}
    made = hpa("web", 1, 9, ownerReferences=[owner])
    one = scheduler(machine("a", 20), replicas("Deployment", "web", 5), made, keda("web", maxReplicaCount=3))
    assert one.change.autoscale_to("max").kept == {}
    one.run()
    assert len(pods(one, "web")) == 3


@pytest.mark.parametrize(
    ("autoscaler", "why"),
    [
        (hpa("gone", 1, 2), "there is no Deployment.apps default/gone"),
        (hpa("off", 1, 2), "its target Deployment.apps default/off has 0 replicas, which switches it off"),
        (
            hpa("ray", 1, 2, "RayCluster"),
            "moorage does not simulate the replicas of its target RayCluster.ray.io default/ray",
        ),
    ],
)
def test_an_autoscaler_without_effect_is_told(autoscaler: Object, why: str) -> None:
    one = scheduler(machine("a"), replicas("Deployment", "off", 0), autoscaler)
    change = one.change.autoscale_to("max")
    assert (change.changed, change.kept) == ((), {f"HorizontalPodAutoscaler {autoscaler.key}": why})


def test_a_target_that_may_be_without_replicas_is_scaled_up_from_none() -> None:
    one = scheduler(machine("a"), replicas("Deployment", "web", 0), hpa("web", 0, 2))
    one.change.autoscale_to("max")
    one.run()
    assert len(pods(one, "web")) == 2


def test_another_bound_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be min or max, not 'most'"):
        scheduler(machine("a")).change.autoscale_to("most")  # type: ignore[arg-type]
