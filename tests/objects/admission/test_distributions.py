"""What admission of a cluster or a distribution adds to new pods, and what is told of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.make import written

from moorage import Scheduler, expanded
from moorage.kube import Cluster, Pod, Toleration, load

PROJECT, SELECTOR = "openshift.io/node-selector", "scheduler.alpha.kubernetes.io/node-selector"
DEFAULT, WHITELIST = (
    f"scheduler.alpha.kubernetes.io/{name}" for name in ("defaultTolerations", "tolerationsWhitelist")
)
GPU = "nvidia.com/gpu"
PLUGINS = written(
    "admission.moorage.dev/v1/AdmissionPlugins", "plugins", plugins=["ExtendedResourceToleration"]
)
MEMORY = "node.kubernetes.io/memory-pressure"


def openshift(selector: str) -> dict[str, Any]:
    head = {"apiVersion": "config.openshift.io/v1", "kind": "Scheduler", "metadata": {"name": "cluster"}}
    return head | {"spec": {"defaultNodeSelector": selector}}


def namespace(**annotations: str) -> dict[str, Any]:
    return {"kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}}


def workload(kind: str = "Deployment", limits: Any = (), **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"limits": dict(limits)}}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


def node(version: str = "v1.34.1-gke.1", **labels: str) -> dict[str, Any]:
    taints = [{"key": GPU, "value": "present", "effect": "NoSchedule"}]
    status = {"nodeInfo": {"kubeletVersion": version}, "allocatable": {"cpu": "8", "pods": "9", GPU: "1"}}
    return {
        "kind": "Node",
        "metadata": {"name": "n", "labels": labels},
        "spec": {"taints": taints},
        "status": status,
    }


def read(*objects: dict[str, Any]) -> Cluster:
    return expanded(load(list(objects)))


def made(cluster: Cluster) -> Pod:
    assert not cluster.refused, cluster.refused
    return cluster.pods[-1]


def tolerated(pod: Pod) -> list[str]:
    return [one.key for one in pod.spec.tolerations]


SELECTORS = {
    "of the project": ([namespace(**{PROJECT: "pool=shop"})], {"pool": "shop"}),
    "of all projects": ([openshift("a=b, c=d")], {"a": "b", "c": "d"}),
    "of the project in place of all": ([openshift("a=b"), namespace(**{PROJECT: "c=d"})], {"c": "d"}),
    "none of the project": ([openshift("a=b"), namespace(**{PROJECT: ""})], None),
    "of the namespace in place of the project": (
        [openshift("a=b"), namespace(**{SELECTOR: "c=d", PROJECT: "e=f"})],
        {"c": "d"},
    ),
}


@pytest.mark.parametrize("case", SELECTORS)
def test_new_pods_get_the_node_selector(case: str) -> None:
    objects, expected = SELECTORS[case]
    cluster = read(*objects, workload())
    assert (made(cluster).spec.node_selector or None) == expected
    assert any("New pods get" in text for text in cluster.warnings) == (expected is not None)


def test_the_selector_is_added_to_that_of_the_pod() -> None:
    shop = namespace(**{PROJECT: "pool=shop"})
    assert made(read(shop, workload(nodeSelector={"b": "c"}))).spec.node_selector == {
        "b": "c",
        "pool": "shop",
    }
    for annotation, whose in ((PROJECT, "project"), (SELECTOR, "namespace")):
        (refused,) = read(
            namespace(**{annotation: "pool=shop"}), workload(nodeSelector={"pool": "x"})
        ).refused
        text = f"pod node label selector conflicts with its {whose} node label selector"
        assert refused.message == f'pods "{refused.pod.name}-" is forbidden: {text}'


def test_a_selector_that_is_none_refuses_pods() -> None:
    (refused,) = read(namespace(**{SELECTOR: "pool"}), workload()).refused
    assert "invalid selector in scheduler.alpha.kubernetes.io/node-selector: [pool]" in refused.message


def test_pods_of_a_dump_stay_as_they_are() -> None:
    existing = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "3"},
        "spec": {"containers": [{"name": "c"}]},
    }
    cluster = read(openshift("a=b"), namespace(**{DEFAULT: '[{"key": "k"}]'}), PLUGINS, existing)
    assert not made(cluster).spec.node_selector
    assert not {"k", MEMORY} & set(tolerated(made(cluster)))


def test_a_daemon_set_has_no_pods_where_its_project_has_none() -> None:
    """OpenShift's controller makes none there, so that none waits."""
    free = node()
    free["spec"] = {}
    cluster = read(free, openshift("a=b"), workload("DaemonSet"))
    assert not made(cluster).spec.node_selector
    assert made(read(free, namespace(**{SELECTOR: "a=b"}), workload("DaemonSet"))).spec.node_selector


