"""New scenarios of mode queue: pods of others wait, are tried and rejected, while their cluster changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

Json = dict[str, Any]

PLUGINS = (
    *("NodeResourcesFit", "NodeAffinity", "TaintToleration", "VolumeBinding", "NodeVolumeLimits"),
    *("VolumeRestrictions", "VolumeZone", "InterPodAffinity", "PodTopologySpread", "NodePorts", "NodeName"),
    *("NodeUnschedulable", "NodeDeclaredFeatures"),
)
PAUSES = (500, 1500, 5000, 12_000, 61_000, 301_000)
"""Milliseconds: within a backoff, beyond it, and beyond the time in which a pod is tried again anyway."""


def waiting(parents: list[Json], seed: int, count: int) -> Iterator[Json]:
    """Yield scenarios of mode queue; equal arguments give equal ones.

    Parameters
    ----------
    parents : list of dict
        Scenarios of other modes.
    seed, count : int

    Yields
    ------
    dict
    """
    random = Random(seed)
    for number in range(count):
        parent, other = random.choice(parents), random.choice(parents)
        yield _Events(parent, other, random).scenario(f"waiting-{seed}-{number}-{parent['name']}")


def _name(one: Json) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", "default"), one["metadata"]["name"]


class _Events:
    """What happens in one scenario.

    `known` has the objects of the cluster by name, `absent` those that may come, `pods` the pods that wait or
    waited, and `steps` what has been carried out.
    """

    def __init__(self, parent: Json, other: Json, random: Random) -> None:
        self.random, self.steps = random, list[Json]()
        self.known: dict[tuple[str, str, str], Json] = {}
        self.absent: list[Json] = []
        self.others = other["objects"]
        self.gates = parent.get("config", {}).get("featureGates", {})
        self.rejects = (*PLUGINS, *["DynamicResources"] * 20) if parent["mode"] == "dra" else PLUGINS
        tried = {_name(step["pod"]): step["pod"] for step in parent["steps"] if step["op"] == "schedule"}
        self.pods = [self._unbound(pod) for pod in tried.values()][: random.randint(3, 12)]
        names = {_name(pod) for pod in self.pods}
        added = [step["object"] for step in parent["steps"] if step["op"] == "addObject"]
        for given in (*parent["objects"], *added):
            one = copy.deepcopy(given)
            one["metadata"].pop("resourceVersion", None)
            one.get("spec", {}).pop("schedulerName", None)
            is_waiting = one["kind"] == "Pod" and not one["spec"].get("nodeName")
            if _name(one) in names or is_waiting:
                continue
            names.add(_name(one))
            if one["kind"] in ("Namespace", "Node") or random.random() < 0.75:
                self.known[_name(one)] = one
            else:
                self.absent.append(one)
        self.later = self.pods[random.randint(0, len(self.pods)) :]

    def _unbound(self, pod: Json) -> Json:
        found = copy.deepcopy(pod)
        for field in ("nodeName", "schedulerName"):
            found["spec"].pop(field, None)
        found.setdefault("status", {}).pop("nominatedNodeName", None)
        return found

    def scenario(self, name: str) -> Json:
        objects = copy.deepcopy([*self.known.values(), *(pod for pod in self.pods if pod not in self.later)])
        kinds = [self._attempt] * 9 + [self._arrival] * 3 + [self._change] * 6 + [self._pod_change] * 2
        for _ in range(self.random.randint(25, 70)):
            self.random.choice([*kinds, self._pause, self._pause])()
        scenario = {"name": name, "mode": "queue", "objects": objects, "steps": self.steps}
        return scenario | ({"config": {"featureGates": self.gates}} if self.gates else {})

    def _add(self, op: str, **fields: Any) -> None:
        self.steps.append({"op": op, **copy.deepcopy(fields)})

    def _attempt(self) -> None:
        """A pod is popped, or one that may be in flight comes back or is bound."""
        random = self.random
        if random.random() < 0.5 or not self.pods:
            self._add("pop")
            return
        _, namespace, name = _name(random.choice(self.pods))
        whose = {"namespace": namespace, "name": name}
        nodes = [key for key in self.known if key[0] == "Node"]
        match random.randrange(10):
            case 0:
                self._add("error", **whose)
            case 1 if nodes:
                self._add("bind", **whose, to=random.choice(nodes)[2])
            case 2 if "DynamicResources" in self.rejects:
                self._add("fail", **whose, plugins=[], pending=["DynamicResources"])
            case _:
                plugins = sorted({random.choice(self.rejects) for _ in range(random.choice([1, 1, 2]))})
                self._add("fail", **whose, plugins=plugins)

    def _arrival(self) -> None:
        """A pod or an object is new."""
        if self.later and self.random.random() < 0.5:
            self._add("addPod", pod=self.later.pop())
        elif self.absent:
            one = self.absent.pop(self.random.randrange(len(self.absent)))
            self.known[_name(one)] = one
            field = {"Pod": "pod", "Node": "node"}.get(one["kind"], "object")
            self._add(f"add{field.capitalize()}", **{field: one})

    def _change(self) -> None:
        """An object that is no pod goes, or takes the specification of another of its kind."""
        random = self.random
        kinds = sorted({key[0] for key in self.known} - {"Pod", "Namespace"})
        if not kinds:
            return
        kind = random.choice(kinds)
        key = random.choice([key for key in self.known if key[0] == kind])
        one = self.known[key]
        if random.random() < 0.15:
            self.absent.append(self.known.pop(key))
            self._add("removeNode", name=key[2]) if kind == "Node" else self._add("removeObject", object=one)
            return
        changed = copy.deepcopy(one)
        donors = [other for other in self.others if other["kind"] == kind]
        if donors and random.random() < 0.8:
            donor = random.choice(donors)
            for field in random.sample(["spec", "status", "labels"], random.randint(1, 2)):
                if field == "labels":
                    changed["metadata"]["labels"] = copy.deepcopy(donor["metadata"].get("labels", {}))
                elif field in donor:
                    changed[field] = copy.deepcopy(donor[field])
        else:
            changed["metadata"].setdefault("annotations", {})["x"] = str(random.randrange(10))
        self.known[key] = changed
        field = "node" if kind == "Node" else "object"
        self._add(f"update{field.capitalize()}", **{field: changed})

    def _pod_change(self) -> None:
        """A pod goes, or takes a part of another's specification."""
        random = self.random
        bound = [one for one in self.known.values() if one["kind"] == "Pod"]
        pods = [pod for pod in self.pods if pod not in self.later] + bound
        if not pods:
            return
        pod, donor = random.choice(pods), random.choice(pods)
        if random.random() < 0.3:
            _, namespace, name = _name(pod)
            self._add("removePod", namespace=namespace, name=name)
            if pod in bound:
                self.absent.append(self.known.pop(_name(pod)))
            else:
                self.pods.remove(pod)
            return
        for field in random.sample(["tolerations", "containers", "labels"], random.randint(0, 2)):
            if field == "labels":
                pod["metadata"]["labels"] = copy.deepcopy(donor["metadata"].get("labels", {}))
            elif field in donor["spec"]:
                pod["spec"][field] = copy.deepcopy(donor["spec"][field])
        changed = copy.deepcopy(pod)
        changed["spec"].pop("nodeName", None)
        self._add("updatePod", pod=changed)

    def _pause(self) -> None:
        op = self.random.choice(["advance", "advance", "flushBackoff", "flushUnschedulable"])
        self._add(op, **({"milliseconds": self.random.choice(PAUSES)} if op == "advance" else {}))
