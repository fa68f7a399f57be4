"""What admission fills in; what it forbids says the case `kube/limit_ranges_and_quotas`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert
from tests.doors.kube import merge_tolerations
from tests.make import Json, template, written

from moorage import Scheduler, expanded, load
from moorage.kube import Cluster, Toleration

NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "64", "pods": "110"}}}


def pod(name: str = "p", *containers: Json, meta: Any = (), **spec: Any) -> Json:
    inner = [{"name": f"c{at}", "resources": part} for at, part in enumerate(containers or ({},))]
    metadata = {"name": name, "namespace": "shop", **dict(meta)}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": inner} | spec}


def limit_range(item: Json) -> Json:
    metadata = {"name": "limits", "namespace": "shop"}
    return {"kind": "LimitRange", "metadata": metadata, "spec": {"limits": [{"type": "Container"} | item]}}


def deployment(replicas: int, **spec: Any) -> Json:
    inside = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", **spec),
    }
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": inside}


def read(*objects: Json) -> Cluster:
    return expanded(load([NODE, *objects]))


DEFAULT = limit_range({"default": {"cpu": "1"}})


def test_defaults_of_containers() -> None:
    item = {
        "default": {"cpu": "1"},
        "defaultRequest": {"cpu": "250m"},
        "max": {"memory": "2Gi"},
        "min": {"ephemeral-storage": "1Mi"},
    }
    (found,) = read(limit_range(item), pod("p", {}, {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}})).pods
    first, second = (one.resources for one in found.spec.containers)
    assert first.limits == {"cpu": "1", "memory": "2Gi"}
    assert first.requests == {"cpu": "250m", "memory": "2Gi", "ephemeral-storage": "1Mi"}
    assert (second.limits["cpu"], second.requests["cpu"]) == ("3", "2")


def test_defaults_are_for_new_pods_of_the_namespace_which_share_their_spec() -> None:
    """A default limit is a default request, too."""
    elsewhere = pod("q", meta={"namespace": "other"})
    running = pod("r", meta={"uid": "r"}, nodeName="n1")
    waiting = pod("s", meta={"uid": "of-a-server"})
    *others, first, second = read(DEFAULT, elsewhere, running, waiting, deployment(2)).pods
    assert [one.spec.containers[0].resources.requests for one in others] == [{}, {}, {}]
    assert first.spec.containers[0].resources.requests == {"cpu": "1"}
    assert first.spec is second.spec


def test_pods_that_admission_refuses_are_told() -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "shop"},
        "spec": {"hard": {"pods": 1}},
    }
    ephemeral = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}
    cluster = read(quota, deployment(3, volumes=[{"name": "data", "ephemeral": ephemeral}]))
    text = f"2 new pods are refused by admission, such as: {cluster.refused[0].message}."
    assert cluster.warnings == [text]
    assert [one.name for one in cluster.others if one.kind == "PersistentVolumeClaim"] == [
        f"{cluster.pods[0].name}-data"
    ]


GVISOR: Json = written(
    "node.k8s.io/v1/RuntimeClass",
    "gvisor",
    handler="runsc",
    overhead={"podFixed": {"cpu": "250m"}},
    scheduling={
        "nodeSelector": {"runtime": "gvisor"},
        "tolerations": [{"key": "gvisor", "operator": "Exists"}],
    },
)


@pytest.mark.parametrize(
    ("of_class", "overhead", "selector", "tolerations"),
    [
        (
            GVISOR,
            {"cpu": "250m"},
            {"disk": "ssd", "runtime": "gvisor"},
            [Toleration(key="gvisor", operator="Exists")],
        ),
        ({name: GVISOR[name] for name in ("apiVersion", "kind", "metadata")}, {}, {"disk": "ssd"}, []),
    ],
)
def test_a_runtime_class_adds_its_overhead_and_where_its_pods_run(
    of_class: Json, overhead: Json, selector: Json, tolerations: list[Toleration]
) -> None:
    (found,) = read(of_class, pod("p", runtimeClassName="gvisor", nodeSelector={"disk": "ssd"})).pods
    assert (found.spec.overhead, found.spec.node_selector) == (overhead, selector)
    assert list(found.spec.tolerations[2:]) == tolerations


EVERYTHING, OF_KEY = {"operator": "Exists"}, {"key": "k", "operator": "Exists"}
OF_VALUE = {"key": "k", "operator": "Equal", "value": "v"}
BRIEF, LONG = ({**OF_KEY, "effect": "NoExecute", "tolerationSeconds": seconds} for seconds in (5, 9))


@pytest.mark.parametrize(
    ("tolerations", "kept"),
    [
        ([OF_KEY, EVERYTHING], [EVERYTHING]),
        ([EVERYTHING, OF_KEY], [EVERYTHING]),
        ([OF_KEY, {**OF_KEY, "key": "l"}], [OF_KEY, {**OF_KEY, "key": "l"}]),
        ([OF_KEY, {**OF_KEY, "key": "l"}, OF_KEY], [OF_KEY, {**OF_KEY, "key": "l"}]),
        ([OF_VALUE, OF_KEY], [OF_KEY]),
        ([OF_KEY, OF_VALUE], [OF_KEY]),
        ([OF_VALUE, {**OF_VALUE, "value": "w"}], [OF_VALUE, {**OF_VALUE, "value": "w"}]),
        ([{**OF_VALUE, "effect": "NoSchedule"}, OF_VALUE], [OF_VALUE]),
        ([{**OF_KEY, "effect": "NoSchedule"}, LONG], [{**OF_KEY, "effect": "NoSchedule"}, LONG]),
        ([BRIEF, LONG], [LONG]),
        ([LONG, BRIEF], [LONG]),
        ([{**OF_KEY, "effect": "NoExecute"}, LONG], [{**OF_KEY, "effect": "NoExecute"}]),
    ],
)
def test_tolerations_that_another_includes_are_left_out(tolerations: list[Json], kept: list[Json]) -> None:
    merged = merge_tolerations(convert(tolerations, tuple[Toleration, ...]))
    assert merged == convert(kept, tuple[Toleration, ...])


def test_overhead_is_no_limit_of_a_pod_that_has_none() -> None:
    hard = {"hard": {"limits.cpu": "1"}}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}, "spec": hard}
    old = pod("old", {"requests": {"cpu": "1"}}, meta={"uid": "u"}, nodeName="n1", overhead={"cpu": "250m"})
    whole = {"cpu": "1"}
    assert read(quota, old, pod("p", {"requests": whole, "limits": whole})).refused == []


def test_admitted_pods_are_placed() -> None:
    found = read(limit_range({"default": {"cpu": "30"}}), deployment(3))
    assert len(Scheduler(found).run().placements) == 2
