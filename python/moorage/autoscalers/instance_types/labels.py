"""The labels of nodes that say what they are, and requirements on labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from moorage.kube import NodeSelectorRequirement

POOL = "karpenter.sh/nodepool"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
MADE_HERE = "moorage:///"
"""How the provider's ID of a simulated node begins."""
RESERVED = "reserved"
"""The capacity type of an offering whose instances were paid for before."""
CAPACITY_TYPES = ("on-demand", "spot", RESERVED)


@cache
def requirement(key: str, values: tuple[str, ...]) -> NodeSelectorRequirement:
    """Return the requirement that a label has one of some values; that it does not exist for none."""
    return NodeSelectorRequirement(key=key, operator="In" if values else "DoesNotExist", values=values)


def requirements(labels: Mapping[str, Iterable[object]]) -> tuple[NodeSelectorRequirement, ...]:
    """Return the requirements of labels with their values; see `requirement`."""
    return tuple([requirement(key, tuple(map(str, values))) for key, values in labels.items()])
