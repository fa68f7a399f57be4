"""Shortfalls of a node for a pod (resources, tolerations, labels, ports, features), and their summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from moorage._core.base.quantity import Quantity
from moorage._core.base.selectors import NodeSelectorMatcher, tolerates
from moorage._core.state.cluster_state import ClusterState
from moorage.objects import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint
from moorage.objects.model.meta import LabelSelectorRequirement
from moorage.plugins.node_unschedulable import UNSCHEDULABLE

_ZERO = Quantity("0")
_BINARY = Quantity("1Ki")

REJECTING = ("NoSchedule", "NoExecute")
ANY_IP = "0.0.0.0"
NO_TERMS = "terms (required node affinity has none)"

Port = tuple[str, str, int]
"""A host port: address, protocol, number."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A requirement of a pod that one node or several nodes do not meet.

    Attributes
    ----------
    kind : str
        ``resource``, ``toleration``, ``label``, ``host-port``, ``node-name`` or ``feature``.
    name : str
        The resource; the taint that is not tolerated; the requirement that the labels or the name of the node
        do not meet; the host port in use; the node that the pod names; the feature that the node does not
        declare.
    least, most : int
        Least and greatest request minus the free amount: millicores, bytes, or the resource's own unit; 0 for
        other kinds.
    nodes : int
        Number of nodes.
    """

    kind: str
    name: str
    least: int = 0
    most: int = 0
    nodes: int = 1


class PodRequirements:
    """The requirements of a pod, and the free capacity of the nodes at the time of construction.

    Parameters
    ----------
    state : ClusterState
    pod : Pod
    rows : (nodes,) int32 array
        Rows of the nodes, in list order.

    Attributes
    ----------
    requests : dict of str to int
        Effective requests that are not zero, in millicores, bytes, or the resource's own unit; and 1 of
        ``pods``.
    """

    def __init__(self, state: ClusterState, pod: Pod, rows: npt.NDArray[np.int32]) -> None:
        table, names = state.table, state.symbols.names
        shape = state.classes.shape_of(state.classes.intern(pod))
        self.pod = pod
        requests = {"pods": 1} | shape.needs
        self.requests = {resource: request for resource, request in requests.items() if request}
        self._tolerations, self._features = shape.tolerations, shape.features
        self._ports = [(names[ip] or "", names[protocol] or "", port) for ip, protocol, port in shape.ports]
        self._terms = [_split(term) for term in required_terms(pod.spec) or ()]
        self._nodes = [table.objects[row] for row in rows]
        self._free = {
            name: table.allocatable[name][rows] - table.requested[name][rows] for name in self.requests
        }
        self._used_ports = [table.row_ports(int(row)) for row in rows] if self._ports else []

    @property
    def resources(self) -> list[str]:
        """Names of the requested resources."""
        return [resource for resource in self.requests if resource != "pods"]

    def shortfalls(self, position: int) -> tuple[Shortfall, ...]:
        """Return the shortfalls of the node at a list position, in the order of kube-scheduler v1.36's
        filters.

        Parameters
        ----------
        position : int
            Index of the node in list order.

        Returns
        -------
        tuple of Shortfall
        """
        node, name = self._nodes[position], self.pod.spec.node_name
        assert node is not None  # every listed row has a node object
        shortfalls = [Shortfall("node-name", name)] if name and name != node.name else []
        shortfalls += [Shortfall("toleration", taint_text(taint)) for taint in self.untolerated(node)]
        shortfalls += [Shortfall("label", text) for text in self._unmet(node)]
        for port in self._ports:
            if any(has_conflict(port, used) for used in self._used_ports[position]):
                shortfalls.append(Shortfall("host-port", port_text(port)))
        for resource, request in self.requests.items():
            free = int(self._free[resource][position])
            if request > free:
                shortfalls.append(Shortfall("resource", resource, request - free, request - free))
        declared = node.status.declared_features
        shortfalls += [Shortfall("feature", feature) for feature in self._features if feature not in declared]
        return tuple(shortfalls)

    def untolerated(self, node: Node) -> list[Taint]:
        """Return the taints of a node that the pod does not tolerate. A cordoned node has `UNSCHEDULABLE`.

        Parameters
        ----------
        node : Node

        Returns
        -------
        list of Taint
        """
        taints = [Taint(key=t.key, value=t.value, effect=t.effect) for t in node.spec.taints]
        if node.spec.unschedulable and UNSCHEDULABLE not in taints:
            taints.append(UNSCHEDULABLE)
        return [t for t in taints if t.effect in REJECTING and not tolerates(self._tolerations, t, True)]

    def _unmet(self, node: Node) -> list[str]:
        """Return the requirements of nodeSelector and required node affinity that the node does not meet. Of
        several terms, those of the term with the fewest count."""
        labels, spec = node.metadata.labels, self.pod.spec
        selector = (spec.node_selector or {}).items()
        unmet = [f"{key}={value}" for key, value in selector if labels.get(key) != value]
        if required_terms(spec) is not None:
            lacking = [[text for text, matcher in term if not matcher.matches(node)] for term in self._terms]
            unmet += sorted(lacking, key=len)[0] if lacking else [NO_TERMS]
        return unmet


def summarize_shortfalls(shortfalls: Iterable[tuple[Shortfall, ...]]) -> list[Shortfall]:
    """Group the shortfalls of several nodes.

    Parameters
    ----------
    shortfalls : iterable of tuple of Shortfall
        Those of each node.

    Returns
    -------
    list of Shortfall
        In descending order of the number of nodes, then in order of appearance.
    """
    amounts: dict[tuple[str, str], list[int]] = {}
    for of_node in shortfalls:
        for shortfall in of_node:
            amounts.setdefault((shortfall.kind, shortfall.name), []).append(shortfall.least)
    summary = [Shortfall(*key, min(all_), max(all_), len(all_)) for key, all_ in amounts.items()]
    return sorted(summary, key=lambda each: -each.nodes)


def required_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of required node affinity, of which one has to match; None without it.

    Parameters
    ----------
    spec : PodSpec

    Returns
    -------
    tuple of NodeSelectorTerm or None
    """
    affinity = spec.affinity and spec.affinity.node_affinity
    return affinity.required.node_selector_terms if affinity and affinity.required is not None else None


