"""Which domains of a topology get the pods of a workload (Kueue v0.17,
pkg/cache/scheduler/tas_flavor_snapshot.go).

A `TopologySnapshot` has the domains of a flavor. A placement counts what fits into each domain, from the
leaves up; chooses the domains of a level; and goes down from there, level by level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from moorage._core.base.selectors import NodeSelectorMatcher, find_intolerable_taint
from moorage.kube.model.kueue import PodSet, ResourceFlavor, Topology, TopologyRequest
from moorage.kube.model.node import HOSTNAME, REJECTING_EFFECTS, Node
from moorage.kube.model.pod import PodSpec, Toleration
from moorage.lazy import NamedTuple

from .balanced_placement import balanced_domains
from .quota import Undo
from .settings import Settings
from .topology_domains import (
    FITTING,
    Domain,
    Leaf,
    NoPlacementError,
    PlacementSearch,
    best_fit,
    shared_out,
    sum_up,
)
from .whole_amounts import PODS, Amounts, amounts, count_in, plus, quotient


class PlacedPods(NamedTuple):
    """Pods in a domain.

    Attributes
    ----------
    values : tuple of str
        The names of the domain, from the top level down; of a node its host name alone.
    """

    values: tuple[str, ...]
    pods: int


class DomainUsage(NamedTuple):
    """What some pods use of a domain."""

    values: tuple[str, ...]
    per_pod: Amounts
    pods: int


@dataclass(frozen=True)
class TopologyDemand:
    """The pods of a set that ask for a topology.

    Attributes
    ----------
    spec : PodSpec
        With what admission checks have added.
    is_implied : bool
        It asks because all flavors of its queue have a topology.
    """

    pod_set: PodSet
    spec: PodSpec
    per_pod: Amounts
    count: int
    flavor: str
    is_implied: bool

    @property
    def request(self) -> TopologyRequest:
        """What it asks for; nothing if that is implied."""
        return self.pod_set.topology_request or TopologyRequest()

    @property
    def group(self) -> str | None:
        """The group with which it is placed together."""
        return self.request.pod_set_group_name

    @cached_property
    def is_unconstrained(self) -> bool:
        """Whether its pods may be in several domains."""
        return bool(self.request.unconstrained) or self.is_implied or self.request.is_slices_only


class TopologySnapshot:
    """The domains of a flavor.

    Parameters
    ----------
    nodes : iterable of Node
        Those of the cluster by name; the others of the flavor are left out.
    used : mapping of str to Amounts
        What pods outside of topologies use, by node.
    """

    def __init__(
        self,
        flavor: ResourceFlavor,
        topology: Topology,
        nodes: Iterable[Node],
        used: Mapping[str, Amounts],
        settings: Settings,
    ) -> None:
        self.name = topology.name
        self._settings = settings
        self.levels = [level.node_label for level in topology.spec.levels]
        self._tolerations: tuple[Toleration, ...] = flavor.spec.tolerations
        self._by_host = bool(self.levels) and self.levels[-1] == HOSTNAME
        self._leaves: dict[tuple[str, ...], Leaf] = {}
        self._labels = flavor.spec.node_labels.items()
        for node in nodes:
            if self.covers(node):
                values = tuple([node.metadata.labels[level] for level in self.levels])
                key = values[-1:] if self._by_host else values
                leaf = self._leaves.get(key)
                if leaf is None:
                    leaf = self._leaves[key] = Leaf(values, node if self._by_host else None)
                leaf.free = plus(leaf.free, amounts(node.status.allocatable))
                leaf.free = plus(leaf.free, used.get(node.name, {}), -1)
        self._domains: list[dict[tuple[str, ...], Domain]] = [{} for _ in self.levels]
        for leaf in self._leaves.values():
            self._enter(leaf)

    def covers(self, node: Node) -> bool:
        """Whether the labels of a node make it one of the flavor's."""
        labels = node.metadata.labels
        return self._labels <= labels.items() and all(level in labels for level in self.levels)

    def _enter(self, leaf: Leaf) -> None:
        child: Domain = leaf
        self._domains[-1][leaf.values] = leaf
        for level in range(len(self.levels) - 2, -1, -1):
            values = child.values[:-1]
            parent = self._domains[level].get(values)
            is_new = parent is None
            if parent is None:
                parent = self._domains[level][values] = Domain(values)
            child.parent = parent
            parent.children.append(child)
            if not is_new:
                return
            child = parent

    # ---- usage

    def use(self, usages: Iterable[DomainUsage], times: int, changes: Undo) -> None:
        """Add what pods use, or remove it (-1); domains that are gone are passed over."""
        for usage in usages:
            leaf = self._leaves.get(usage.values)
            if leaf is not None:
                changes.append((leaf, leaf.usage))
                used = plus(leaf.usage, usage.per_pod, usage.pods * times)
                leaf.usage = plus(used, {PODS: usage.pods * times})

    def fits(self, usages: Iterable[DomainUsage]) -> bool:
        """Whether each of some usages fits, by itself."""
        for usage in usages:
            leaf = self._leaves.get(usage.values)
            if leaf is None or count_in(usage.per_pod, plus(leaf.free, leaf.usage, -1))[0] < usage.pods:
                return False
        return True

    def usage_by_domain(self) -> dict[str, Amounts]:
        """Return what pods with topologies use, by domain."""
        return {",".join(key): leaf.usage for key, leaf in self._leaves.items() if any(leaf.usage.values())}

    # ---- placements

    def has_levels(self, request: TopologyRequest | None) -> bool:
        """Whether it has the levels that a request names."""
        key = self._level_of(request) if request is not None else None
        slices = (request.slice_level if request is not None else None) or self.levels[-1]
        return key in self.levels and slices in self.levels

    def _level_of(self, request: TopologyRequest) -> str | None:
        if request.required is not None:
            return request.required
        if request.preferred is not None:
            return request.preferred
        if request.is_slices_only:
            return self.levels[0]
        return self.levels[-1] if request.unconstrained else None

    def place_all(
        self, demands: Sequence[TopologyDemand], is_empty: bool = False
    ) -> dict[str, list[PlacedPods] | str]:
        """Place sets of pods one after the other, those of a group together.

        Parameters
        ----------
        is_empty : bool
            As if nothing with a topology were there.

        Returns
        -------
        dict of str to list of PlacedPods, or str
            By pod set; why it has no place. After the first that has none the others are not tried.
        """
        groups: dict[str, list[TopologyDemand]] = {}
        for at, demand in enumerate(demands):
            groups.setdefault(str(at) if demand.group is None else demand.group, []).append(demand)
        assumed: dict[tuple[str, ...], Amounts] = {}
        placed: dict[str, list[PlacedPods] | str] = {}
        for group in groups.values():
            workers, leader = group[0], group[1] if len(group) > 1 else None
            if leader is not None and leader.count > workers.count:
                workers, leader = leader, workers
            try:
                of_group = self._place(workers, leader, assumed, is_empty)
            except NoPlacementError as error:
                return placed | {demand.pod_set.name: str(error) for demand in group}
            placed |= of_group
            for demand in group:
                for values, pods in of_group[demand.pod_set.name]:
                    assumed[values] = plus(assumed.get(values, {}), demand.per_pod, pods)
        return placed

    def _place(
        self,
        workers: TopologyDemand,
        leader: TopologyDemand | None,
        assumed: Mapping[tuple[str, ...], Amounts],
        is_empty: bool,
    ) -> dict[str, list[PlacedPods]]:
        search = self._search(workers, leader)
        self._count(search, workers, leader, assumed, is_empty)
        balanced = None
        if self._settings.gate("TASBalancedPlacement") and not (
            search.is_required or search.is_unconstrained
        ):
            balanced = balanced_domains(search, self._domains)
        at, domains = self._at_level(search, search.level) if balanced is None else balanced
        domains = shared_out(search, domains, search.count, search.leaders, search.size, True)
        while at < min(len(self.levels) - 1, search.slice_level) and balanced is None:
            lower = search.sorted([child for domain in domains for child in domain.children])
            domains = shared_out(search, lower, search.count, search.leaders, search.size, True)
            at += 1
        while at < len(self.levels) - 1:
            size = search.size if at < search.slice_level else 1
            chosen: list[Domain] = []
            for domain in domains:
                lower = search.sorted(domain.children)
                if size > 1:
                    for child in lower:
                        child.slices = quotient(child.pods, size)
                        child.slices_beside = quotient(child.pods_beside, size)
                chosen += shared_out(search, lower, domain.pods, domain.leaders, size, size > 1)
            domains = chosen
            at += 1
        of_workers = [(each, each.pods) for each in domains if leader is None or each.pods > 0]
        placed = {workers.pod_set.name: self._told(of_workers)}
        if leader is not None:
            placed[leader.pod_set.name] = self._told([(each, each.leaders) for each in domains])
        return placed

    def _told(self, domains: Iterable[tuple[Domain, int]]) -> list[PlacedPods]:
        begin = len(self.levels) - 1 if self._by_host else 0
        return [
            PlacedPods(each.values[begin:], count)
            for each, count in sorted(domains, key=lambda pair: pair[0].values)
            if count
        ]

    def _search(self, workers: TopologyDemand, leader: TopologyDemand | None) -> PlacementSearch:
        request = workers.request
        size = 1
        if request.slice_level is not None:
            if request.pod_set_slice_size is None:
                raise NoPlacementError("slice topology requested, but slice size not provided")
            size = request.pod_set_slice_size
        key = self._level_of(request) or (self.levels[-1] if workers.is_implied else None)
        slice_key = request.slice_level or self.levels[-1]
        if key is None:
            raise NoPlacementError("topology level not specified")
        if key not in self.levels:
            raise NoPlacementError(f"no requested topology level: {key}")
        if slice_key not in self.levels:
            raise NoPlacementError(f"no requested topology level for slices: {slice_key}")
        level, slice_level = self.levels.index(key), self.levels.index(slice_key)
        if level > slice_level:
            raise NoPlacementError(f"podset slice topology {slice_key} is above the podset topology {key}")
        return PlacementSearch(
            count=workers.count,
            leaders=int(leader is not None),
            size=size,
            level=level,
            slice_level=slice_level,
            is_required=request.required is not None,
            is_unconstrained=workers.is_unconstrained,
            fewest_first=workers.is_unconstrained and self._settings.gate("TASProfileMixed"),
        )

    # ---- what fits

    def _count(
        self,
        search: PlacementSearch,
        workers: TopologyDemand,
        leader: TopologyDemand | None,
        assumed: Mapping[tuple[str, ...], Amounts],
        is_empty: bool,
    ) -> None:
        """Count what fits into each domain."""
        for level in self._domains:
            for domain in level.values():
                domain.clear()
        request = plus(workers.per_pod, {PODS: 1})
        of_leader = plus(leader.per_pod, {PODS: 1}) if leader is not None else None
        refusal = self._refusals(workers.spec)
        for key, leaf in self._leaves.items():
            search.excluded.total += 1
            if leaf.node is not None and (reason := refusal(leaf.node)):
                search.excluded.reasons[reason] += 1
                continue
            free = leaf.free if is_empty else plus(leaf.free, leaf.usage, -1)
            free = plus(free, assumed.get(key, {}), -1)
            leaf.pods, limiting = count_in(request, free)
            if not leaf.pods and limiting:
                search.excluded.reasons[f'resource "{limiting}"'] += 1
            if of_leader is not None and count_in(of_leader, free)[0] > 0:
                leaf.leaders = 1
                free = plus(free, of_leader, -1)
            leaf.pods_beside = count_in(request, free)[0]
        for root in self._domains[0].values() if self._domains else ():
            sum_up(root, search.size, search.slice_level, 0)

    def _refusals(self, spec: PodSpec) -> Callable[[Node], str]:
        """Return what tells why a node is none for pods."""
        tolerations = (*spec.tolerations, *self._tolerations)
        selector = (spec.node_selector or {}).items()
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        matcher = NodeSelectorMatcher(required) if required is not None else None

        def refusal(node: Node) -> str:
            taint = find_intolerable_taint(node.spec.taints, tolerations, REJECTING_EFFECTS, True)
            if taint is not None:
                return f'taint "{taint.text}"'
            if not selector <= node.metadata.labels.items():
                return "nodeSelector"
            return "affinity" if matcher is not None and not matcher.matches(node) else ""

        return refusal

    def _at_level(self, search: PlacementSearch, level: int) -> tuple[int, list[Domain]]:
        """Return the domains of a level, or of one above it, that hold all pods, and the level."""
        domains = search.sorted_beside(self._domains[level].values())
        if not domains:
            raise NoPlacementError(f"no topology domains at level: {self.levels[level]}")
        slices, top = search.count // search.size, domains[0]
        if search.fewest_first:
            for each in domains:
                if each.slices >= slices:
                    return level, [each]
            if search.is_required:
                raise self._lacking(search, domains[-1].pods)
        elif top.slices_beside >= slices and top.leaders >= search.leaders:
            top = best_fit(domains, slices, FITTING[search.leaders > 0, True])
        if top.slices_beside >= slices and top.leaders >= search.leaders:
            return level, [top]
        if search.is_required:
            raise self._lacking(search, top.slices)
        if level > 0 and not search.is_unconstrained:
            return self._at_level(search, level - 1)
        return level, self._several(search, domains, slices)

    def _several(self, search: PlacementSearch, domains: list[Domain], slices: int) -> list[Domain]:
        """Return the first of some domains that hold all pods together; those with the leader come first."""
        chosen: list[Domain] = []
        left, at = search.leaders, 0
        while left > 0 and at < len(domains) and domains[at].leaders > 0:
            domain = domains[at]
            if not search.fewest_first and domain.slices_beside >= slices:
                domain = best_fit(domains[at:], slices, FITTING[True, True])
            chosen.append(domain)
            left -= domain.leaders
            slices -= domain.slices_beside
            at += 1
        if left > 0:
            raise self._lacking(search, search.leaders - left)
        domains = search.sorted(domains[at:])
        for at, each in enumerate(domains):
            if slices <= 0:
                break
            domain = each
            if not search.fewest_first and each.slices >= slices:
                domain = best_fit(domains[at:], slices, FITTING[False, True])
            chosen.append(domain)
            slices -= domain.slices
        if slices > 0:
            raise self._lacking(search, search.count // search.size - slices)
        return chosen

    def _lacking(self, search: PlacementSearch, fitting: int) -> NoPlacementError:
        unit, wanted = "pod" if search.size == 1 else "slice", search.count // search.size
        how_many = f"allows to fit only {fitting} out of" if fitting else "doesn't allow to fit any of"
        text = f'topology "{self.name}" {how_many} {wanted} {unit}(s){search.excluded.text()}'
        return NoPlacementError(text)
