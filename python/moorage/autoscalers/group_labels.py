"""How nodes are known to be of a node group: labels of providers, and machines of OpenShift."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from moorage.kube import Node
from moorage.kube.model.node import MACHINE, PROVIDER_LABELS

_OF_MACHINE_SET = re.compile(r"(?:.*/)?(.+)-[bcdf-hj-np-tv-xz2-9]{5}")


def marks_of(node: Node) -> Mapping[str, str]:
    """Return what groups may be known by: labels, and the MachineSet of a machine of OpenShift."""
    machine = _OF_MACHINE_SET.fullmatch(node.metadata.annotations.get(MACHINE, ""))
    return {**node.metadata.labels, MACHINE: machine[1]} if machine else node.metadata.labels


def group_names(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the labels that nodes have the names of their groups in, by name."""
    labels = [marks_of(node) for node in nodes]
    return {label[key]: key for key in reversed(PROVIDER_LABELS) for label in labels if key in label}
