"""New nodes that place a pod: copies of nodes, in their own places or where the pod asks for one."""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice, product
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.selectors import pod_matches_node_selector
from moorage._core.state.pod_spec import pinned_node
from moorage.cluster.amounts import readable
from moorage.cluster.helpful_changes import HelpfulChange, Kind, ObjectEdit, put
from moorage.cluster.played_changes import make
from moorage.cluster.requirements import (
    POD_TERMS,
    hard_spreads,
    label_requirements,
    pod_terms,
    required_terms,
)
from moorage.kube import Node, NodeSelector, NodeSelectorMatcher, NodeSelectorRequirement, NodeSelectorTerm
from moorage.kube.model.node import HOSTNAME, REGION, ZONE

from .probe import Probe, largest
from .rules.volumes import volume_labels

MOST_TEMPLATES = 64
"""Maximum number of kinds of new nodes that are tried."""
MOST_PLACES, MOST_SELECTIONS = 16, 256
"""Maximum numbers of places in which a kind of node is tried, and of ways to be selected that are looked
at."""
OF_NODES = {Kind.NODE, Kind.LABEL, Kind.UNCORDON, Kind.UNTAINT}
"""What brings room that other pods may take."""
MOST_FOR_OTHERS = 64
"""Maximum number of nodes that are added for other pods that wait."""
MOST_DOMAINS = 4
"""Maximum number of domains per topology that are tried or offered."""
ANOTHER = "another"
"""The value of a label that stands for one that no node has."""
OF_KUBELET = frozenset(
    {HOSTNAME, "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"}
)
"""The labels that the kubelet sets on its node, and puts back."""


