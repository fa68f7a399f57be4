"""One mistake has one text: in a manifest of a change, and in an object that was read or made."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.doors.engine import IN_TREE, load_configuration
from tests.doors.kube import manifest_causes
from tests.make import Json

from moorage.errors import ConfigurationError, InputError, shorten
from moorage.kube import decode_object, validate

POD: Json = {"containers": [{"name": "c", "image": "i"}]}
LABELLED: Json = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
WORKLOAD: Json = {"selector": {"matchLabels": {"a": "b"}}, "template": LABELLED}
RUN: Json = {"template": {"spec": POD | {"restartPolicy": "Never"}}}
INDEXED: Json = RUN | {"completionMode": "Indexed", "completions": 3, "parallelism": 1}
REQUEST: Json = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
REQUESTS = [REQUEST | {"name": f"r{at}"} for at in range(33)]
OPAQUE: Json = {"driver": "d.example.com", "parameters": {}}
POOL: Json = {"name": "p", "generation": 1, "resourceSliceCount": 1}
NFS: Json = {"server": "s", "path": "/"}
CLAIM: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TARGET: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
BASES: dict[str, Json] = {
    "v1/Pod": {"spec": POD},
    "apps/v1/Deployment": {"spec": WORKLOAD},
    "apps/v1/StatefulSet": {"spec": WORKLOAD | {"serviceName": "s"}},
    "apps/v1/DaemonSet": {"spec": WORKLOAD},
    "batch/v1/Job": {"spec": RUN},
    "policy/v1/PodDisruptionBudget": {"spec": {"selector": {}}},
    "scheduling.k8s.io/v1/PriorityClass": {"value": 1},
    "v1/Namespace": {},
    "v1/ReplicationController": {"spec": {"template": LABELLED}},
    "v1/PersistentVolume": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": NFS}
    },
    "v1/PersistentVolumeClaim": {"spec": CLAIM},
    "v1/ResourceQuota": {"spec": {"hard": {"pods": "1"}}},
    "v1/LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    "autoscaling/v2/HorizontalPodAutoscaler": {"spec": {"maxReplicas": 1, "scaleTargetRef": TARGET}},
    "storage.k8s.io/v1/StorageClass": {"provisioner": "p.example.com"},
    "resource.k8s.io/v1/ResourceClaim": {"spec": {"devices": {"requests": [REQUEST]}}},
    "resource.k8s.io/v1/ResourceSlice": {
        "spec": {"driver": "d.example.com", "pool": POOL, "nodeName": "n", "devices": [{"name": "d"}]}
    },
}
"""By version and kind, what an object has that follows all rules."""
ZONE: Json = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
EQUALS: Json = {"matchExpressions": [{"key": "a", "operator": "Equals", "values": ["b"]}]}
GPU: Json = {"deviceClassName": "gpu"}
ALL: Json = GPU | {"allocationMode": "All"}
EXISTS: Json = {"key": "a", "operator": "Exists", "value": "b"}
NEVER: Json = {"key": "a", "effect": "Never"}
BIG: Json = {"resources": {"requests": {"cpu": "2"}}}
PORTS: Json = {"ports": [{"containerPort": port, "hostPort": 80} for port in (80, 81)]}
RUNS: Json = {"name": "i", "image": "i"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MISTAKES: list[tuple[str, str, Any]] = [
    ("v1/Pod", "spec.containers", []),
    ("v1/Pod", "spec.restartPolicy", "Sometimes"),
    ("v1/Pod", "spec.activeDeadlineSeconds", 0),
    ("v1/Pod", "spec.nodeSelector", {"a": "b c"}),
    ("v1/Pod", "spec.containers.0.ports", [{"hostPort": 80}]),
    ("v1/Pod", "spec.containers.0.ports", [{"containerPort": 65536}]),
    ("v1/Pod", "spec.containers.0.ports", [{"containerPort": 1, "hostPort": -1}]),
    ("v1/Pod", "spec.containers.0.ports", [{"containerPort": 1, "protocol": "tcp"}]),
    ("v1/Pod", "spec.tolerations", [{"key": "a", "operator": "In"}]),
    ("v1/Pod", "spec.tolerations", [{"key": "a", "effect": "Never"}]),
    ("v1/Pod", "spec.topologySpreadConstraints", [ZONE | {"maxSkew": 0}]),
    ("v1/Pod", "spec.topologySpreadConstraints", [ZONE | {"minDomains": 0}]),
    ("v1/Pod", "spec.topologySpreadConstraints", [ZONE | {"nodeTaintsPolicy": "No"}]),
    ("v1/Pod", "spec.topologySpreadConstraints", [ZONE | {"matchLabelKeys": ["a"]}]),
    ("v1/Pod", "spec.tolerations", [{"operator": "Equal"}]),
    ("v1/Pod", "spec.tolerations", [{"key": "a", "operator": "Gt", "value": "007"}]),
    ("v1/Pod", "spec.tolerations", [{"key": "a", "tolerationSeconds": 3}]),
    ("v1/Pod", "spec.affinity", {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}),
    ("v1/Pod", "spec.affinity", {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [EQUALS]}}}),
    ("v1/Pod", "spec.affinity", {"podAffinity": {REQUIRED: [{"topologyKey": ""}]}}),
    ("v1/Pod", "spec.affinity", {"podAffinity": {REQUIRED: [{"topologyKey": "a", "matchLabelKeys": ["b"]}]}}),
    ("v1/Pod", "spec.initContainers", POD["containers"]),
    ("v1/Pod", "spec.resourceClaims", [{"name": "b"}]),
    ("v1/Pod", "spec.containers.0.resources", {"claims": [{"name": "b"}]}),
    ("v1/Pod", "spec.containers.0.resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    ("v1/Pod", "spec.containers.0.resources", {"limits": {"example.com/gpu": "500m"}}),
    ("v1/Pod", "spec.resources", {"requests": {"example.com/gpu": "1"}}),
    ("v1/Pod", "spec", {"containers": [POD["containers"][0] | BIG], "resources": {"limits": {"cpu": "1"}}}),
    ("v1/Pod", "spec", {"containers": [POD["containers"][0] | PORTS]}),
    ("v1/Pod", "spec", {"containers": [POD["containers"][0]], "initContainers": [RUNS | PORTS]}),
    ("v1/Pod", "spec.overhead", {"gpu": "1"}),
    ("v1/Pod", "spec.overhead", {"example.com/gpu": "500m"}),
    ("v1/Pod", "metadata.name", "A_b"),
    ("v1/Pod", "metadata.labels", {"a": "b c"}),
    ("v1/Pod", "metadata.labels", {"a/b/c": "d"}),
    ("v1/Pod", "metadata", {"namespace": "default"}),
    ("v1/Pod", "spec.os", {"name": "plan9"}),
    ("v1/Pod", "spec.os", {}),
    ("v1/Pod", "spec.schedulingGroup", {}),
    ("v1/Namespace", "metadata", {"name": "a.b"}),
    ("v1/ReplicationController", "spec.selector", {"a": "c"}),
    ("v1/ReplicationController", "spec", {"selector": {"a": "b"}}),
    ("v1/PersistentVolume", "spec.accessModes", ["Often"]),
    ("v1/PersistentVolumeClaim", "spec.accessModes", ["ReadWriteOncePod", "ReadWriteOnce"]),
    ("v1/ResourceQuota", "spec.scopes", ["Other"]),
    (
        "v1/ResourceQuota",
        "spec.scopeSelector",
        {"matchExpressions": [{"scopeName": "Terminating", "operator": "In"}]},
    ),
    ("v1/LimitRange", "spec.limits", [{}]),
    ("autoscaling/v2/HorizontalPodAutoscaler", "spec.scaleTargetRef.name", ""),
    ("apps/v1/Deployment", "spec.template.metadata.labels", {"a": "b c"}),
    ("apps/v1/Deployment", "spec.template.spec.preemptionPolicy", "Sometimes"),
    ("apps/v1/StatefulSet", "spec.updateStrategy", {"rollingUpdate": {"maxUnavailable": "x"}}),
    ("batch/v1/Job", "spec", INDEXED | {"successPolicy": {"rules": [{"succeededIndexes": "a"}]}}),
    (
        "batch/v1/Job",
        "spec.podFailurePolicy",
        {"rules": [{"action": "Ignore", "onPodConditions": [{"type": ""}]}]},
    ),
    ("resource.k8s.io/v1/ResourceSlice", "spec.pool.name", ""),
    ("apps/v1/Deployment", "spec.selector", {"matchLabels": {"a": "b c"}}),
    ("policy/v1/PodDisruptionBudget", "spec.selector", EQUALS),
    ("apps/v1/Deployment", "spec.replicas", -1),
    ("apps/v1/StatefulSet", "spec.minReadySeconds", -1),
    ("apps/v1/DaemonSet", "spec.revisionHistoryLimit", -1),
    ("apps/v1/Deployment", "spec.strategy", {"type": "Sometimes"}),
    ("apps/v1/Deployment", "spec.strategy", {"rollingUpdate": {"maxSurge": "-1%"}}),
    ("apps/v1/Deployment", "spec.strategy", {"rollingUpdate": {"maxSurge": f"{'9' * 5000}%"}}),
    ("apps/v1/Deployment", "spec.strategy", {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}),
    ("apps/v1/DaemonSet", "spec.updateStrategy", {"type": "Sometimes"}),
    ("apps/v1/DaemonSet", "spec.updateStrategy", {"rollingUpdate": {"maxUnavailable": "101%"}}),
    ("apps/v1/DaemonSet", "spec.updateStrategy", {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}),
    ("apps/v1/DaemonSet", "spec.updateStrategy", {"rollingUpdate": {"maxUnavailable": 0}}),
    ("apps/v1/Deployment", "spec.selector", {"matchLabels": {"a": "c"}}),
    ("apps/v1/DaemonSet", "spec.selector", {"matchLabels": {"a": "c"}}),
    ("apps/v1/StatefulSet", "spec.podManagementPolicy", "Both"),
    ("apps/v1/StatefulSet", "spec.updateStrategy", {"rollingUpdate": {"partition": -1}}),
    ("apps/v1/StatefulSet", "spec.updateStrategy", {"type": "OnDelete", "rollingUpdate": {}}),
    ("batch/v1/Job", "spec.completionMode", "Sorted"),
    ("batch/v1/Job", "spec", RUN | {"completionMode": "Indexed", "parallelism": 1}),
    ("batch/v1/Job", "spec.backoffLimit", -1),
    ("policy/v1/PodDisruptionBudget", "spec.unhealthyPodEvictionPolicy", "Never"),
    ("policy/v1/PodDisruptionBudget", "spec", {"minAvailable": 1, "maxUnavailable": 1, "selector": {}}),
    ("policy/v1/PodDisruptionBudget", "spec.minAvailable", "101%"),
    ("policy/v1/PodDisruptionBudget", "spec.minAvailable", f"{'9' * 5000}%"),
    ("policy/v1/PodDisruptionBudget", "spec.maxUnavailable", "x"),
    ("scheduling.k8s.io/v1/PriorityClass", "value", 1000000001),
    ("scheduling.k8s.io/v1/PriorityClass", "preemptionPolicy", "Sometimes"),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.requests.0.exactly.count", -1),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.requests.0.exactly", ALL | {"count": 1}),
    (
        "resource.k8s.io/v1/ResourceClaim",
        "spec.devices.requests",
        [REQUEST | {"name": f"r{at}"} for at in range(33)],
    ),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.requests", [REQUEST, REQUEST]),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.requests", [{"name": "r"}]),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.constraints", [{"requests": ["r"]}]),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.config", [{"requests": ["s"], "opaque": OPAQUE}]),
    ("storage.k8s.io/v1/StorageClass", "provisioner", ""),
    ("storage.k8s.io/v1/StorageClass", "volumeBindingMode", "Late"),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.requests.0.exactly.deviceClassName", ""),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.requests.0.exactly.allocationMode", "Some"),
    ("resource.k8s.io/v1/ResourceSlice", "spec.driver", ""),
    ("resource.k8s.io/v1/ResourceSlice", "spec.pool.generation", -1),
    ("resource.k8s.io/v1/ResourceSlice", "spec.devices.0.name", "Dev_0"),
    ("resource.k8s.io/v1/ResourceSlice", "spec.devices", [{"name": f"d{at}"} for at in range(129)]),
    ("resource.k8s.io/v1/ResourceSlice", "spec.allNodes", True),
    ("resource.k8s.io/v1/ResourceSlice", "spec.devices.0.nodeName", "n"),
    ("resource.k8s.io/v1/ResourceSlice", "spec.devices.0.attributes", {"a": {"version": "1"}}),
    ("resource.k8s.io/v1/ResourceSlice", "spec.devices.0.bindingFailureConditions", ["x"]),
    ("resource.k8s.io/v1/ResourceSlice", "spec.devices.0.nodeAllocatableResourceMappings", {"cpu": {}}),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.requests.0.exactly", GPU | {"tolerations": [EXISTS]}),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.requests.0.exactly", GPU | {"tolerations": [NEVER]}),
    ("resource.k8s.io/v1/ResourceSlice", "spec.devices.0.taints", [{"effect": "NoSchedule"}]),
    ("resource.k8s.io/v1/ResourceSlice", "spec.devices.0.taints", [{"key": "a", "effect": "Never"}]),
]


def changed(kind: str, path: str = "", value: Any = None) -> Json:
    version, _, short = kind.rpartition("/")
    head = {"apiVersion": version, "kind": short, "metadata": {"name": "x", "namespace": "default"}}
    whole: Any = head | deepcopy(BASES[kind])
    at = whole
    *parents, last = path.split(".")
    for name in parents:
        at = at[int(name) if name.isdigit() else name]
    if path:
        at[last] = value
    return dict(whole)


@pytest.mark.parametrize("kind", BASES)
def test_the_objects_that_are_changed_follow_all_rules(kind: str) -> None:
    value = changed(kind)
    validate(decode_object(value))
    assert manifest_causes(value, value["kind"], value["apiVersion"]) == []


@pytest.mark.parametrize(("kind", "path", "value"), MISTAKES)
def test_a_mistake_has_one_text(kind: str, path: str, value: Any) -> None:
    whole = changed(kind, path, value)
    with pytest.raises(InputError) as caught:
        validate(decode_object(whole))
    causes = manifest_causes(whole, whole["kind"], whole["apiVersion"])
    assert (caught.value.path, caught.value.message) in [(field, shorten(text)) for field, text in causes]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"key": 1}, "number into Go struct field {}.key of type string"),
        (
            {"key": "a", "operator": 1},
            "number into Go struct field {}.operator of type v1.NodeSelectorOperator",
        ),
        (
            {"key": "a", "operator": "In", "values": "b"},
            "string into Go struct field {}.values of type []string",
        ),
    ],
)
def test_a_wrong_type_has_one_text_in_a_pod_and_in_a_configuration(rule: Json, text: str) -> None:
    affinity = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    pod = changed("v1/Pod", "spec.affinity", {"nodeAffinity": affinity})
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": affinity}}]}],
    }
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(config, IN_TREE)
    ((_, cause),) = manifest_causes(pod, "Pod", "v1")
    field = f"{REQUIRED}.nodeSelectorTerms.matchExpressions"
    of_pod, of_plugin = (
        text.format(f"NodeSelectorRequirement.{path}.{field}")
        for path in ("spec.affinity.nodeAffinity", "addedAffinity")
    )
    assert cause.endswith(f": json: cannot unmarshal {of_pod}")
    assert str(caught.value).endswith(f": json: cannot unmarshal {of_plugin}")