def _split(term: NodeSelectorTerm) -> list[tuple[str, NodeSelectorMatcher]]:
    """Return the requirements of a term, each on its own: its text, and what it matches."""
    on_labels = [(r, NodeSelectorTerm(match_expressions=(r,))) for r in term.match_expressions]
    on_name = [(r, NodeSelectorTerm(match_fields=(r,))) for r in term.match_fields]
    if not on_labels and not on_name:
        return [("(an empty term matches no node)", NodeSelectorMatcher(NodeSelector()))]
    return [
        (requirement_text(r), NodeSelectorMatcher(NodeSelector(node_selector_terms=(alone,))))
        for r, alone in (*on_labels, *on_name)
    ]


def requirement_text(requirement: NodeSelectorRequirement | LabelSelectorRequirement) -> str:
    """Return a requirement on one line: ``zone In [a, b]``.

    Parameters
    ----------
    requirement : NodeSelectorRequirement or LabelSelectorRequirement

    Returns
    -------
    str
    """
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def taint_text(taint: Taint) -> str:
    """Return a taint as kubectl writes it.

    Parameters
    ----------
    taint : Taint

    Returns
    -------
    str
    """
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def port_text(port: Port) -> str:
    """Return a host port as ``80/TCP``, with its address where it is bound to one.

    Parameters
    ----------
    port : Port

    Returns
    -------
    str
    """
    ip, protocol, number = port
    return f"{number}/{protocol}" if ip == ANY_IP else f"{ip}:{number}/{protocol}"


def has_conflict(one: Port, other: Port) -> bool:
    """Whether two host ports conflict on one node (kube-scheduler v1.36, framework/types.go
    HostPortInfo.CheckConflict).

    Parameters
    ----------
    one, other : (str, str, int)
        Address, protocol and number.
    """
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_IP in (one[0], other[0]))


def shortfall_text(shortfall: Shortfall) -> str:
    """Return a shortfall in words, as ``500m more cpu``.

    Parameters
    ----------
    shortfall : Shortfall

    Returns
    -------
    str
    """
    match shortfall.kind, shortfall.name:
        case "toleration", name if name == taint_text(UNSCHEDULABLE):
            return f"cordoned ({name})"
        case "toleration", name:
            return f"untolerated taint {name}"
        case "resource", "pods":
            return "room for 1 more pod"
        case "resource", name:
            least, most = (quantity_text(name, amount) for amount in (shortfall.least, shortfall.most))
            return f"{least} more {name}" if least == most else f"{least} to {most} more {name}"
        case kind, name:
            return f"{kind.replace('-', ' ')} {name}"


def quantity_text(resource: str, amount: int) -> str:
    """Return an amount of a resource as the shortest quantity, in binary multiples for bytes.

    Parameters
    ----------
    resource : str
    amount : int
        Millicores, bytes, or the resource's own unit.

    Returns
    -------
    str
    """
    match unit(resource):
        case "millicores":
            return str(Quantity(f"{amount}m") + _ZERO)
        case "bytes":
            return str(_BINARY + Quantity(amount) - _BINARY)
    return str(amount)


def unit(resource: str) -> str:
    """Return the unit in which a resource is counted.

    Parameters
    ----------
    resource : str

    Returns
    -------
    str
    """
    if resource == "cpu":
        return "millicores"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return "bytes"
    return "count"
