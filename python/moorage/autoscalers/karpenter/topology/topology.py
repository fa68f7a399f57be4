"""All topology groups of a pass: which a pod owns, and which count it.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topology.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from msgspec import Struct

from moorage.kube import Taint
from moorage.kube.model.node import HOSTNAME

from ..pods.pod_shape import Labelled, PodShape
from ..requirements.requirement import Requirement
from ..requirements.requirement_set import RequirementSet
from .counted_groups import CountedGroup, CountedGroups
from .topology_group import ANTI_AFFINITY, Ties, TopologyGroup

Asked = tuple[TopologyGroup, bool]
"""A group, and whether it counts the pod in question."""


class Host(NamedTuple):
    """A node or claim as topologies see it.

    Attributes
    ----------
    requirements : RequirementSet
        Without the name of the host.
    host : RequirementSet
        The name of the host alone.
    undefined : bool
        Whether well known labels can still become anything.
    """

    name: str
    taints: tuple[Taint, ...]
    requirements: RequirementSet
    host: RequirementSet
    undefined: bool

    @property
    def whole(self) -> RequirementSet:
        return self.requirements.meet(self.host)


class TopologyError(Struct, eq=False):
    """A topology that leaves a pod no domain; its counts are told as they are when the text is asked for."""

    group: TopologyGroup
    pods: Requirement
    nodes: Requirement

    def __str__(self) -> str:
        return (
            f"unsatisfiable topology constraint for {self.group.kind}, key={self.group.topology_key} "
            f"(counts = {self.group}, podDomains = {self.pods}, nodeDomains = {self.nodes}"
        )


class Topology:
    """The groups of a pass: those that pods own, and required anti-affinity seen from the pods that it keeps
    away.

    Parameters
    ----------
    excluded : set of str
        UIDs of pods that are being placed: they do not count where they run.
    gone : iterable of str
        Names of nodes that are taken to be removed.
    """

    def __init__(
        self,
        source: CountedGroups,
        ties: Ties,
        excluded: AbstractSet[str] = frozenset(),
        gone: Iterable[str] = (),
    ) -> None:
        self.ties = ties
        self._source, self._excluded, self._gone = source, excluded, gone
        self.own: dict[Hashable, TopologyGroup] = {}
        self.inverse = source.kept_away(excluded)
        self._owned: dict[str, Sequence[TopologyGroup]] = {}
        self._owned_inverse: dict[str, Sequence[TopologyGroup]] = {}
        self._groups: dict[PodShape, list[TopologyGroup]] = {}
        self._selected: dict[tuple[Labelled, bool], tuple[int, list[TopologyGroup]]] = {}

    def update(self, uid: str, shape: PodShape) -> None:
        """Make a pod the owner of the topologies of a shape, and of no others."""
        if shape.anti_affinity or (shape.preferred_anti_affinity and not self._source.ignores):
            groups = [
                self.inverse.setdefault(group.identity, group.begun({}, group.known, 0, []))
                for group in self._source.terms(shape)
            ]
            self._owned_inverse[uid] = list(dict.fromkeys(groups))
        owned = self._groups.get(shape)
        if owned is None:
            owned = self._groups[shape] = list(dict.fromkeys(map(self._taken_up, self._source.own(shape))))
        self._owned[uid] = owned

    def _taken_up(self, counted: CountedGroup) -> TopologyGroup:
        """The group like this one that is there; a new one begins with the pods that run."""
        identity = counted.group.identity
        if identity not in self.own:
            self.own[identity] = counted.begun(self._excluded, self._gone)
        return self.own[identity]

    # ---- pods ----------------------------------------------------------------------------------------------

    def narrow(self, uid: str, shape: PodShape, host: Host) -> RequirementSet | TopologyError | str:
        """The requirements of a host, without its name, that all topologies of a pod leave; or why none."""
        own = self._owned.get(uid, ())
        worst: TopologyError | None = None
        worst_is_own = False
        found = host.requirements
        for at, group in enumerate((*own, *self._selecting(shape.labelled, True))):
            domains = self._domains(shape, group, host)
            if isinstance(domains, TopologyError):
                is_own = at < len(own)
                if worst is None or ((is_own or not worst_is_own) and str(domains) < str(worst)):
                    worst, worst_is_own = domains, is_own
            elif domains is not None:
                found = found.meet(self._source.vocabulary.set_of([domains]))
        if worst is not None:
            return worst
        if found is not host.requirements:
            refusal = host.requirements.refusal(found, host.undefined)
            if refusal:
                return refusal
        return found

    def groups_of(self, uid: str, shape: PodShape) -> tuple[list[Asked], list[Asked]]:
        """The groups that decide where a pod may be: those on hosts, and the others.

        Those on hosts are left out if the pod names hosts itself.
        """
        groups = (*self._owned.get(uid, ()), *self._selecting(shape.labelled, True))
        on_hosts: list[Asked] = []
        others: list[Asked] = []
        for group in groups:
            asked = group, group.selects(shape.labelled)
            if not group.on_hosts:
                others.append(asked)
            elif HOSTNAME not in shape.strict_requirements.by_key:
                on_hosts.append(asked)
        return on_hosts, others

    def _domains(
        self, shape: PodShape, group: TopologyGroup, host: Host
    ) -> Requirement | TopologyError | None:
        """The domains that a group leaves; None for a host that it takes."""
        strict = shape.strict_requirements.by_key.get(group.topology_key) or group.key.exists
        selects = group.selects(shape.labelled)
        if group.on_hosts:
            named = host.host.by_key[HOSTNAME]
            return (
                None if group.takes_host(named.mask, strict, selects) else TopologyError(group, strict, named)
            )
        nodes = host.requirements.by_key.get(group.topology_key) or group.key.exists
        mask = group.domains(strict, nodes, selects, self.ties)
        return group.key.requirement(False, mask) if mask else TopologyError(group, strict, nodes)

    def _selecting(self, pods: Labelled, inverse: bool) -> list[TopologyGroup]:
        """The groups that select pods with these labels; new ones are asked once."""
        groups = self.inverse if inverse else self.own
        asked, found = self._selected.get((pods, inverse), (0, []))
        if asked < len(groups):
            found = found + [group for group in list(groups.values())[asked:] if group.selects(pods)]
            self._selected[pods, inverse] = (len(groups), found)
        return found

    def register_hosts(self, mask: int) -> None:
        """Make hosts known to the groups on hosts."""
        for groups in (self.own, self.inverse):
            for group in groups.values():
                if group.on_hosts:
                    group.register(mask)

    def record(self, uid: str, shape: PodShape, host: Host) -> None:
        """Count a pod that was placed on a host, in each group that it matters to."""
        for group in self._selecting(shape.labelled, False):
            nodes = group.node_filter
            if nodes is not None:
                seen = host.whole if nodes.names_host else host.requirements
                if not nodes.counts(host.taints, seen):
                    continue
            domains = self._of_host(group, host)
            if group.kind == ANTI_AFFINITY or domains.is_single:
                group.record(domains.mask)
        for group in self._owned_inverse.get(uid, ()):
            group.record(self._of_host(group, host).mask)

    def _of_host(self, group: TopologyGroup, host: Host) -> Requirement:
        return (host.host if group.on_hosts else host.requirements).get(group.topology_key)