def added_nodes(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield changes that add copies of a node, as `ClusterChanges.add_nodes` does, the smallest first: in its
    own place, and where no such one places all pods that wait, also where the pod's selectors, volumes and
    topologies ask for one."""
    if pinned_node(probe.pod.spec):
        return
    places = _Places(probe)
    is_enough, own, done = False, set[object](), set[object]()
    for node, kind in (templates := [*places.templates()]):
        if kind not in own and (helpful := [*_copies(probe, node, {})]):
            yield from helpful
            own.add(kind)
            is_enough = is_enough or probe.places_all(helpful)
    for node, kind in () if is_enough else templates:
        number = 0
        for labels in () if kind in done else places.elsewhere(node):
            is_new = ANOTHER in labels.values()
            if number == MOST_DOMAINS or (is_new and (number or own)):
                break
            helpful = [*_copies(probe, node, labels)]
            yield from (replace(change, is_rare=is_new) for change in helpful)
            number += bool(helpful)
            if probe.places_all(helpful):
                break
        if number:
            done.add(kind)


class _Places:
    """Which nodes are copied for a pod, and with which labels: those that its selectors, volumes and
    topologies ask for."""

    def __init__(self, probe: Probe) -> None:
        self._probe, self._spec = probe, probe.pod.spec
        self._asked = volume_labels(probe) | (self._spec.node_selector or {})
        terms = (term for path in POD_TERMS.values() for term in pod_terms(self._spec, path))
        keys = {term.topology_key for term in terms}
        keys |= {spread.topology_key for spread in hard_spreads(self._spec)}
        self._topologies = sorted(keys - {HOSTNAME})
        requirements = [*label_requirements(self._spec)]
        selected = {each.key for each in requirements} | self._asked.keys()
        self._keys = sorted((keys | selected) - {HOSTNAME, ZONE})
        self._tried = set[object]()
        labels = [node.metadata.labels for node in probe.nodes(probe.rows())]
        self._values = {
            key: sorted(
                {each[key] for each in (*labels, self._asked) if key in each}.union(
                    *(each.values for each in requirements if (each.key, each.operator) == (key, "In"))
                )
            )
            for key in (*self._keys, ZONE)
        }
        self._zones = defaultdict[str, list[str]](list)
        for region, zone in sorted({(each.get(REGION, ""), each.get(ZONE, "")) for each in labels}):
            self._zones[region] += [zone] if zone else []

    def templates(self) -> Iterator[tuple[Node, object]]:
        """Yield the nodes that are copied, the smallest first, and what copies are like but for their size
        and zone; of nodes that differ only in these, the smallest in each zone, and larger ones where
        DaemonSets take some of their room."""
        probe, seen = self._probe, set[object]()  # spares most nodes of a large cluster the comparison
        for node in probe.nodes(_by_size(probe)):
            if probe.devices is None:
                labels = node.metadata.labels
                shape = node.spec.taints, *_amounts(probe, node), *map(labels.get, (*self._keys, ZONE))
                if shape in seen:
                    continue
                seen.add(shape)
            kind = self._untried_kind(node, probe.copy_of(node))
            if kind is not None and len(self._tried) <= MOST_TEMPLATES:
                yield node, kind

    def _untried_kind(self, node: Node, copy: Node) -> object:
        """Return what a copy of a node is like but for its size and zone; None if one like it was tried in
        its zone."""
        probe, labels = self._probe, copy.metadata.labels
        taints = tuple((taint.key, taint.value, taint.effect) for taint in copy.spec.taints)
        devices = None if probe.devices is None else probe.devices.kinds_of(node)
        kind = taints, devices, *map(labels.get, self._keys)
        in_zone: tuple[object, ...] = kind, labels.get(ZONE)
        if probe.daemons.pods_for(copy, None):
            in_zone += _amounts(probe, node)
        if in_zone in self._tried:
            return None
        self._tried.add(in_zone)
        return kind

    def elsewhere(self, node: Node) -> Iterator[dict[str, str]]:
        """Yield the labels of copies that the pod selects, those with the fewest first, and last those of a
        domain that no node is in."""
        own, sets = node.metadata.labels, dict[tuple[tuple[str, str], ...], dict[str, str]]()
        values = ((key, (*self._values[key], ANOTHER)) for key in self._topologies)
        domains = [[{}, *({key: value} for value in listed)] for key, listed in values]
        for selecting in islice(self._selecting(node), MOST_SELECTIONS):
            for chosen in islice(product(*domains), MOST_SELECTIONS):
                wanted = ChainMap(*chosen, selecting)
                labels = {key: wanted[key] for key in sorted(wanted) if own.get(key) != wanted[key]}
                sets |= {tuple(placed.items()): placed for placed in self._in_zones(labels)}
        left = MOST_PLACES
        for labels in sorted(sets.values(), key=lambda labels: (ANOTHER in labels.values(), len(labels))):
            if not (left and labels and OF_KUBELET.isdisjoint(labels)):
                continue
            copy = self._probe.copy_of(node, labels=labels)
            if pod_matches_node_selector(self._spec, copy) and self._untried_kind(node, copy) is not None:
                left -= 1
                yield labels

    def _selecting(self, node: Node) -> Iterator[dict[str, str]]:
        """Yield labels that nodeSelector, volumes and a term of required node affinity ask for."""
        meta = node.metadata
        wanted = replace(node, metadata=replace(meta, labels=meta.labels | self._asked))
        for term in required_terms(self._spec) or (NodeSelectorTerm(),):
            unmet = [each for each in term.match_expressions if not _is_met(each, wanted)]
            values = (
                [(each.key, value) for value in meeting(each, self._values[each.key])] for each in unmet
            )
            yield from (self._asked | dict(chosen) for chosen in product(*values))

    def _in_zones(self, labels: dict[str, str]) -> list[dict[str, str]]:
        """Return labels with the zones of their region, which follows from a zone."""
        if REGION not in labels or not (zones := self._zones[labels[REGION]]):
            return [labels]
        rest = {key: value for key, value in labels.items() if key != REGION}
        return [rest | {ZONE: zone} for zone in zones if labels.get(ZONE, zone) == zone]


def _is_met(requirement: NodeSelectorRequirement, node: Node) -> bool:
    term = NodeSelectorTerm(match_expressions=(requirement,))
    return NodeSelectorMatcher(NodeSelector(node_selector_terms=(term,))).matches(node)


def meeting(requirement: NodeSelectorRequirement, known: Sequence[str]) -> list[str]:
    """Return values of a label that meet a requirement: those that it names, or some that nodes have."""
    match requirement.operator, requirement.values:
        case "In", values:
            return list(values)
        case "NotIn", values:
            return [value for value in (*known, ANOTHER) if value not in values] if known else []
        case "Exists", ():
            return list(known) or ["true"]
        case "Gt" | "Lt", (value,) if value.isdecimal():
            number = int(value) + (1 if requirement.operator == "Gt" else -1)
            return [str(number)] if number >= 0 else []
    return []


def _copies(probe: Probe, node: Node, labels: Mapping[str, str]) -> Iterator[HelpfulChange]:
    """Yield the change that adds a copy of a node, with labels, or as many as place all pods that wait."""

    def added(number: int) -> Iterator[HelpfulChange]:
        return probe.tried(more_nodes(probe, node, number, labels))

    waiting = len(probe.waiting)
    for change in added(1):
        number = 0
        if 0 < change.placed < waiting:
            most = min(waiting, 2 * -(waiting // -change.placed))
            number = fewest(lambda number: any(each.placed == waiting for each in added(number)), most)
        yield from added(number) if number else [change]


def fewest(is_enough: Callable[[int], bool], most: int) -> int:
    """Return the smallest number from 2 to `most` that is enough, as far as a bisection finds it; 0 for
    none."""
    if most < 2 or not is_enough(most):
        return 0
    return most - largest(most - 2, lambda spared: is_enough(most - spared))


def more_nodes(probe: Probe, node: Node, number: int, labels: Mapping[str, str] = {}) -> HelpfulChange:
    """Return the proposal to add copies of a node with its devices and with labels."""
    edits = list[ObjectEdit]()
    for ending in (f"-copy-{at}" for at in range(1, number + 1)) if number > 1 else ["-copy"]:
        copy = probe.copy_of(node, ending, labels)
        edits += put(copy, *probe.slices_of_copy(node, copy))
    many = "a node" if number == 1 else f"{number} nodes"
    where = f", with {', '.join(f'{key}={value}' for key, value in labels.items())}" if labels else ""
    values: dict[str, Any] = {"like": node.name, "allocatable": node.status.allocatable}
    values |= ({"nodes": number} if number > 1 else {}) | ({"label": {**labels}} if labels else {})
    text = f"add {many} like {node.name} ({_size_of(node)}){where}{probe.needs_runtime(labels)}"
    return HelpfulChange(Kind.NODE, text, tuple(edits), values=values)


def as_played(probe: Probe, change: HelpfulChange) -> Iterator[HelpfulChange]:
    """Yield a change of nodes with what it does when it is made: other pods that wait take what it brings,
    and a rollout ends old pods. New nodes are as many as are enough then."""
    played, waiting, number = probe.played, len(probe.waiting), change.values.get("nodes", 1)
    others = 0 if played is None else played.others(probe.alike)
    if played is None or change.kind not in OF_NODES:
        yield change
        return
    if not (others or number > 1 or change.kind == Kind.NODE):
        yield change
        return
    goal, most = change.placed or 1, number + min(others, MOST_FOR_OTHERS)

    @cache
    def placed(number: int) -> int:
        numbered = replace(change, values=change.values | {"nodes": number})
        return min(waiting, played.placed(probe.alike, probe.running, partial(make, numbered, None)))

    may_run, enough = played.may_run(2 + most.bit_length()), number
    if may_run and change.kind == Kind.NODE:
        if placed(number) >= goal:
            enough -= largest(number - 1, lambda spared: placed(number - spared) >= goal)
        elif placed(most) >= goal:
            enough = most - largest(most - number - 1, lambda spared: placed(most - spared) >= goal)
    if enough != number:
        (node,) = probe.nodes_named([change.values["like"]])
        for other in probe.tried(more_nodes(probe, node, enough, change.values.get("label", {}))):
            why = ", as other pods take some" if enough > number else ""
            change = replace(other, text=f"{other.text}{why}", is_rare=change.is_rare)
    if may_run and (count := placed(enough)):
        yield replace(change, placed=count if waiting > 1 else 0)
    elif not others:
        yield from () if may_run else (change,)
    elif not may_run or change.kind == Kind.NODE:
        text = f"{change.text}, if other pods that wait leave room"
        yield replace(change, text=text, values=change.values | {"alone": True})


def _size_of(node: Node) -> str:
    """What people look for in the size of a node."""
    room = node.status.allocatable
    cpu, memory = (Quantity(room.get(name, 0)) for name in ("cpu", "memory"))
    return f"{readable('cpu', cpu.milli_value())} cpu, {readable('memory', memory.value())} memory"


def _by_size(probe: Probe) -> npt.NDArray[np.int32]:
    """Return the rows of nodes that are large enough when empty, in ascending order of the sum of their cpu
    and memory relative to the largest."""
    rows = probe.rows()
    allocatable = probe.table.allocatable
    enough = np.ones(len(rows), dtype=bool)
    as_devices = () if probe.devices is None else probe.devices.resources
    for resource, request in probe.requests.items():
        if resource in as_devices:
            continue
        enough &= allocatable[resource][rows] >= request
    rows = rows[enough]
    size = np.zeros(len(rows))
    for resource in ("cpu", "memory"):
        column = allocatable[resource][rows]
        size += column / max(int(column.max(initial=0)), 1)
    return rows[np.argsort(size, kind="stable")]


def _amounts(probe: Probe, node: Node) -> tuple[int, ...]:
    """Return the allocatable amounts of a node of what the pod requests."""
    row = probe.table.find_row(node.name)
    return tuple(int(probe.table.allocatable[resource][row]) for resource in probe.requests)
