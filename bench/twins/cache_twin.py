"""A cache of plain dictionaries and objects: what the same bookkeeping costs without this engine."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from moorage._core.state.zone_tree import zone_key
from moorage.kube import Node, Pod

Amounts = tuple[int, int]


@dataclass
class TwinInfo:
    """A node with its pods and what they request."""

    node: Node | None
    pods: list[Pod] = field(default_factory=list)
    cpu: int = 0
    memory: int = 0
    generation: int = 0

    def clone(self) -> TwinInfo:
        return TwinInfo(self.node, self.pods.copy(), self.cpu, self.memory, self.generation)


class CacheTwin:
    """`requests` gives the cpu and memory of a pod by its UID, so that nothing is parsed here."""

    def __init__(self, requests: dict[str, Amounts]) -> None:
        self.requests = requests
        self.infos: dict[str, TwinInfo] = {}
        self.pods: dict[str, Pod] = {}
        self.assumed: dict[str, float | None] = {}
        self.generation = 0
        self.dirty: dict[str, None] = {}

    def add_node(self, node: Node) -> None:
        self.infos[node.metadata.name] = TwinInfo(node)
        self.dirty[node.metadata.name] = None

    def _account(self, pod: Pod, sign: int) -> TwinInfo:
        name = pod.spec.node_name
        info = self.infos[name]
        cpu, memory = self.requests[pod.metadata.uid]
        info.cpu += sign * cpu
        info.memory += sign * memory
        self.generation += 1
        info.generation = self.generation
        self.dirty[name] = None
        return info

    def assume_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if uid in self.pods:
            raise KeyError(uid)
        self._account(pod, 1).pods.append(pod)
        self.pods[uid] = pod
        self.assumed[uid] = None

    def finish_binding(self, pod: Pod, deadline: float) -> None:
        if pod.metadata.uid in self.assumed:
            self.assumed[pod.metadata.uid] = deadline

    def forget_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        del self.assumed[uid]
        pods = self._account(self.pods.pop(uid), -1).pods
        at = next(at for at, held in enumerate(pods) if held.metadata.uid == uid)
        pods[at] = pods[-1]
        pods.pop()

    def add_pod(self, pod: Pod) -> None:
        self.forget_pod(pod)
        self.assume_pod(pod)
        del self.assumed[pod.metadata.uid]

    def expire(self, now: float) -> int:
        late = [uid for uid, deadline in self.assumed.items() if deadline is not None and deadline < now]
        for uid in late:
            self.forget_pod(self.pods[uid])
        return len(late)

    def update(self, snapshot: dict[str, TwinInfo]) -> None:
        """Bring a snapshot up to date."""
        for name in self.dirty:
            snapshot[name] = self.infos[name].clone()
        self.dirty.clear()

    def fork(self) -> CacheTwin:
        out = copy.copy(self)
        out.infos = {name: info.clone() for name, info in self.infos.items()}
        out.pods, out.assumed, out.dirty = self.pods.copy(), self.assumed.copy(), self.dirty.copy()
        return out

    def total(self) -> Amounts:
        """What all pods request."""
        infos = self.infos.values()
        return sum([info.cpu for info in infos]), sum([info.memory for info in infos])


class TreeTwin:
    """A node tree of dictionaries and lists, behind a lock."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.lock = threading.RLock()
        self.arrays: dict[str, list[str]] = {}
        for node in nodes:
            self.arrays.setdefault(zone_key(node.metadata.labels), []).append(node.metadata.name)
        self.zones = list(self.arrays)
        self.reset()

    def reset(self) -> None:
        self.last_index = dict.fromkeys(self.arrays, 0)
        self.zone_index = 0

    def next(self) -> str:
        with self.lock:
            exhausted = 0
            while self.zones:
                if self.zone_index >= len(self.zones):
                    self.zone_index = 0
                zone = self.zones[self.zone_index]
                self.zone_index += 1
                at, names = self.last_index[zone], self.arrays[zone]
                if at < len(names):
                    self.last_index[zone] = at + 1
                    return names[at]
                exhausted += 1
                if exhausted >= len(self.zones):
                    self.reset()
            return ""

    def list(self) -> list[str]:
        with self.lock:
            depth = max(map(len, self.arrays.values()), default=0)
            return [names[at] for at in range(depth) for names in self.arrays.values() if at < len(names)]