def test_new_pods_get_the_tolerations_of_their_namespace() -> None:
    """And one for memory pressure, unless they ask for nothing."""
    given = json.dumps([{"key": "shop", "operator": "Exists"}])
    pod = made(read(namespace(**{DEFAULT: given}), workload()))
    assert Toleration(key="shop", operator="Exists") in pod.spec.tolerations
    assert MEMORY not in tolerated(pod)
    assert MEMORY in tolerated(made(read(namespace(**{DEFAULT: given}), workload(limits={"cpu": "1"}))))
    assert MEMORY not in tolerated(made(read(namespace(), workload(limits={"cpu": "1"}))))


def test_tolerations_must_be_among_those_of_the_namespace() -> None:
    taints = [f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable")]
    allowed = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in taints]
    shop = namespace(**{WHITELIST: json.dumps([*allowed, {"key": "own", "operator": "Exists"}])})
    assert "own" in tolerated(made(read(shop, workload(tolerations=[{"key": "own", "value": "x"}]))))
    (refused,) = read(shop, workload(tolerations=[{"key": "other", "operator": "Exists"}])).refused
    assert refused.message.endswith("conflict with its namespace whitelist")


def test_tolerations_that_are_none_refuse_pods() -> None:
    for text in ("{", '{"key": "a"}'):
        (refused,) = read(namespace(**{DEFAULT: text}), workload()).refused
        assert "invalid tolerations in scheduler.alpha.kubernetes.io/defaultTolerations" in refused.message


def test_pods_tolerate_the_taints_of_the_resources_that_they_ask_for() -> None:
    asking = workload(limits={GPU: "1", "cpu": "1"})
    pod = made(read(PLUGINS, node(), asking))
    assert Toleration(key=GPU, operator="Exists", effect="NoSchedule") in pod.spec.tolerations
    assert "cpu" not in tolerated(pod)
    assert GPU not in tolerated(made(read(PLUGINS, node(), workload(limits={"cpu": "1"}))))
    own = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    assert (
        tolerated(made(read(PLUGINS, asking | workload(limits={GPU: "1"}, tolerations=own)))).count(GPU) == 1
    )


def test_pods_that_controllers_make_later_are_admitted_alike() -> None:
    scheduler = Scheduler(read(PLUGINS, openshift("a=b"), node(a="b"), workload(limits={GPU: "1"})))
    scheduler.change.scale("deploy/shop/web", 2)
    pods = scheduler.client.list(Pod)[0]
    assert [(one.spec.node_selector, GPU in tolerated(one)) for one in pods] == [({"a": "b"}, True)] * 2


@pytest.mark.parametrize(
    ("name", "of_node"),
    [
        ("GKE", node()),
        ("GKE", node("v1.34.0", **{"cloud.google.com/gke-nodepool": "gpu"})),
        ("AKS", node("v1.34.0", **{"kubernetes.azure.com/cluster": "c"})),
        ("", node("v1.34.0")),
    ],
)
def test_what_a_distribution_would_add_is_told(name: str, of_node: dict[str, Any]) -> None:
    def told(*objects: dict[str, Any]) -> list[str]:
        return [text for text in read(of_node, *objects).warnings if "ExtendedResourceToleration" in text]

    asking = workload(limits={GPU: "1"})
    text = f"{name} lets pods that ask for {GPU} tolerate the taint of this key (ExtendedResourceToleration)"
    assert told(asking) == [
        f"{text}: --enable-admission-plugins ExtendedResourceToleration does so, too."
    ] * bool(name)
    assert told(PLUGINS, asking) == []
    assert told(workload()) == []
    assert told(workload(limits={GPU: "1"}, tolerations=[{"operator": "Exists"}])) == []
