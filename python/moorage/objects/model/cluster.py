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
    nodes, pods, namespaces : list
        In reading order; pods created for workloads follow the listed ones, workload by workload.
    others : list of Object
        All other objects that scheduling reads (services, controllers, priority classes, disruption budgets).
    finished : list of Pod
        Pods that have succeeded or failed: they occupy no resources and are not scheduled.
    skipped : dict
        How many objects of which kinds were left out because scheduling does not read them.
    warnings : list of str
        What the loader noticed without refusing the input, one sentence each.
    """

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)
    finished: list[Pod] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
