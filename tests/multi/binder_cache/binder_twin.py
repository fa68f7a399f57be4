"""What a BinderCache has to be, literally: pods in a dict, all else computed when it is asked for."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from tests.doors.kube import ledger_of, node_name_of, unit_key

from moorage.kube import Node, Pod, parse_milli, parse_value


class RefusedError(Exception):
    """The twin's error."""


@dataclass
class Entry:
    pod: Pod
    deadline: float | None = None
    """None for a confirmed pod; infinite for an assumed one that does not expire."""


@dataclass
class BinderTwin:
    """Methods as those of BinderCache, with the time as an argument."""

    ttl: float = 300.0
    pods: dict[str, Entry] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    markers: dict[str, tuple[str, float]] = field(default_factory=dict)

    def clone(self) -> BinderTwin:
        out = copy.copy(self)
        out.pods = {uid: copy.copy(entry) for uid, entry in self.pods.items()}
        out.nodes, out.markers = dict(self.nodes), dict(self.markers)
        return out

    # ---- what the cache is asked to do

    def assume_pod(self, pod: Pod, now: float) -> None:
        if pod.metadata.uid in self.pods:
            raise RefusedError
        deadline = now + 900.0 if pod.spec.node_name else float("inf")
        self.pods[pod.metadata.uid] = Entry(pod, deadline)

    def finish_binding(self, pod: Pod, now: float) -> None:
        entry = self.pods.get(pod.metadata.uid)
        if entry is not None and entry.deadline is not None and entry.pod.spec.node_name:
            entry.deadline = now + self.ttl

    def forget_pod(self, pod: Pod) -> None:
        entry = self.pods.get(pod.metadata.uid)
        if entry is None or entry.deadline is None:
            return
        if node_name_of(entry.pod) != node_name_of(pod):
            raise RefusedError
        del self.pods[pod.metadata.uid]

    def add_pod(self, pod: Pod) -> None:
        if not pod.spec.node_name:
            return
        entry = self.pods.get(pod.metadata.uid)
        if entry is not None and entry.deadline is None:
            raise RefusedError
        self.pods[pod.metadata.uid] = Entry(pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        entry = self.pods.get(old.metadata.uid)
        if not new.spec.node_name:
            if entry is not None and (old.spec.node_name or entry.deadline is None):
                self.remove(old)
            return
        if old.metadata.uid != new.metadata.uid:
            other = self.pods.get(new.metadata.uid)
            if other is not None and other.deadline is None:
                raise RefusedError
            self.remove(old)
        self.pods[new.metadata.uid] = Entry(new)

    def delete_pod(self, pod: Pod) -> None:
        if pod.metadata.uid not in self.pods and pod.spec.node_name:
            raise RefusedError
        self.remove(pod)

    def remove(self, pod: Pod) -> None:
        self.pods.pop(pod.metadata.uid, None)
        self.markers.pop(pod.metadata.uid, None)

    def mark(self, pod: Pod, preemptor: str, now: float) -> None:
        entry = self.pods.get(pod.metadata.uid)
        if entry is None or entry.deadline is not None or node_name_of(entry.pod) != node_name_of(pod):
            raise RefusedError
        self.markers[pod.metadata.uid] = preemptor, now + 600.0

    def unmark(self, uid: str, preemptor: str) -> None:
        marker = self.markers.get(uid)
        if marker is not None and marker[0] != preemptor:
            raise RefusedError
        self.markers.pop(uid, None)

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = node

    def delete_node(self, node: Node) -> None:
        if node.name not in self.nodes:
            raise RefusedError
        del self.nodes[node.name]

    def clean(self, now: float) -> None:
        for uid, entry in list(self.pods.items()):
            if entry.deadline is not None and entry.deadline < now:
                del self.pods[uid]
        for uid, (_, deadline) in list(self.markers.items()):
            if deadline < now:
                del self.markers[uid]

    def relist(self, nodes: list[Node], pods: list[Pod]) -> None:
        self.nodes = {node.name: node for node in nodes}
        listed = {pod.metadata.uid: pod for pod in pods}
        for entry in list(self.pods.values()):
            if entry.pod.metadata.uid not in listed:
                self.remove(entry.pod)
        for pod in listed.values():
            self.update_pod(pod, pod)

    # ---- what follows from that

    def assumed(self) -> list[str]:
        return sorted(uid for uid, entry in self.pods.items() if entry.deadline is not None)

    def units(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for uid in sorted(self.pods):
            out.setdefault(unit_key(self.pods[uid].pod), []).append(uid)
        return out

    def usage(self) -> dict[str, tuple[list[str], dict[int, tuple[int, int, int]]]]:
        """By node: its pods, and per ledger the cpu and memory that they request and the example resource."""
        out: dict[str, tuple[list[str], dict[int, tuple[int, int, int]]]] = {
            name: ([], {0: (0, 0, 0), 1: (0, 0, 0)}) for name in self.nodes
        }
        for uid in sorted(self.pods):
            pod = self.pods[uid].pod
            name = node_name_of(pod)
            if not name:
                continue
            pods, ledgers = out.setdefault(name, ([], {0: (0, 0, 0), 1: (0, 0, 0)}))
            pods.append(uid)
            requests = pod.spec.containers[0].resources.requests
            more = (
                parse_milli(requests.get("cpu", 0)),
                parse_value(requests.get("memory", 0)),
                parse_value(requests.get("example.com/x", 0)),
            )
            before = ledgers[ledger_of(pod)]
            ledgers[ledger_of(pod)] = (before[0] + more[0], before[1] + more[1], before[2] + more[2])
        return out

    def fits(self, pod: Pod, name: str, without: list[Pod]) -> list[str]:
        """Reasons, for a node that is there."""
        node = self.nodes[name]
        pods, _ = self.usage()[name]
        gone = {one.metadata.uid for one in without} & set(pods)
        other = self.clone()
        for uid in gone:
            del other.pods[uid]
        used = other.usage()[name][1][ledger_of(pod)]
        allocatable = node.status.allocatable if ledger_of(pod) == 0 else {}
        reasons = []
        if len(pods) - len(gone) + 1 > parse_value(allocatable.get("pods", 0)):
            reasons.append("Too many pods")
        requests = pod.spec.containers[0].resources.requests
        asked = [parse_milli(requests.get("cpu", 0)), parse_value(requests.get("memory", 0))]
        asked.append(parse_value(requests.get("example.com/x", 0)))
        has = [parse_milli(allocatable.get("cpu", 0)), parse_value(allocatable.get("memory", 0))]
        has.append(parse_value(allocatable.get("example.com/x", 0)))
        if any(asked):
            for at, what in enumerate(("cpu", "memory", "example.com/x")):
                if (at < 2 or asked[at]) and has[at] < used[at] + asked[at]:
                    reasons.append(f"Insufficient {what}")
        return reasons
