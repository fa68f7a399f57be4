"""Cluster: the objects of one cluster, in the order in which they were read."""

from __future__ import annotations

from dataclasses import dataclass, field

from .meta import Object
from .node import Namespace, Node
from .pod import Pod


@dataclass(slots=True)
class Cluster:
    """Objects by kind, ready to be scheduled.

    Attributes
    ----------
    nodes, pods, namespaces : list
        In reading order; workloads have been expanded into `pods`.
    others : list of Object
        Everything else that scheduling reads (services, controllers, priority classes).
    warnings : list of str
        What the loader noticed without refusing the input, one sentence each.
    """

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
