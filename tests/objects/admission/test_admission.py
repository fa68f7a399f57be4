"""Admission of new pods: what is changed, what is refused, and the API server's texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert
from tests.doors.kube import merge_tolerations

from moorage import Scheduler, expanded
from moorage.objects import Cluster, Pod, Toleration, load

NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "64", "pods": "110"}}}


def resources(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    parts = {"requests": requests, "limits": limits}
    return {name: value for name, value in parts.items() if value is not None}


def pod(name: str = "p", *containers: dict[str, Any], meta: Any = (), **spec: Any) -> dict[str, Any]:
    inner = [{"name": f"c{at}", "resources": part} for at, part in enumerate(containers or ({},))]
    metadata = {"name": name, "namespace": "shop", **dict(meta)}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": inner} | spec}


def existing(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod that came from a server and has a node."""
    return pod(name, *containers, meta={"uid": f"uid-{name}"}, nodeName="n1", **spec) | {
        "status": {"phase": "Running"}
    }


def quota(hard: dict[str, str], name: str = "compute", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}}


def limit_range(*items: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "shop"},
        "spec": {"limits": list(items)},
    }


DEFAULT_LIMIT = limit_range({"type": "Container", "default": {"cpu": "1"}})
PORTS = [{"name": name, "ports": [{"containerPort": 80}]} for name in "cd"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
            'resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        ({"containers": PORTS, "hostNetwork": True}, 'ports[0].hostPort: Duplicate value: "TCP//80"'),
    ],
)
def test_defaults_that_contradict_the_pod(spec: dict[str, Any], text: str, cluster: Any) -> None:
    of_template = deployment(1)
    of_template["spec"]["template"]["spec"] = spec
    for obj in (pod(**spec), of_template):
        found = cluster(DEFAULT_LIMIT, obj)
        ((refused, message),) = found.refused
        assert message.startswith(f'Pod "{refused.name}')
        assert '" is invalid: spec.containers[' in message
        assert message.endswith(text)


def deployment(replicas: int, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": pod("p", *containers, **spec)["spec"],
            },
        },
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    def read(*objects: Any) -> Cluster:
        (tmp_path / "f.json").write_text(json.dumps({"kind": "List", "items": [NODE, *objects]}))
        return expanded(load(tmp_path / "f.json"))

    return read


def messages(cluster: Cluster) -> list[str]:
    return [one.message for one in cluster.refused]


def only(cluster: Cluster) -> Pod:
    assert messages(cluster) == []
    (found,) = cluster.pods
    return found


# ---- limit ranges ------------------------------------------------------------------------------------------


def test_defaults_of_containers(cluster: Any) -> None:
    item = {
        "type": "Container",
        "default": {"cpu": "1"},
        "defaultRequest": {"cpu": "250m"},
        "max": {"memory": "2Gi"},
        "min": {"ephemeral-storage": "1Mi"},
    }
    found = only(cluster(limit_range(item), pod("p", {}, resources({"cpu": "2"}, {"cpu": "3"}))))
    first, second = (one.resources for one in found.spec.containers)
    assert first.limits == {"cpu": "1", "memory": "2Gi"}
    assert first.requests == {"cpu": "250m", "memory": "2Gi", "ephemeral-storage": "1Mi"}
    assert (second.limits["cpu"], second.requests["cpu"]) == ("3", "2")


def test_a_default_limit_is_a_default_request(cluster: Any) -> None:
    found = only(cluster(limit_range({"type": "Container", "default": {"cpu": "1"}}), pod()))
    assert found.spec.containers[0].resources.requests == {"cpu": "1"}


def test_defaults_are_for_new_pods_of_the_namespace(cluster: Any) -> None:
    item = {"type": "Container", "default": {"cpu": "1"}}
    elsewhere = pod("q", meta={"namespace": "other"})
    running = existing("r")
    waiting = pod("s", meta={"uid": "of-a-server"})
    found = cluster(limit_range(item), elsewhere, running, waiting)
    assert [one.spec.containers[0].resources.requests for one in found.pods] == [{}, {}, {}]


def test_pods_of_a_workload_share_their_spec(cluster: Any) -> None:
    found = cluster(limit_range({"type": "Container", "default": {"cpu": "1"}}), deployment(3))
    first, second, _ = found.pods
    assert first.spec.containers[0].resources.requests == {"cpu": "1"}
    assert first.spec is second.spec


