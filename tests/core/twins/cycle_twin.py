"""The scheduling cycle in plain Python over manifests: what kube-scheduler v1.36 with one worker decides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.core.twins import kernel_twins as twins
from tests.core.twins.kernel_twins import (
    ANY_IP,
    CPU,
    MEMORY,
    Requirement,
    Row,
    Shape,
    Term,
)

UNITS = {"m": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
ZONE_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
WEIGHTS = {"taints": 3, "affinity": 2, "fit": 1, "balanced": 1, "images": 1}
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def needs_features(pod: Manifest) -> set[str]:
    """The declared features that a pod needs: with its users mapped in the host's network."""
    maps_users = pod["spec"].get("hostNetwork") and pod["spec"].get("hostUsers") is False
    return {"UserNamespacesHostNetworkSupport"} if maps_users else set()


OTHERS = ("ephemeral-storage", "example.com/gpu")

Manifest = dict[str, Any]


@cache
def amount(text: str, milli: bool = False) -> int:
    """A quantity of the few forms that these tests use."""
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    number = int(text.removesuffix(unit))
    if milli:
        return number if unit == "m" else number * 1000
    return number * UNITS.get(unit, 1)


@dataclass(frozen=True)
class Outcome:
    """One cycle; `positions` are those of the whole list, `best` the nodes of the highest total."""

    node: str | None
    start: int
    next: int
    evaluated: int
    positions: list[int]
    totals: list[int] | None
    best: list[str]


class CycleTwin:
    """Nodes that stay as they are, pods that come and go, and the rotation.

    The random tie-break is not foretold: `cycle` answers no node, and the caller takes one of `best`.
    """

    def __init__(
        self, nodes: list[Manifest], percentage: int = 0, tie_break: str = "first", difference: bool = True
    ) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in nodes}
        self.order = list_order(nodes)
        self.percentage, self.tie_break, self.difference = percentage, tie_break, difference
        self.pods: dict[str, list[Manifest]] = {name: [] for name in self.nodes}
        self.rows: dict[str, Row] = {}  # of nodes whose pods have stayed since
        self.start = 0
        self.sizes: dict[str, int] = {}
        self.holders: dict[str, int] = {}
        for node in nodes:
            for image in node["status"].get("images", ()):
                self.sizes.setdefault(image["names"][0], image["sizeBytes"])
                self.holders[image["names"][0]] = self.holders.get(image["names"][0], 0) + 1
        self.images = list(self.sizes)

    def place(self, pod: Manifest, node: str) -> None:
        self.pods[node].append(pod)
        self.rows.pop(node, None)

    def remove(self, pod: Manifest) -> None:
        for pods in self.pods.values():
            if pod in pods:
                pods.remove(pod)
        self.rows.clear()

    # ---- deciding

    def cycle(self, pod: Manifest) -> Outcome:
        """Search, score and choose, and move the rotation; nothing is placed."""
        searched = [name for name in self.order if in_reach(pod, name)]
        wanted = nodes_to_find(self.percentage, len(searched))
        shape, start, positions, evaluated = self.shape(pod), self.start, list[int](), 0
        for step in range(len(searched)):
            position = (start + step) % len(searched)
            if self.fits(pod, shape, searched[position]):
                if len(positions) == wanted:
                    break
                positions.append(position)
            evaluated += 1
        self.start = (start + evaluated) % len(self.order)
        names = [searched[position] for position in positions]
        totals = self.totals(pod, shape, names) if len(names) > 1 else None
        best = [
            name for name, total in zip(names, totals or [0], strict=False) if total == max(totals or [0])
        ]
        node = None
        if len(names) == 1:
            node = names[0]
        elif totals and self.tie_break == "first":
            node = best[0]
        elif totals and self.tie_break == "go-heap":
            node = names[twins.heap_winner(totals)]
        places = [self.order.index(name) for name in names]
        return Outcome(node, start, self.start, evaluated, places, totals, best)

    def fits(self, pod: Manifest, shape: Shape, name: str) -> bool:
        node, row = self.nodes[name], self.row(name)
        spec = node.get("spec", {})
        tolerations = pod["spec"].get("tolerations", ())
        if spec.get("unschedulable") and not tolerated(UNSCHEDULABLE, tolerations):
            return False
        hard = [taint for taint in spec.get("taints", ()) if taint["effect"] != "PreferNoSchedule"]
        if not all(tolerated(taint, tolerations) for taint in hard):
            return False
        if not twins.node_affinity_matches(row, shape, "") or twins.ports_conflict(row, shape):
            return False
        if needs_features(pod) - set(node["status"].get("declaredFeatures", ())):
            return False
        return not twins.fit_reasons(row, shape)[0]

    def totals(self, pod: Manifest, shape: Shape, names: list[str]) -> list[int]:
        tolerations = pod["spec"].get("tolerations", ())
        rows = [self.row(name) for name in names]
        soft = [
            sum(
                taint["effect"] == "PreferNoSchedule" and not tolerated(taint, tolerations)
                for taint in self.nodes[name].get("spec", {}).get("taints", ())
            )
            for name in names
        ]
        affine = [twins.node_affinity_score(row, shape, "") for row in rows]
        totals = []
        for at, row in enumerate(rows):
            scores = {
                "taints": 100 - 100 * soft[at] // max(soft) if max(soft) else 100,
                "affinity": 100 * affine[at] // max(affine) if max(affine) else 0,
                "fit": twins.fit_score(row, shape, [(CPU, 1), (MEMORY, 1)], "MR_LEAST_ALLOCATED"),
                "images": twins.image_locality(row, shape, list(self.sizes.values()), len(self.order)),
            }
            if shape.requests != (0, 0):
                scores["balanced"] = twins.balanced_allocation(row, shape, [CPU, MEMORY], self.difference)
            totals.append(sum(WEIGHTS[name] * score for name, score in scores.items()))
        return totals

    # ---- reading manifests

    def row(self, name: str) -> Row:
        if name not in self.rows:
            self.rows[name] = self.added_up(name)
        return self.rows[name]

    def added_up(self, name: str) -> Row:
        """A node and its pods, added up anew."""
        node, pods = self.nodes[name], self.pods[name]
        allocatable = node["status"]["allocatable"]
        usage = [
            used
            for column in (0, 1)
            for used in zip(*[requests(pod, bool(column)) for pod in pods], strict=True)
        ]
        cpu, memory, nonzero_cpu, nonzero_memory = [sum(used) for used in usage] or (0, 0, 0, 0)
        return Row(
            values=(
                amount(allocatable["cpu"], milli=True),
                amount(allocatable["memory"]),
                *(cpu, memory, nonzero_cpu, nonzero_memory),
            ),
            pods=len(pods),
            pods_max=amount(allocatable["pods"]),
            others=tuple(
                (amount(allocatable.get(name, "0")), sum(other_requests(pod)[name] for pod in pods))
                for name in OTHERS
            ),
            name=name,
            labels=node["metadata"].get("labels", {}),
            ports=tuple(port for pod in pods for port in host_ports(pod)),
            images=tuple(
                (self.images.index(image["names"][0]), self.holders[image["names"][0]])
                for image in node["status"].get("images", ())
            ),
        )

    def shape(self, pod: Manifest) -> Shape:
        spec = pod["spec"]
        affinity = spec.get("affinity", {}).get("nodeAffinity", {})
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        images = [container.get("image") for container in spec["containers"]]
        return Shape(
            requests=requests(pod, nonzero=False),
            score_requests=requests(pod, nonzero=True),
            others=tuple(enumerate(other_requests(pod).values())),
            ports=host_ports(pod),
            images=tuple(self.images.index(image) for image in images if image in self.sizes),
            image_containers=len(images),
            selector=tuple(
                Requirement(key, "MR_IN", (value,)) for key, value in spec.get("nodeSelector", {}).items()
            ),
            required=None if required is None else tuple(map(read_term, required["nodeSelectorTerms"])),
            preferred=tuple((term["weight"], read_term(term["preference"])) for term in preferred),
        )


