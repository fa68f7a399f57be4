"""Clusters that are drawn: the same for the same seed."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.agreement import objects as made
from tests.agreement.clusters import ZONE, Cluster
from tests.agreement.ground import EVERYTHING, Ground
from tests.agreement.objects import Object, name_of, owned_by, requests, with_statuses

GPU = "nvidia.com/gpu"
OF_GPUS = {"key": GPU, "operator": "Exists"}
HOSTNAME = "kubernetes.io/hostname"
SIZES = {"general": ("4", "16Gi"), "big": ("8", "32Gi"), "gpu": ("8", "32Gi")}
TYPES = {"m5.large": ("1930m", "6903Mi"), "m5.xlarge": ("3920m", "14162Mi"), "c6a.large": ("1930m", "3114Mi")}
"""What nodes of these types have for pods, with AL2023."""
BUDGETS: list[Callable[[int], tuple[str, Any]]] = [
    lambda replicas: ("minAvailable", 1),
    lambda replicas: ("minAvailable", max(replicas - 1, 0)),
    lambda replicas: ("minAvailable", replicas),
    lambda replicas: ("maxUnavailable", 1),
    lambda replicas: ("minAvailable", "50%"),
    lambda replicas: ("maxUnavailable", "25%"),
    lambda replicas: ("minAvailable", "100%"),
    lambda replicas: ("maxUnavailable", 0),
]
KINDS = ("plain", "tight", "karpenter", "equal", "groups")
"""Nodes of several pools; too few nodes; few nodes and NodePools; equal nodes; few nodes and groups of
cluster-autoscaler."""


def draw(seed: int, number: int) -> Cluster:
    """The cluster of a number among those of a seed."""
    kind = KINDS[number % len(KINDS)]
    return _Drawing(random.Random(f"{seed} {number}"), kind).cluster(f"{kind}-{seed}-{number}")


def requirement(key: str, *values: str, operator: str = "In") -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


OF_POOLS: list[list[Object]] = [
    [],
    [
        requirement("karpenter.k8s.aws/instance-category", "c", "m", "r"),
        requirement("karpenter.k8s.aws/instance-generation", "4", operator="Gt"),
    ],
    [
        requirement(
            "node.kubernetes.io/instance-type",
            "m5.large",
            "m5.xlarge",
            "m5.2xlarge",
            "c6a.large",
            "c6a.xlarge",
        )
    ],
    [requirement("karpenter.k8s.aws/instance-family", "m5", "c7a", "t3")],
    [
        requirement("karpenter.k8s.aws/instance-family", "m6i", "m6a", "c6i"),
        requirement("karpenter.k8s.aws/instance-size", "medium", "large", operator="NotIn"),
    ],
]


class _Drawing(Ground):
    """A cluster of a kind."""

    def __init__(self, rng: random.Random, kind: str) -> None:
        super().__init__(rng)
        self.kind = kind
        self.zones = ["a", "b", "c"][: rng.choice([1, 2, 3, 3])]

    def cluster(self, name: str) -> Cluster:
        is_big = self.kind in ("plain", "equal") and self.rng.random() < 0.12
        if self.kind == "karpenter":
            self._pools()
        else:
            self._nodes(is_big)
        self.add(made.priority_class("high", 1000))
        self.add(made.priority_class("low", 10, self.rng.choice(["Never", "PreemptLowerPriority"])))
        self.add(made.storage_class("disk"))
        for space in ("default", "shop", "ml"):
            self.add(made.namespace(space))
        for number in range(self.rng.randint(10, 16) if is_big else self.rng.randint(3, 7)):
            self._workload(f"app{number}", self.rng.choice(["shop", "ml"]) if number else "shop")
        for space in ("shop", "ml"):
            self._limits(space)
        groups = self._groups() if self.kind == "groups" else ()
        return Cluster(name, with_statuses(self.objects), groups, is_drawn=True)

    # ---- nodes -------------------------------------------------------------------------------------------

    def _nodes(self, is_big: bool) -> None:
        few = self.kind in ("tight", "groups")
        for number in range(self.rng.randint(17, 40) if is_big else self.rng.randint(3, 4 if few else 9)):
            pools = (
                ["general"]
                if self.kind in ("equal", "groups")
                else ["general", "general", "general", "big", "gpu"]
            )
            pool = self.rng.choice(pools)
            cpu, memory = SIZES[pool]
            room = {"cpu": cpu, "memory": memory, "pods": "30", "ephemeral-storage": "100Gi"}
            labels = {
                "pool": pool,
                ZONE: self.zones[number % len(self.zones)],
                "topology.kubernetes.io/region": "r",
            }
            if self.kind == "groups":
                labels["eks.amazonaws.com/nodegroup"] = f"workers-{labels[ZONE]}"
            taints = []
            if pool == "gpu":
                room[GPU] = "4"
                taints.append({"key": GPU, "value": "present", "effect": "NoSchedule"})
            node = made.node(f"{pool}-{number}", labels, room, taints)
            if self.chance(0.06):
                node["spec"] = {
                    "unschedulable": True,
                    "taints": [*taints, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
                }
            self.enter(node)

    def _pools(self) -> None:
        self.zones = ["us-east-1a", "us-east-1b"]
        for number in range(self.rng.randint(0, 3)):
            zone, name = self.rng.choice(self.zones), self.rng.choice(sorted(TYPES))
            labels = {
                ZONE: zone,
                "topology.kubernetes.io/region": "us-east-1",
                "node.kubernetes.io/instance-type": name,
                "karpenter.sh/nodepool": "general",
                "karpenter.sh/capacity-type": "on-demand",
                "karpenter.sh/registered": "true",
                "karpenter.sh/initialized": "true",
            }
            cpu, memory = TYPES[name]
            pods = "58" if name == "m5.xlarge" else "29"
            room = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "17Gi"}
            node = made.node(f"ip-10-0-0-{number}.ec2.internal", labels, room)
            node["spec"]["providerID"] = f"aws:///{zone}/i-{number:08d}"
            self.enter(node)
        self.add(made.node_class(self.zones))
        for weight, name in zip((10, 9), ["general", "second"][: self.rng.choice([1, 1, 2])], strict=False):
            capacity = self.rng.choice([["on-demand"], ["on-demand"], ["spot", "on-demand"]])
            wanted = [*self.rng.choice(OF_POOLS), requirement("karpenter.sh/capacity-type", *capacity)]
            if self.chance(0.7):
                wanted.append(requirement("kubernetes.io/arch", "amd64"))
            self.add(made.node_pool(name, wanted, {"cpu": "64"} if self.chance(0.3) else None, weight))

    def _groups(self) -> tuple[str, ...]:
        """The sizes of node groups, one for each zone: those of their nodes, and up to three more."""
        label = "eks.amazonaws.com/nodegroup"
        sizes = Counter(node["metadata"]["labels"][label] for node in self.nodes)
        text = ",".join(f"0:{size + self.rng.randint(0, 3)}:{name}" for name, size in sorted(sizes.items()))
        return ("--group-sizes", text)

    # ---- workloads ---------------------------------------------------------------------------------------

    def _workload(self, name: str, space: str) -> None:
        rng = self.rng
        self.unready = 0.3 if self.chance(0.08) else 0.0
        shares = [45, 45, 0, 8, 2] if self.kind == "tight" else [60, 16, 8, 12, 4]
        kind = rng.choices(["Deployment", "StatefulSet", "DaemonSet", "Job", "Pod"], shares)[0]
        if kind == "StatefulSet" and self.kind in ("karpenter", "groups"):
            kind = "Deployment"
        template = {"metadata": {"labels": {"app": name}}, "spec": self._pod_spec(kind, name)}
        number = rng.choice([1, 2, 2, 3, 3, 4, 5, 6])
        match kind:
            case "Pod":
                self.pod(name, None, space, template)
            case "Deployment":
                self._deployment(name, space, template, number)
            case "StatefulSet":
                self._stateful_set(name, space, template, number)
            case "DaemonSet":
                self._daemon_set(name, space, template)
            case "Job":
                self._job(name, space, template, number)
        if kind in ("Deployment", "StatefulSet") and self.chance(0.6):
            self.add(made.budget(name, space, *rng.choice(BUDGETS)(number)))

    def _pod_spec(self, kind: str, name: str) -> Object:
        rng = self.rng
        cpu, memory = ["200m", "500m", "1", "1500m", "2"], ["256Mi", "512Mi", "1Gi", "2Gi", "4Gi"]
        if self.kind == "tight":
            cpu, memory = ["1", "1500m", "2", "3"], ["1Gi", "4Gi", "8Gi"]
        wanted = {"cpu": rng.choice(cpu), "memory": rng.choice(memory)}
        if kind == "DaemonSet":
            wanted = {"cpu": "100m", "memory": "128Mi"}
        container: Object = {"name": "main", "image": "app:1", "imagePullPolicy": "IfNotPresent"}
        container["resources"] = {"requests": wanted}
        spec: Object = {"containers": [container]}
        if self.chance(0.1):
            small = {"requests": {"cpu": "50m", "memory": "64Mi"}}
            spec["containers"].append({**container, "name": "proxy", "resources": small})
        has_gpus = any(GPU in node["status"]["allocatable"] for node in self.nodes)
        if kind == "DaemonSet":
            spec["tolerations"] = [EVERYTHING]
            if self.chance(0.5) and self.kind != "karpenter":
                spec["nodeSelector"] = {"pool": "general"}
        elif kind in ("Deployment", "Job") and has_gpus and self.chance(0.15):
            wanted[GPU] = "1"
            container["resources"]["limits"] = {GPU: "1"}
            spec["tolerations"] = [OF_GPUS]
        elif self.chance(0.08):
            spec["tolerations"] = [OF_GPUS]
        if kind in ("Deployment", "StatefulSet"):
            self._place(spec, name)
        return spec

    def _place(self, spec: Object, name: str) -> None:
        """Say where the pods of a workload may be, and who goes first."""
        rng, own = self.rng, {"matchLabels": {"app": name}}
        if self.chance(0.25):
            spread = {"maxSkew": rng.choice([1, 1, 2]), "topologyKey": rng.choice([ZONE, HOSTNAME])}
            how = rng.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"])
            spec["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": how, "labelSelector": own}]
        if self.chance(0.15):
            term = {"topologyKey": HOSTNAME, "labelSelector": own}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if self.kind != "karpenter" and self.chance(0.12):
            spec["nodeSelector"] = {"pool": rng.choice(["general", "big"])}
        elif len(self.zones) > 1 and self.chance(0.08):
            spec["nodeSelector"] = {ZONE: rng.choice(self.zones)}
        if self.chance(0.2):
            spec["priorityClassName"] = rng.choice(["high", "low"])

    def _deployment(self, name: str, space: str, template: Object, number: int) -> None:
        rng, labels = self.rng, template["metadata"]["labels"]
        rolling = {"maxSurge": rng.choice(["25%", 1, 0]), "maxUnavailable": rng.choice(["25%", 1])}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
        spec = {
            "replicas": number,
            "selector": {"matchLabels": labels},
            "template": template,
            "strategy": strategy,
        }
        deployment = self.add(made.workload("Deployment", name, space, spec))
        hashed = f"{rng.getrandbits(36):09x}"
        own = {**labels, "pod-template-hash": hashed}
        of_set = {"metadata": {"labels": own}, "spec": template["spec"]}
        spec = {"replicas": number, "selector": {"matchLabels": own}, "template": of_set}
        replica_set = self.add(made.workload("ReplicaSet", f"{name}-{hashed}", space, spec, own))
        replica_set["metadata"]["ownerReferences"] = owned_by(deployment)
        pods = [self.pod(f"{name}-{hashed}-p{at}", replica_set, space, of_set) for at in range(number)]
        run = sum(map(made.is_ready, pods))
        for obj, field in ((deployment, "updatedReplicas"), (replica_set, "fullyLabeledReplicas")):
            obj["metadata"] |= {"generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}}
            obj["status"] = {
                "replicas": number,
                field: number,
                "readyReplicas": run,
                "availableReplicas": run,
            }
            obj["status"]["observedGeneration"] = 1
        if self.chance(0.12):
            self.add(made.autoscaler(deployment, number + 3))

    def _stateful_set(self, name: str, space: str, template: Object, number: int) -> None:
        rng, labels = self.rng, template["metadata"]["labels"]
        has_volumes, policy = self.chance(0.6), rng.choice(["Parallel", "OrderedReady"])
        spec = {
            "replicas": number,
            "serviceName": name,
            "podManagementPolicy": policy,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            "selector": {"matchLabels": labels},
            "template": template,
        }
        claim = made.claim_template("data")
        if has_volumes:
            spec["volumeClaimTemplates"] = [claim]
        owner = self.add(made.workload("StatefulSet", name, space, spec))
        owner["metadata"]["generation"] = 1
        pods: list[Object] = []
        for at in range(number):
            own, zone = copy.deepcopy(template), ""
            of_pod = {
                "statefulset.kubernetes.io/pod-name": f"{name}-{at}",
                "apps.kubernetes.io/pod-index": str(at),
            }
            own["metadata"]["labels"] = {**labels, **of_pod, "controller-revision-hash": f"{name}-1"}
            if has_volumes:
                zone, bound = rng.choice(self.zones), f"data-{name}-{at}"
                own["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": bound}}]
                for obj in made.bound_claim(claim, bound, space, zone):
                    self.add(obj)
            pods.append(self.pod(f"{name}-{at}", owner, space, own, zone=zone))
            if policy == "OrderedReady" and "nodeName" not in pods[-1]["spec"]:
                break
        run, count = sum(map(made.is_ready, pods)), len(pods)
        owner["status"] = {
            "replicas": count,
            "currentReplicas": count,
            "updatedReplicas": count,
            "observedGeneration": 1,
        }
        owner["status"] |= {"readyReplicas": run, "availableReplicas": run}
        owner["status"] |= {"currentRevision": f"{name}-1", "updateRevision": f"{name}-1"}

    def _daemon_set(self, name: str, space: str, template: Object) -> None:
        rolling = {"maxUnavailable": 1, "maxSurge": 0}
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
        owner = self.add(made.workload("DaemonSet", name, space, spec))
        owner["metadata"]["generation"] = 1
        for number, node in enumerate(self.nodes):
            if not made.selects(template["spec"].get("nodeSelector", {}), node):
                continue
            own = copy.deepcopy(template)
            own["metadata"]["labels"] |= {"controller-revision-hash": "1", "pod-template-generation": "1"}
            field = {"key": "metadata.name", "operator": "In", "values": [name_of(node)]}
            terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
            own["spec"]["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
            }
            self.pod(f"{name}-{number}", owner, space, own, only=node)

    def _job(self, name: str, space: str, template: Object, number: int) -> None:
        template["spec"]["restartPolicy"] = "Never"
        is_indexed, is_suspended = self.chance(0.4), self.chance(0.2)
        spec = {
            "parallelism": number,
            "completions": number,
            "backoffLimit": self.rng.choice([0, 0, 6, 6]),
            "completionMode": "Indexed" if is_indexed else "NonIndexed",
            "suspend": is_suspended,
            "template": template,
        }
        owner = self.add(made.workload("Job", name, space, spec))
        owner["metadata"]["generation"] = 1
        uid = owner["metadata"]["uid"]
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        labels = {"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid}
        labels |= {"job-name": name, "batch.kubernetes.io/job-name": name}
        template["metadata"]["labels"] = {**template["metadata"]["labels"], **labels}
        pods = []
        for at in range(0 if is_suspended else number):
            index = {"batch.kubernetes.io/job-completion-index": str(at)} if is_indexed else {}
            own = {**template, "metadata": {"labels": {**template["metadata"]["labels"], **index}}}
            pods.append(self.pod(f"{name}-{at}-x", owner, space, own))
            pods[-1]["metadata"] |= {"finalizers": ["batch.kubernetes.io/job-tracking"], "annotations": index}
        owner["status"] = {
            "active": len(pods),
            "ready": sum(map(made.is_ready, pods)),
            "failed": 0,
            "succeeded": 0,
        }
        if not is_suspended:
            owner["status"] |= {
                "startTime": owner["metadata"]["creationTimestamp"],
                "uncountedTerminatedPods": {},
            }

    # ---- what a namespace allows -------------------------------------------------------------------------

    def _limits(self, space: str) -> None:
        mine = [pod for pod in self.pods if pod["metadata"]["namespace"] == space]
        if self.chance(0.3):
            used = sum(requests(pod["spec"])["cpu"] for pod in mine)
            cpu, pods = (
                math.ceil(used) + self.rng.choice([0, 1, 3, 8]),
                len(mine) + self.rng.choice([0, 2, 5, 20]),
            )
            self.add(
                _of_namespace("ResourceQuota", space, {"hard": {"requests.cpu": str(cpu), "pods": str(pods)}})
            )
        if self.chance(0.2):
            limit = {"type": "Container", "max": {"memory": "8Gi"}, "min": {"memory": "64Mi"}}
            self.add(_of_namespace("LimitRange", space, {"limits": [limit]}))


def _of_namespace(kind: str, space: str, spec: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": kind.lower(), "namespace": space},
        "spec": spec,
    }