@pytest.mark.parametrize(
    ("item", "given", "message"),
    [
        (
            {"type": "Container", "max": {"cpu": "1"}},
            resources({"cpu": "500m"}, {"cpu": "2"}),
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            {"type": "Container", "min": {"cpu": "100m"}},
            resources({"cpu": "50m"}),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            resources({"cpu": "1"}, {"cpu": "3"}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            {},
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            resources({"cpu": "1"}),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        (
            {"type": "Pod", "max": {"memory": "5Pi"}},
            resources(None, {"memory": "20Pi"}),
            "maximum memory usage per Pod is 5Pi, but limit is 20Pi",
        ),
        (
            {"type": "Pod", "max": {"memory": "1Gi"}},
            {},
            "maximum memory usage per Pod is 1Gi.  No limit is specified",
        ),
        (
            {"type": "Pod", "min": {"memory": "1Gi"}},
            {},
            "minimum memory usage per Pod is 1Gi.  No request is specified",
        ),
        (
            {"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}},
            resources(None, {"cpu": "2", "memory": "2Gi"}),
            "[maximum cpu usage per Container is 1, but limit is 2, "
            "maximum memory usage per Container is 1Gi, but limit is 2Gi]",
        ),
    ],
)
def test_a_pod_beyond_a_limit_range_is_forbidden(item: Any, given: Any, message: str, cluster: Any) -> None:
    found = cluster(limit_range(item), pod("p", given))
    assert messages(found) == [f'pods "p" is forbidden: {message}']
    assert found.pods == []


def test_a_limit_of_claims_is_none_of_pods(cluster: Any) -> None:
    item = {"type": "PersistentVolumeClaim", "min": {"cpu": "2"}, "max": {"storage": "1Gi"}}
    assert messages(cluster(limit_range(item), pod("p", resources({"cpu": "1"})))) == []


def test_a_pod_counts_as_a_whole(cluster: Any) -> None:
    item = {"type": "Pod", "max": {"cpu": "2"}}
    one = resources({"cpu": "1"}, {"cpu": "1"})
    assert messages(cluster(limit_range(item), pod("p", one, one))) == []
    assert messages(cluster(limit_range(item), pod("p", one, one, one))) == [
        'pods "p" is forbidden: maximum cpu usage per Pod is 2, but limit is 3'
    ]


# ---- quotas ------------------------------------------------------------------------------------------------


def test_pods_beyond_a_quota_are_not_made(cluster: Any) -> None:
    one = resources({"cpu": "1", "memory": "1Gi"})
    found = cluster(
        existing("a", resources({"cpu": "500m", "memory": "512Mi"})),
        quota({"requests.cpu": "3", "requests.memory": "10Gi", "configmaps": "1"}),
        deployment(4, one),
    )
    assert len(found.pods) == 1 + 2
    names = [refused.pod.name for refused in found.refused]
    assert messages(found) == [
        f'pods "{name}-" is forbidden: exceeded quota: compute, '
        "requested: requests.cpu=1, used: requests.cpu=2500m, limited: requests.cpu=3"
        for name in names
    ]
    assert len(names) == 2
    assert found.warnings == [f"2 new pods are refused by admission, such as: {messages(found)[0]}."]


def test_all_exceeded_resources_are_named(cluster: Any) -> None:
    found = cluster(quota({"pods": "0", "limits.cpu": "1"}), pod("p", resources(None, {"cpu": "2"})))
    assert messages(found) == [
        'pods "p" is forbidden: exceeded quota: compute, requested: limits.cpu=2,pods=1, '
        "used: limits.cpu=0,pods=0, limited: limits.cpu=1,pods=0"
    ]


def test_refused_pods_use_nothing(cluster: Any) -> None:
    found = cluster(
        quota({"cpu": "2"}),
        pod("big", resources({"cpu": "3"})),
        pod("small", resources({"cpu": "2"})),
        pod("last", resources({"cpu": "1m"})),
    )
    assert [one.name for one in found.pods] == ["small"]
    assert [one.pod.name for one in found.refused] == ["big", "last"]


def test_cpu_and_memory_of_a_quota_must_be_set(cluster: Any) -> None:
    found = cluster(
        quota({"limits.cpu": "9", "requests.memory": "9Gi", "requests.ephemeral-storage": "1"}),
        pod("p", resources({"memory": "1Gi"}), {}),
    )
    assert messages(found) == [
        'pods "p" is forbidden: failed quota: compute: '
        "must specify limits.cpu for: c0,c1; requests.memory for: c1"
    ]


def test_a_pod_may_set_them_as_a_whole(cluster: Any) -> None:
    hard = quota({"requests.cpu": "3", "limits.memory": "9Gi"})
    whole = {"resources": resources({"cpu": "2"}, {"cpu": "2"})}
    assert messages(cluster(hard, pod("a", **whole), pod("b", **whole))) == [
        'pods "b" is forbidden: exceeded quota: compute, '
        "requested: requests.cpu=2, used: requests.cpu=2, limited: requests.cpu=3"
    ]
    (text,) = messages(cluster(hard, pod("p", resources={"requests": {}})))
    assert "must specify limits.memory for: c0; requests.cpu for: c0" in text


def test_existing_pods_above_a_quota_stay(cluster: Any) -> None:
    found = cluster(existing("a"), existing("b"), quota({"pods": "1"}), pod("p"))
    assert [one.name for one in found.pods] == ["a", "b"]
    assert messages(found) == [
        'pods "p" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=1'
    ]


def test_finished_pods_count_as_objects_only(cluster: Any) -> None:
    done = pod("done", meta={"uid": "u"}) | {"status": {"phase": "Succeeded"}}
    assert messages(cluster(done, quota({"pods": "1"}), pod("p"))) == []
    assert messages(cluster(done, quota({"count/pods": "1"}), pod("p"))) == [
        'pods "p" is forbidden: exceeded quota: compute, '
        "requested: count/pods=1, used: count/pods=1, limited: count/pods=1"
    ]


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu"])
def test_extended_resources_count_in_quotas(cluster: Any, name: str) -> None:
    gpus = resources({name: "2"}, {name: "2"})
    hard = {f"requests.{name}": "3"}
    assert messages(cluster(quota(hard), pod("a", gpus), pod("b", gpus))) == [
        f'pods "b" is forbidden: exceeded quota: compute, requested: requests.{name}=2, '
        f"used: requests.{name}=2, limited: requests.{name}=3"
    ]


SET = resources({"cpu": "1"})
AFFINE = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "namespaces": ["x"], "labelSelector": {}}
        ]
    }
}


