"""Changes of the cluster: a label added to a node, and an empty copy of a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage._core.base.selectors import pod_matches_node_selector
from moorage.objects.model.meta import ObjectMeta
from moorage.objects.model.node import (
    Node,
    NodeSpec,
    NodeStatus,
    Taint,
)
from moorage.objects.model.pod import NodeSelectorRequirement, PodSpec

from .constraints import has_pod_terms, topology_keys, without_node_selection, without_pod_terms
from .probe import Probe
from .shortfalls import PodRequirements, required_terms

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
STATE_TAINTS = "node.kubernetes.io/"
"""Prefix of the taints that say how a node is doing; a new one does not have them."""
MOST_TEMPLATES = 16
"""Kinds of new nodes that are tried."""
MOST_LABELS = 32
"""Labels that are tried node by node, where what other nodes hold matters too."""
MOST_DOMAINS = 4
"""Domains per topology that are tried, the largest ones."""


# ---- labels ------------------------------------------------------------------------------------------------


def find_labels(probe: Probe) -> Iterator[tuple[str, str, list[Node], int]]:
    """Find labels that make a node feasible; only labels that the node does not have.

    Yields
    ------
    key, value : str
    nodes : list of Node
        Nodes that each become feasible by the label.
    feasible : int
        Number of feasible nodes if the first of them has the label.
    """
    depends_on_pods = has_pod_terms(probe.pod.spec)
    nodes = _candidates(probe)
    labels = dict.fromkeys(_wanted_labels(probe.pod.spec))
    if depends_on_pods:
        others = probe.nodes(probe.rows())
        labels |= dict.fromkeys(_topology_labels(probe.pod.spec, others))
        nodes = list({node.name: node for node in (*nodes, *others)}.values())
    left = MOST_LABELS
    for key, value in labels:
        lacking = [node for node in nodes if key not in node.metadata.labels]
        if depends_on_pods:
            lacking, left = lacking[:left], left - len(lacking[:left])
            helped = [node for node in lacking if probe.count_feasible_with(with_label(node, key, value))]
        else:
            helped = _selected(probe.pod.spec, lacking, key, value)
        opens = probe.count_feasible_with(with_label(helped[0], key, value)) if helped else 0
        if opens:
            yield key, value, helped, opens


def _candidates(probe: Probe) -> list[Node]:
    """Nodes that are infeasible only by nodeSelector, required node affinity and terms about other pods."""
    spec = without_pod_terms(without_node_selection(probe.pod.spec))
    return probe.nodes(probe.feasible(replace(probe.pod, spec=spec))) if spec != probe.pod.spec else []


def _selected(spec: PodSpec, nodes: list[Node], key: str, value: str) -> list[Node]:
    """The nodes that nodeSelector and required node affinity select if they have the label."""
    keys = sorted({each.key for each in _requirements(spec)} | (spec.node_selector or {}).keys())
    by_name = any(term.match_fields for term in required_terms(spec) or ())
    known: dict[tuple[str | None, ...], bool] = {}
    selected = []
    for node in nodes:
        alike = (*(node.metadata.labels.get(each) for each in keys), node.name if by_name else "")
        if alike not in known:
            known[alike] = pod_matches_node_selector(spec, with_label(node, key, value))
        if known[alike]:
            selected.append(node)
    return selected


def _topology_labels(spec: PodSpec, nodes: list[Node]) -> Iterator[tuple[str, str]]:
    """The largest domains of each topology, which a node without one could join."""
    for key in sorted(topology_keys(spec) - {HOSTNAME}):
        domains = Counter(node.metadata.labels[key] for node in nodes if key in node.metadata.labels)
        for value, _ in sorted(domains.items(), key=lambda each: (-each[1], each[0]))[:MOST_DOMAINS]:
            yield key, value


def with_label(node: Node, key: str, value: str) -> Node:
    """The node with one more label."""
    return replace(node, metadata=replace(node.metadata, labels=node.metadata.labels | {key: value}))


def _wanted_labels(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Labels that nodeSelector and required node affinity ask for; of several values the first."""
    yield from sorted((spec.node_selector or {}).items())
    for requirement in _requirements(spec):
        match requirement.operator, requirement.values:
            case "In", (value, *_):
                yield requirement.key, value
            case "Exists", ():
                yield requirement.key, "true"
            case "Gt" | "Lt", (value,) if value.isdecimal():
                number = int(value) + (1 if requirement.operator == "Gt" else -1)
                if number >= 0:
                    yield requirement.key, str(number)


def _requirements(spec: PodSpec) -> Iterator[NodeSelectorRequirement]:
    for term in required_terms(spec) or ():
        yield from term.match_expressions


# ---- new nodes ---------------------------------------------------------------------------------------------


def new_nodes(probe: Probe, requirements: PodRequirements) -> Iterator[tuple[Node, Node, int]]:
    """Find empty copies of nodes that would place the pod.

    Yields
    ------
    template, copy : Node
        A node and its empty copy, in ascending order of size; of nodes that differ only in size and zone
        the smallest.
    feasible : int
        Number of feasible nodes with the copy.
    """
    rows = _by_size(probe, requirements)
    keys = sorted(_label_keys(probe.pod.spec) - {HOSTNAME, ZONE})
    tried: set[object] = set()
    done: set[object] = set()
    for node in probe.nodes(rows):
        labels = node.metadata.labels
        taints = tuple((taint.key, taint.value, taint.effect) for taint in _lasting_taints(node))
        alike = (taints, *(labels.get(key) for key in keys))
        in_zone = (alike, labels.get(ZONE))
        if alike in done or in_zone in tried or len(tried) == MOST_TEMPLATES:
            continue
        tried.add(in_zone)
        copy = _copy(probe, node)
        opens = probe.count_feasible_with(copy)
        if opens:
            done.add(alike)
            yield node, copy, opens


def _by_size(probe: Probe, requirements: PodRequirements) -> npt.NDArray[np.int32]:
    """Rows of nodes that are large enough when empty, in ascending order of the sum of their relative cpu and
    memory."""
    rows = probe.rows()
    allocatable = probe.table.allocatable
    enough = np.ones(len(rows), dtype=bool)
    for resource, request in requirements.requests.items():
        enough &= allocatable[resource][rows] >= request
    rows = rows[enough]
    size = np.zeros(len(rows))
    for resource in ("cpu", "memory"):
        column = allocatable[resource][rows]
        size += column / max(int(column.max(initial=0)), 1)
    return rows[np.argsort(size, kind="stable")]


def _label_keys(spec: PodSpec) -> set[str]:
    """The labels of a node that a decision about the pod may depend on."""
    keys = {requirement.key for requirement in _requirements(spec)} | (spec.node_selector or {}).keys()
    return keys | topology_keys(spec)


def _lasting_taints(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if not taint.key.startswith(STATE_TAINTS))


def _copy(probe: Probe, node: Node) -> Node:
    """An empty node of the same size, labels and lasting taints."""
    name = f"{node.name}-copy"
    while probe.engine.cache.state.has_node(name):
        name += "-copy"
    labels = node.metadata.labels
    if HOSTNAME in labels:
        labels = labels | {HOSTNAME: name}
    return Node(
        metadata=ObjectMeta(name=name, uid=f"node/{name}", labels=labels),
        spec=NodeSpec(taints=_lasting_taints(node)),
        status=NodeStatus(capacity=node.status.capacity, allocatable=node.status.allocatable),
    )
