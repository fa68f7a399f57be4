"""A cluster that grows object by object, in which pods are put where they fit."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any

from tests.agreement import objects as made
from tests.agreement.clusters import ZONE
from tests.agreement.objects import Object, name_of, owned_by, requests, time_of
from tests.make import written

EVERYTHING = {"operator": "Exists"}


class Ground:
    """Objects with what a server gives them, nodes with the room that is left, and pods on them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.objects: list[Object] = []
        self.nodes: list[Object] = []
        self.pods: list[Object] = []
        self.free: dict[str, dict[str, float]] = {}
        self.unready = 0.0
        """Which share of the pods that come is not ready."""

    def add(self, obj: Object) -> Object:
        number = len(self.objects) + 1
        meta = obj["metadata"]
        meta["uid"] = f"00000000-0000-4000-8000-{number:012d}"
        meta["resourceVersion"] = str(1000 + number)
        meta["creationTimestamp"] = time_of(7 * number)
        self.objects.append(obj)
        return obj

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def enter(self, node: Object) -> None:
        self.nodes.append(self.add(node))
        self.free[name_of(node)] = {
            name: made.amount(size) for name, size in node["status"]["allocatable"].items()
        }

    def _fits(self, node: Object, spec: Object, labels: dict[str, str], space: str, zone: str) -> bool:
        """Whether a pod may be on a node, by what this kit draws."""
        free, has = self.free[name_of(node)], node["metadata"]["labels"]
        if any(free.get(name, 0) < size for name, size in ({"pods": 1} | requests(spec)).items()):
            return False
        tolerated = {one.get("key") for one in spec.get("tolerations", ())}
        if not all({None, taint["key"]} & tolerated for taint in node["spec"].get("taints", ())):
            return False
        if any(has.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
            return False
        if zone and has[ZONE] != zone:
            return False
        siblings = [
            pod["spec"]["nodeName"]
            for pod in self.pods
            if pod["metadata"]["namespace"] == space
            and pod["metadata"]["labels"].get("app") == labels.get("app")
            and "nodeName" in pod["spec"]
        ]
        if "podAntiAffinity" in spec.get("affinity", {}) and name_of(node) in siblings:
            return False
        return all(
            self._spreads(node, spec, one, siblings) for one in spec.get("topologySpreadConstraints", ())
        )

    def _spreads(self, node: Object, spec: Object, constraint: Object, siblings: list[str]) -> bool:
        if constraint["whenUnsatisfiable"] != "DoNotSchedule":
            return True
        key, wanted = constraint["topologyKey"], spec.get("nodeSelector", {})
        domains = {
            name_of(one): one["metadata"]["labels"][key] for one in self.nodes if made.selects(wanted, one)
        }
        counts = Counter(dict.fromkeys(domains.values(), 0))
        counts.update(domains[name] for name in siblings if name in domains)
        return counts[node["metadata"]["labels"][key]] + 1 - min(counts.values()) <= constraint["maxSkew"]

    def pod(self, name: str, owner: Object | None, space: str, template: Object, **where: Any) -> Object:
        """Add a pod of a template, on a node where it fits.

        Parameters
        ----------
        where
            `zone` in which it has to be, or `only` the node that it may be on.
        """
        spec, labels = copy.deepcopy(template["spec"]), dict(template["metadata"]["labels"])
        value, policy = self._priority(spec.get("priorityClassName"))
        spec = {"restartPolicy": "Always", "schedulerName": "default-scheduler"} | spec
        spec |= {
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
        }
        spec |= {"enableServiceLinks": True, "priority": value, "preemptionPolicy": policy}
        tolerations = spec.setdefault("tolerations", [])
        if EVERYTHING not in tolerations:
            tolerations += [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ]
        only = where.get("only")
        nodes = self.nodes if only is None else [only]
        fitting = [node for node in nodes if self._fits(node, spec, labels, space, where.get("zone", ""))]
        pod: Object = written("v1/Pod", {"name": name, "namespace": space, "labels": labels})
        if owner is not None:
            pod["metadata"]["ownerReferences"] = owned_by(owner)
        self.add(pod)["spec"] = spec
        began = pod["metadata"]["creationTimestamp"]
        if fitting:
            self._bind(pod, name_of(self.rng.choice(fitting)))
        else:
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no node",
            }
            pod["status"] = {"phase": "Pending", "conditions": [{**condition, "lastTransitionTime": began}]}
        self.pods.append(pod)
        return pod

    def _bind(self, pod: Object, node: str) -> None:
        pod["spec"]["nodeName"] = node
        for name, size in ({"pods": 1} | requests(pod["spec"])).items():
            self.free[node][name] -= size
        is_ready = not self.chance(self.unready)
        began = pod["metadata"]["creationTimestamp"]
        states = {"PodScheduled": True, "Initialized": True, "ContainersReady": is_ready, "Ready": is_ready}
        pod["status"] = {
            "phase": "Running",
            "startTime": began,
            "conditions": [
                {"type": name, "status": str(state), "lastTransitionTime": began}
                for name, state in states.items()
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "x",
                    "ready": is_ready,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": began}},
                }
                for container in pod["spec"]["containers"]
            ],
        }

    def _priority(self, name: str | None) -> tuple[int, str]:
        found = next((o for o in self.objects if o["kind"] == "PriorityClass" and name_of(o) == name), None)
        return (0, "PreemptLowerPriority") if found is None else (found["value"], found["preemptionPolicy"])