@pytest.mark.parametrize(
    ("spec", "matching", "other"),
    [
        ({"scopes": ["BestEffort"]}, pod("p"), pod("p", SET)),
        ({"scopes": ["NotBestEffort"]}, pod("p", SET), pod("p")),
        ({"scopes": ["NotBestEffort"]}, pod("p", resources=resources({"cpu": "1"})), pod("p")),
        ({"scopes": ["Terminating"]}, pod("p", activeDeadlineSeconds=5), pod("p")),
        ({"scopes": ["NotTerminating"]}, pod("p"), pod("p", activeDeadlineSeconds=7)),
        ({"scopes": ["PriorityClass"]}, pod("p", priorityClassName="high"), pod("p")),
        ({"scopes": ["CrossNamespacePodAffinity"]}, pod("p", affinity=AFFINE), pod("p")),
        ({"scopes": ["NotTerminating", "BestEffort"]}, pod("p"), pod("p", SET)),
    ]
    + [
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"} | requirement]}},
            pod("p", priorityClassName=first) if first else pod("p"),
            pod("p", priorityClassName=second) if second else pod("p"),
        )
        for requirement, first, second in (
            ({"operator": "In", "values": ["high"]}, "high", "low"),
            ({"operator": "NotIn", "values": ["high"]}, "low", "high"),
            ({"operator": "NotIn", "values": ["high"]}, "", "high"),
            ({"operator": "Exists"}, "low", ""),
            ({"operator": "DoesNotExist"}, "", "low"),
        )
    ],
)
def test_a_quota_with_scopes_counts_matching_pods(spec: Any, matching: Any, other: Any, cluster: Any) -> None:
    classes = [
        {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("high", 5), ("low", 1))
    ]
    hard = quota({"pods": "0"}, **spec)
    assert len(messages(cluster(*classes, hard, matching))) == 1
    assert messages(cluster(*classes, hard, other)) == []


@pytest.mark.parametrize(("qos", "refused"), [("Burstable", 0), ("BestEffort", 1)])
def test_the_class_that_a_server_gave_a_pod_counts(qos: str, refused: int, cluster: Any) -> None:
    old = existing("old")
    old["status"]["qosClass"] = qos
    assert len(messages(cluster(quota({"pods": "1"}, scopes=["BestEffort"]), old, pod("p")))) == refused


def test_each_quota_must_have_room_before_one_is_charged(cluster: Any) -> None:
    first, second = quota({"pods": "1"}, "a"), quota({"cpu": "1"}, "b")
    found = cluster(first, second, pod("p", resources({"cpu": "2"})), pod("q", resources({"cpu": "1"})))
    assert [one.name for one in found.pods] == ["q"]