def nodes_to_find(percentage: int, nodes: int) -> int:
    if nodes < 100:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, 5)
    return max(nodes * percentage // 100, 100)


def list_order(nodes: list[Manifest]) -> list[str]:
    """One node of each zone in turn, zones as first seen."""
    zones: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        labels = node["metadata"].get("labels", {})
        zone = tuple(labels.get(key, "") for key in ZONE_LABELS)
        zones.setdefault(zone, []).append(node["metadata"]["name"])
    rounds = range(max(map(len, zones.values())))
    return [names[at] for at in rounds for names in zones.values() if at < len(names)]


def in_reach(pod: Manifest, name: str) -> bool:
    """False where every required term names its nodes, and none this one (PreFilter)."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = [term.get("matchFields", ()) for term in required["nodeSelectorTerms"]]
    return not all(fields) or any(name in field["values"] for term in fields for field in term)


def tolerated(taint: Manifest, tolerations: list[Manifest]) -> bool:
    return any(
        toleration.get("effect", "") in ("", taint["effect"])
        and toleration.get("key", "") in ("", taint["key"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
        for toleration in tolerations
    )


def requests(pod: Manifest, nonzero: bool) -> tuple[int, int]:
    """cpu and memory of all containers; with defaults for those that request nothing."""
    cpu = memory = 0
    for container in pod["spec"]["containers"]:
        asked = container.get("resources", {}).get("requests", {})
        cpu += amount(asked.get("cpu", "100m" if nonzero else "0"), milli=True)
        memory += amount(asked.get("memory", "200Mi" if nonzero else "0"))
    return cpu, memory


def other_requests(pod: Manifest) -> dict[str, int]:
    asked = [container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]]
    return {name: sum(amount(each.get(name, "0")) for each in asked) for name in OTHERS}


def host_ports(pod: Manifest) -> tuple[twins.Port, ...]:
    return tuple(
        (port.get("hostIP", ANY_IP), port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
    )


def read_term(term: Manifest) -> Term:
    expressions = tuple(read_requirement(each) for each in term.get("matchExpressions", ()))
    fields = tuple(
        Requirement("", "MR_NAME_IN", tuple(each["values"])) for each in term.get("matchFields", ())
    )
    return expressions + fields


def read_requirement(expression: Manifest) -> Requirement:
    key, operator, values = expression["key"], expression["operator"], expression.get("values", [])
    ops = {"In": "MR_IN", "NotIn": "MR_NOT_IN", "Exists": "MR_EXISTS", "DoesNotExist": "MR_DOES_NOT_EXIST"}
    if operator in ops:
        return Requirement(key, ops[operator], tuple(values))
    return Requirement(key, f"MR_{operator.upper()}", number=int(values[0]))
