"""A dump in the shape of ``kubectl get nodes,pods -A -o json``, as an API server returns the objects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CREATED = "2026-01-02T03:04:05Z"
PODS_PER_TEMPLATE = 500
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_ORDINARY = ("not-ready", "unreachable")

_SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
    {
        "downwardAPI": {
            "items": [
                {
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                    "path": "namespace",
                }
            ]
        }
    },
]


def _hash(text: str, length: int = 32) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:length]


def _suffix(text: str, length: int = 5) -> str:
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:length])


def _uid(text: str) -> str:
    digest = _hash(text)
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:]}"


def _time(at: int) -> str:
    return f"2026-03-{1 + at % 28:02}T{at % 24:02}:{at % 60:02}:{at * 7 % 60:02}Z"


def node(at: int) -> dict[str, Any]:
    """The node with a number, in one of three zones."""
    name, zone = f"node-{at}", f"eu-west-1{'abc'[at % 3]}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": json.dumps({"ebs.csi.aws.com": f"i-{_hash(name, 17)}"}),
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "creationTimestamp": CREATED,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.4xlarge",
                "topology.kubernetes.io/region": "eu-west-1",
                "topology.kubernetes.io/zone": zone,
            },
            "name": name,
            "resourceVersion": str(100_000 + at),
            "uid": _uid(name),
        },
        "spec": {"podCIDR": f"10.{at // 256}.{at % 256}.0/24", "providerID": f"aws:///{zone}/i-{name}"},
        "status": _node_status(at),
    }


def _node_status(at: int) -> dict[str, Any]:
    sizes = {"cpu": "16", "ephemeral-storage": "103079844Ki", "memory": "65230Mi", "pods": "110"}
    sizes |= {"hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    return {
        "addresses": [{"address": f"10.0.{at // 256}.{at % 256}", "type": "InternalIP"}],
        "allocatable": sizes | {"cpu": "15890m", "memory": "60Gi"},
        "capacity": sizes,
        "conditions": [
            {
                "lastHeartbeatTime": _time(at),
                "lastTransitionTime": CREATED,
                "message": f"kubelet has no {kind.lower()}",
                "reason": f"KubeletHasNo{kind}",
                "status": "False",
                "type": kind,
            }
            for kind in pressures
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": [
            {
                "names": [f"registry.example/app-{app}@sha256:{_hash(str(app)) * 2}"],
                "sizeBytes": 10_000_000 + app,
            }
            for app in range(at % 4, 40, 4)
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": _uid(f"boot {at}"),
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.12.40",
            "kubeletVersion": "v1.36.2",
            "machineID": _hash(f"machine {at}"),
            "operatingSystem": "linux",
            "osImage": "Amazon Linux 2023",
        },
    }


def pod(at: int, nodes: int) -> dict[str, Any]:
    """The pod with a number, bound to one of the nodes; every tenth template is a StatefulSet."""
    template, stateful = at // PODS_PER_TEMPLATE, at // PODS_PER_TEMPLATE % 10 == 9
    app, namespace = f"app-{template}", f"team-{template % 20}"
    revision = _suffix(app, 10)
    owner = app if stateful else f"{app}-{revision}"
    name = f"{owner}-{at % PODS_PER_TEMPLATE}" if stateful else f"{owner}-{_suffix(str(at))}"
    labels = {"app": app, "app.kubernetes.io/part-of": namespace}
    if stateful:
        labels |= {"apps.kubernetes.io/pod-index": str(at % PODS_PER_TEMPLATE)}
        labels |= {"statefulset.kubernetes.io/pod-name": name}
    else:
        labels["pod-template-hash"] = revision
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {"prometheus.io/port": "8080", "prometheus.io/scrape": "true"},
            "creationTimestamp": _time(at),
            "generateName": f"{owner}-",
            "labels": labels,
            "name": name,
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "StatefulSet" if stateful else "ReplicaSet",
                    "name": owner,
                    "uid": _uid(owner),
                }
            ],
            "resourceVersion": str(200_000 + at),
            "uid": _uid(f"pod {at}"),
        },
        "spec": _spec(at, f"node-{at * 7919 % nodes}", app, name if stateful else ""),
        "status": _status(at, app, nodes),
    }


def _container(app: str, token: str) -> dict[str, Any]:
    return {
        "env": [{"name": "MODE", "value": "production"}, {"name": "APP", "value": app}],
        "image": f"registry.example/{app}:v1",
        "imagePullPolicy": "IfNotPresent",
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}},
        "name": "main",
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "resources": {
            "limits": {"memory": "512Mi"},
            "requests": {"cpu": f"{50 + len(app)}m", "memory": "256Mi"},
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"mountPath": _ACCOUNT, "name": token, "readOnly": True}],
    }


def _spec(at: int, node_name: str, app: str, hostname: str) -> dict[str, Any]:
    token = f"kube-api-access-{_suffix(f'token {at}')}"
    spec: dict[str, Any] = {
        "containers": [_container(app, token)],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "nodeName": node_name,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {
                "effect": "NoExecute",
                "key": f"node.kubernetes.io/{kind}",
                "operator": "Exists",
                "tolerationSeconds": 300,
            }
            for kind in _ORDINARY
        ],
        "volumes": [{"name": token, "projected": {"defaultMode": 420, "sources": _SOURCES}}],
    }
    return dict(sorted((spec | {"hostname": hostname} if hostname else spec).items()))


def _status(at: int, app: str, nodes: int) -> dict[str, Any]:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    address = f"10.{at // 65536}.{at // 256 % 256}.{at % 256}"
    host = f"10.0.{at * 7919 % nodes // 256}.{at * 7919 % nodes % 256}"
    return {
        "conditions": [
            {"lastProbeTime": None, "lastTransitionTime": _time(at), "status": "True", "type": kind}
            for kind in kinds
        ],
        "containerStatuses": [
            {
                "allocatedResources": {"cpu": f"{50 + len(app)}m", "memory": "256Mi"},
                "containerID": f"containerd://{_hash(f'container {at}') * 2}",
                "image": f"registry.example/{app}:v1",
                "imageID": f"registry.example/{app}@sha256:{_hash(app) * 2}",
                "lastState": {},
                "name": "main",
                "ready": True,
                "resources": {
                    "limits": {"memory": "512Mi"},
                    "requests": {"cpu": f"{50 + len(app)}m", "memory": "256Mi"},
                },
                "restartCount": 0,
                "started": True,
                "state": {"running": {"startedAt": _time(at + 1)}},
            }
        ],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": "Burstable",
        "startTime": _time(at),
    }


def objects(nodes: int, pods: int) -> Iterator[dict[str, Any]]:
    """The nodes, then the pods, all of them bound."""
    yield from map(node, range(nodes))
    for at in range(pods):
        yield pod(at, nodes)


def write_list(path: Path, nodes: int, pods: int) -> None:
    """Write the objects as ``kubectl get -o json`` prints them: one List, indented by four spaces."""
    listed = {"apiVersion": "v1", "items": list(objects(nodes, pods)), "kind": "List", "metadata": {}}
    path.write_text(json.dumps(listed, indent=4) + "\n")


def write_lines(path: Path, nodes: int, pods: int) -> None:
    """Write one object per line, without spaces."""
    with path.open("w") as file:
        for obj in objects(nodes, pods):
            file.write(json.dumps(obj, separators=(",", ":")) + "\n")
