"""Cluster: the objects of a cluster in reading order."""

from __future__ import annotations

from dataclasses import dataclass, field

from .meta import Object
from .node import Namespace, Node
from .pod import Pod


@dataclass(slots=True)
class Cluster:
    """The objects of a cluster by kind, valid and with defaults.

    Attributes
    ----------
    nodes, pods, namespaces : list of Object
        In reading order; pods created for workloads follow the listed ones, workload by workload.
    others : list of Object
        All other objects that scheduling reads (services, controllers, priority classes, disruption budgets).
    finished : list of Pod
        Pods that have succeeded or failed: they occupy no resources and are not scheduled.
    skipped : dict of str to int
        Number of objects that scheduling does not read and that were left out, by kind.
    warnings : list of str
        Warnings of the loader, one sentence each.
    """

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)
    finished: list[Pod] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