# ---- priority and runtime classes --------------------------------------------------------------------------


def test_a_missing_priority_class(cluster: Any) -> None:
    found = cluster(pod("p", priorityClassName="vip"), deployment(2, priorityClassName="vip"))
    assert messages(found) == [
        f'pods "{name}" is forbidden: no PriorityClass with name vip was found'
        for name in ("p", *[f"{one.pod.name}-" for one in found.refused[1:]])
    ]
    assert len(found.refused) == 3


GVISOR = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "gvisor"},
    "handler": "runsc",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {
        "nodeSelector": {"runtime": "gvisor"},
        "tolerations": [{"key": "gvisor", "operator": "Exists"}],
    },
}


def test_a_runtime_class(cluster: Any) -> None:
    spec = only(cluster(GVISOR, pod("p", runtimeClassName="gvisor", nodeSelector={"disk": "ssd"}))).spec
    assert spec.overhead == {"cpu": "250m"}
    assert spec.node_selector == {"disk": "ssd", "runtime": "gvisor"}
    assert spec.tolerations[-1] == Toleration(key="gvisor", operator="Exists")
    assert len(spec.tolerations) == 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"runtimeClassName": "kata"}, 'pod rejected: RuntimeClass "kata" not found'),
        (
            {"runtimeClassName": "gvisor", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "gvisor", "nodeSelector": {"runtime": "runc"}},
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = gvisor; "
            "pod.spec.nodeSelector[runtime] = runc",
        ),
    ],
)
def test_refusals_of_runtime_classes(spec: Any, message: str, cluster: Any) -> None:
    assert messages(cluster(GVISOR, pod("p", **spec))) == [f'pods "p" is forbidden: {message}']


def test_a_runtime_class_without_overhead_or_scheduling_changes_nothing(cluster: Any) -> None:
    plain = {name: GVISOR[name] for name in ("apiVersion", "kind", "metadata")}
    spec = only(cluster(plain, pod("p", runtimeClassName="gvisor", nodeSelector={"disk": "ssd"}))).spec
    assert (spec.overhead, spec.node_selector, len(spec.tolerations)) == ({}, {"disk": "ssd"}, 2)


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
def test_tolerations_that_another_includes_are_left_out(
    tolerations: list[dict[str, Any]], kept: list[dict[str, Any]]
) -> None:
    merged = merge_tolerations(convert(tolerations, tuple[Toleration, ...]))
    assert merged == convert(kept, tuple[Toleration, ...])


def test_overhead_counts_for_a_quota(cluster: Any) -> None:
    one = resources({"cpu": "1"}, {"cpu": "1"})
    found = cluster(GVISOR, quota({"limits.cpu": "1"}), pod("p", one, runtimeClassName="gvisor"))
    assert messages(found) == [
        'pods "p" is forbidden: exceeded quota: compute, '
        "requested: limits.cpu=1250m, used: limits.cpu=0, limited: limits.cpu=1"
    ]


def test_overhead_is_no_limit_of_a_pod_that_has_none(cluster: Any) -> None:
    old, whole = existing("old", resources({"cpu": "1"}), overhead={"cpu": "250m"}), {"cpu": "1"}
    assert messages(cluster(quota({"limits.cpu": "1"}), old, pod("p", resources(whole, whole)))) == []


# ---- as a whole --------------------------------------------------------------------------------------------


def test_refused_pods_are_not_scheduled_and_have_no_claims(cluster: Any) -> None:
    volume = {
        "name": "data",
        "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}},
    }
    found = cluster(quota({"pods": "1"}), deployment(2, volumes=[volume]))
    assert len(found.refused) == 1
    claims = [one.name for one in found.others if one.kind == "PersistentVolumeClaim"]
    assert claims == [f"{found.pods[0].name}-data"]


def test_admitted_pods_are_placed(cluster: Any) -> None:
    found = cluster(limit_range({"type": "Container", "default": {"cpu": "30"}}), deployment(3))
    result = Scheduler(found).run()
    assert len(result.placements) == 2


def test_without_policies_nothing_changes(cluster: Any) -> None:
    assert only(cluster(pod("p", SET))).spec.containers[0].resources.requests == {"cpu": "1"}


def test_a_request_above_the_default_limit_of_a_maximum_is_invalid(cluster: Any) -> None:
    """The limit is set and validated before the limit range is."""
    found = cluster(
        limit_range({"type": "Container", "max": {"cpu": "1"}}), pod("p", resources({"cpu": "2"}))
    )
    text = 'resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'
    assert messages(found) == [f'Pod "p" is invalid: spec.containers[0].{text}']
