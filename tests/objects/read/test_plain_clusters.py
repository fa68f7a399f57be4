"""A cluster of nodes and plain pods passes over admission: it is read as beside an object that changes
nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.make import written

from moorage import load
from moorage.errors import InputError

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}, "status": {}}
UNRELATED = written("storage.k8s.io/v1/StorageClass", "unrelated", provisioner="example.com/none")
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"]),
    st.sampled_from(["1", "2", "4Mi"]),
    max_size=2,
)
CONTAINER: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": st.just("c"), "image": st.sampled_from(["a", "a:latest"])},
    optional={
        "resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS}),
        "ports": st.just([{"containerPort": 80, "hostPort": 80}]),
        "securityContext": st.just({"privileged": True}),
        "restartPolicy": st.just("Always"),
    },
)
SPEC = st.fixed_dictionaries(
    {"containers": CONTAINER.map(lambda one: [one])},
    optional={
        "nodeName": st.just("n"),
        "initContainers": CONTAINER.map(lambda one: [one | {"name": "i"}]),
        "hostNetwork": st.booleans(),
        "priority": st.sampled_from([0, 7]),
        "priorityClassName": st.sampled_from(["", "system-node-critical", "none"]),
        "preemptionPolicy": st.sampled_from(["Never", "PreemptLowerPriority"]),
        "runtimeClassName": st.just("none"),
        "overhead": AMOUNTS,
        "resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS}),
        "serviceAccountName": st.just("other"),
        "tolerations": st.just([{"operator": "Exists"}]),
        "nodeSelector": st.just({"a": "b"}),
        "schedulingGates": st.just([{"name": "example.com/gate"}]),
        "volumes": st.sampled_from(
            [
                [{"name": "v", "emptyDir": {}}],
                [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}],
                [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
            ]
        ),
        "resourceClaims": st.just([{"name": "r", "resourceClaimTemplateName": "none"}]),
        "topologySpreadConstraints": st.just(
            [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
        ),
    },
)
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
METADATA = st.fixed_dictionaries(
    {"name": st.just("p")},
    optional={
        "namespace": st.sampled_from(["default", "kube-system", "other"]),
        "uid": st.just("1"),
        "labels": st.just({"app": "web"}),
        "annotations": st.just({"kubernetes.io/config.mirror": "m"}),
        "ownerReferences": st.just([OWNER]),
        "creationTimestamp": st.just("2026-01-01T00:00:00Z"),
    },
)


@given(
    st.fixed_dictionaries(
        {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": METADATA, "spec": SPEC},
        optional={"status": st.sampled_from([{"phase": "Running"}, {"phase": "Succeeded"}])},
    )
)
def test_plain_pods_are_read_as_beside_other_objects(pod: dict[str, Any]) -> None:
    def read(*objects: dict[str, Any]) -> object:
        try:
            cluster = load([*objects])
        except InputError as error:
            return str(error)
        others = [one for one in cluster.others if one.name != "unrelated"]
        refused = [str(one) for one in cluster.refused]
        pods = cluster.pods, cluster.finished, cluster.inferred
        return *pods, [one.name for one in cluster.namespaces], others, refused, cluster.warnings

    assert read(NODE, pod) == read(NODE, pod, UNRELATED)
