"""SelectVictimsOnNode in plain Python, over a few rules of filters; slow and obvious."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.make import ZONE

from moorage.kube import Node, Pod, PodDisruptionBudget


def cpu(one: Pod) -> int:
    return sum(int(c.resources.requests.get("cpu", 0)) for c in one.spec.containers)


def ports(one: Pod) -> set[int]:
    return {port.host_port for c in one.spec.containers for port in c.ports if port.host_port}


def matches(selector: dict[str, str], one: Pod) -> bool:
    return selector.items() <= one.metadata.labels.items()


def priority(one: Pod) -> int:
    return one.spec.priority or 0


def importance(one: Pod) -> tuple[int, str]:
    return -priority(one), one.status.start_time or "9"


@dataclass
class Twin:
    """All nodes and pods, and a pod that wants a place.

    Attributes
    ----------
    spread : dict or None
        The selector of a constraint of maxSkew 1 over zones, if the pod has one.
    apart : dict or None
        The selector of the pods in whose zone it must not be.
    """

    nodes: list[Node]
    pods: dict[str, list[Pod]]
    asked: Pod
    spread: dict[str, str] | None
    apart: dict[str, str] | None
    nominated: dict[str, list[Pod]]

    def zone(self, name: str) -> str:
        return next(one.metadata.labels[ZONE] for one in self.nodes if one.name == name)

    def begin(self, name: str) -> None:
        """What PreFilter counts; a terminating pod, and any with an empty selector, is left out of spread."""
        self.name, self.here = name, list(self.pods[name])
        self.used_ports = {port for one in self.here for port in ports(one)}
        self.spreading = Counter({self.zone(one.name): 0 for one in self.nodes})
        self.near: Counter[str] = Counter()
        for node, pods in self.pods.items():
            for one in pods:
                if self.spread and matches(self.spread, one) and not one.metadata.deletion_timestamp:
                    self.spreading[self.zone(node)] += 1
                if self.apart is not None and matches(self.apart, one):
                    self.near[self.zone(node)] += 1

    def change(self, one: Pod, sign: int, node: str = "") -> None:
        """A pod comes (1) to the node in question, or to another one, or goes (-1)."""
        zone = self.zone(node or self.name)
        if node not in ("", self.name):
            pass  # nobody asks about that one
        elif sign > 0:
            self.here.append(one)
            self.used_ports |= ports(one)
        else:
            self.here = [other for other in self.here if other.metadata.uid != one.metadata.uid]
            self.used_ports -= ports(one)
        if self.spread is not None and matches(self.spread, one):
            self.spreading[zone] += sign
        if self.apart is not None and matches(self.apart, one):
            self.near[zone] += sign

    def passes(self) -> bool:
        zone = self.zone(self.name)
        if ports(self.asked) & self.used_ports or len(self.here) >= 5:
            return False
        if cpu(self.asked) and sum(map(cpu, self.here)) + cpu(self.asked) > 4:
            return False
        if self.spread is not None:
            skew = self.spreading[zone] + matches(self.spread, self.asked) - min(self.spreading.values())
            if skew > 1:
                return False
        return not self.near[zone] > 0

    def fits(self) -> bool:
        """With the pods that are nominated to the node and go before, and without."""
        others = [one for one in self.nominated.get(self.name, []) if priority(one) >= priority(self.asked)]
        if not others:
            return self.passes()
        kept = list(self.here), set(self.used_ports), self.spreading.copy(), self.near.copy()
        for one in others:
            self.change(one, 1)
        fits = self.passes()
        self.here, self.used_ports, self.spreading, self.near = kept
        return fits and self.passes()

    def select(self, name: str, budgets: Iterable[PodDisruptionBudget]) -> tuple[list[str], int] | None:
        """Names of the victims on a node, and how many a budget protects; None where they do not help."""
        self.begin(name)
        lower = [one for one in self.pods[name] if priority(one) < priority(self.asked)]
        for one in lower:
            self.change(one, -1)
        if not lower or not self.fits():
            return None
        lower.sort(key=importance)
        protected = self.protected(lower, list(budgets))
        gone, violations = list[Pod](), 0
        for group, counts in ((protected, 1), ([one for one in lower if one not in protected], 0)):
            for one in group:
                self.change(one, 1)
                if not self.fits():
                    self.change(one, -1)
                    gone.append(one)
                    violations += counts
        return [one.name for one in sorted(gone, key=importance)], violations

    @staticmethod
    def protected(pods: Sequence[Pod], budgets: list[PodDisruptionBudget]) -> list[Pod]:
        left = [one.status.disruptions_allowed for one in budgets]
        out = []
        for one in pods:
            mine = [
                at
                for at, budget in enumerate(budgets)
                if one.metadata.labels and matches(budget.spec.selector.match_labels, one)  # type: ignore[union-attr]
            ]
            for at in mine:
                left[at] -= 1
            if any(left[at] < 0 for at in mine):
                out.append(one)
        return out
