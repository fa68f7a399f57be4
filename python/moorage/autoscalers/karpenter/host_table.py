"""Nodes and claims as columns: which of them could take a pod, without asking one by one.

What the columns refuse would refuse the pod for certain; what they leave is asked. They compare the most that
a host has left of each resource, the requirements that many hosts share, and the pods that topologies count
on each. For speed alone (`tests/house/special_paths.toml`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from moorage.kube import Toleration
from moorage.kube.model.node import HOSTNAME

from .claims.claim import Candidate
from .requirements.requirement import Requirement
from .requirements.requirement_set import RequirementSet
from .topology.topology import Host, Topology
from .topology.topology_group import Ties, TopologyGroup

RESOURCES = ("cpu", "memory", "pods")
_SLACK = 1e-12
"""Amounts are compared as floats, with so much in favour of the pod."""

T = TypeVar("T")
Flags = npt.NDArray[np.bool_]


class HostTable(Generic[T]):
    """Hosts by row, in the order in which they were added; what several have in common (taints and
    requirements) is a kind."""

    def __init__(self) -> None:
        self.hosts: list[T] = []
        self._room = np.zeros((len(RESOURCES), 16))
        self._kind = np.zeros(16, np.int32)
        self._place = np.zeros(16, np.int64)
        self._kinds: list[Host] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._agreed: dict[tuple[RequirementSet, tuple[Toleration, ...]], list[bool]] = {}
        self._values: dict[str, tuple[dict[Requirement, int], list[int]]] = {}

    def add(self, host: T, seen: Host, room: Mapping[str, int]) -> int:
        """Add a host; its row.

        Parameters
        ----------
        room : mapping of str to int
            The most that a pod may request, in units of 10**-9.
        """
        row = len(self.hosts)
        if row == len(self._kind):
            self._room = np.concatenate([self._room, np.zeros_like(self._room)], axis=1)
            self._kind = np.concatenate([self._kind, np.zeros_like(self._kind)])
            self._place = np.concatenate([self._place, np.zeros_like(self._place)])
        self.hosts.append(host)
        self._place[row] = seen.host.by_key[HOSTNAME].mask.bit_length() - 1
        self._kind[row] = self._kind_of(seen)
        self._set_room(row, room)
        return row

    def fork(self, rows: Sequence[int]) -> HostTable[T]:
        """The table for another pass, in which the hosts of some rows take no pod."""
        found = copy(self)
        found.hosts = [*self.hosts]
        found._room, found._kind = self._room.copy(), self._kind.copy()
        for row in rows:
            found._room[:, row] = -1.0
        return found

    def update(self, row: int, seen: Host, room: Mapping[str, int]) -> None:
        """Say what has become of a host."""
        self._kind[row] = self._kind_of(seen)
        self._set_room(row, room)

    def _set_room(self, row: int, room: Mapping[str, int]) -> None:
        for at, name in enumerate(RESOURCES):
            left = float(room.get(name, 0))
            self._room[at, row] = left + abs(left) * _SLACK

    def _kind_of(self, seen: Host) -> int:
        key = (seen.requirements, seen.taints)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._kinds)
            self._kinds.append(seen)
        return found

    def possible(self, candidate: Candidate, topology: Topology) -> Flags:
        """By row, whether a host could take a pod."""
        size, amounts = len(self.hosts), candidate.shape.amounts
        found: Flags = self._room[0, :size] >= amounts.get(RESOURCES[0], 0)
        for at in range(1, len(RESOURCES)):
            found &= self._room[at, :size] >= amounts.get(RESOURCES[at], 0)
        on_hosts, others = topology.groups_of(candidate.uid, candidate.shape)
        found &= self._agreeing(candidate, others, topology.ties)[self._kind[:size]]
        if on_hosts:
            allowed = -1
            for group, selects in on_hosts:
                allowed &= group.allowed_hosts(selects)
            found &= _flags(allowed, self._place[:size])
        return found

    def _agreeing(
        self, candidate: Candidate, groups: Sequence[tuple[TopologyGroup, bool]], ties: Ties
    ) -> Flags:
        """By kind, whether taints, requirements, and topologies that are not about hosts let a pod in."""
        shape = candidate.shape
        known = self._agreed.setdefault((shape.requirements, shape.tolerations), [])
        for kind in self._kinds[len(known) :]:
            known.append(self._agrees(candidate, kind))
        found = np.array(known, np.bool_)
        for group, selects in groups:
            key = group.topology_key
            values, value_of_kind = self._values_of(group)
            pods = shape.strict_requirements.by_key.get(key) or group.key.exists
            answers = [
                bool(group.domains(pods, self._with_preference(candidate, key, nodes), selects, ties))
                for nodes in values
            ]
            found &= np.array(answers, np.bool_)[value_of_kind]
        return found

    def _values_of(self, group: TopologyGroup) -> tuple[dict[Requirement, int], list[int]]:
        """What kinds have of the label of a group, each value once, and the number of it by kind."""
        values, value_of_kind = self._values.setdefault(group.topology_key, ({}, []))
        for kind in self._kinds[len(value_of_kind) :]:
            own = kind.requirements.by_key.get(group.topology_key) or group.key.exists
            value_of_kind.append(values.setdefault(own, len(values)))
        return values, value_of_kind

    @staticmethod
    def _with_preference(candidate: Candidate, key: str, nodes: Requirement) -> Requirement:
        """What a node would have to have of a label with the pod."""
        own = candidate.shape.requirements.by_key.get(key)
        return nodes if own is None else nodes.meet(own)

    @staticmethod
    def _agrees(candidate: Candidate, host: Host) -> bool:
        shape = candidate.shape
        if shape.taint_refusal(host.taints):
            return False
        return shape.names_host or not host.requirements.refusal(shape.requirements, host.undefined)


def _flags(mask: int, places: npt.NDArray[np.int64]) -> Flags:
    """Whether the bits at places are set."""
    if not len(places):
        return np.zeros(0, np.bool_)
    size = int(places.max()) // 8 + 1
    mask &= (1 << size * 8) - 1
    as_bytes = np.frombuffer(mask.to_bytes(size, "little"), np.uint8)
    return np.unpackbits(as_bytes, bitorder="little")[places].view(np.bool_)
