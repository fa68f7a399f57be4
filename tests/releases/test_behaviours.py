"""Behaviours of releases that no committed scenario tells apart."""

from __future__ import annotations

import pytest

from moorage.framework import QueueingHint
from moorage.objects import Cluster, Namespace, Node, Pod, decode_object
from moorage.plugins.inter_pod_affinity import InterPodAffinity
from moorage.scheduler import Scheduler


def pod(
    name: str, namespace: str = "default", anti: tuple[dict[str, object], ...] = (), **fields: object
) -> Pod:
    terms = [{"topologyKey": "kubernetes.io/hostname"} | term for term in anti]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}} if anti else {}
    meta = {"name": name, "namespace": namespace, "uid": name, "labels": {"app": "web", "tier": name}}
    spec = {"containers": [{"name": "c"}], "affinity": affinity} | fields
    made = decode_object({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    assert isinstance(made, Pod)
    return made


def matching(**labels: str) -> dict[str, object]:
    return {"labelSelector": {"matchLabels": labels}}


@pytest.mark.parametrize(
    ("version", "fits"), [("1.34", False), ("1.35", False), ("1.36", False), ("1.37", True)]
)
def test_a_namespace_selector_with_not_in_alone(version: str, fits: bool) -> None:
    """Up to v1.36 it selects every namespace."""
    selector = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}
    meta = {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    node = decode_object({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
    other = decode_object(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "b"}}}
    )
    assert isinstance(node, Node)
    assert isinstance(other, Namespace)
    placed = pod("w", "other", nodeName="n1")
    cluster = Cluster(nodes=[node], pods=[placed], namespaces=[other])
    wanted = pod("p", anti=(matching(app="web") | {"namespaceSelector": selector},))
    seen = Scheduler(cluster, kubernetes_version=version).examine(wanted)
    assert (seen.feasible == ["n1"]) is fits


@pytest.mark.parametrize(("version", "wakes"), [("1.36", False), ("1.37", True)])
def test_a_deleted_pod_that_one_of_two_terms_repelled(version: str, wakes: bool) -> None:
    scheduler = Scheduler(kubernetes_version=version)
    plugin = next(one for one in scheduler.profile.plugins if isinstance(one, InterPodAffinity))
    gone = pod("gone", nodeName="n1")
    waiting = pod("waiting", anti=(matching(tier="gone"), matching(tier="nobody")))
    hint = plugin.after_pod_change(waiting, gone, None)
    assert hint is (QueueingHint.QUEUE if wakes else QueueingHint.QUEUE_SKIP)


@pytest.mark.parametrize(("version", "wakes"), [("1.35", False), ("1.36", True)])
def test_a_deleted_pod_that_repelled_the_waiting_one(version: str, wakes: bool) -> None:
    scheduler = Scheduler(kubernetes_version=version)
    plugin = next(one for one in scheduler.profile.plugins if isinstance(one, InterPodAffinity))
    gone = pod("gone", anti=(matching(tier="waiting"),), nodeName="n1")
    hint = plugin.after_pod_change(pod("waiting"), gone, None)
    assert hint is (QueueingHint.QUEUE if wakes else QueueingHint.QUEUE_SKIP)
