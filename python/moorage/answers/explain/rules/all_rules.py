"""The rules of scheduling, by the plugins whose filters judge them, and by the constraints of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from moorage.cluster.helpful_changes import HelpfulChange, dropped
from moorage.cluster.requirements import Constraint
from moorage.engine.framework import Plugin
from moorage.engine.framework.evidence import FindEvidence, RejectedPod
from moorage.engine.framework.interface import EvidencePlugin
from moorage.engine.plugins.dynamic_resources import DynamicResources
from moorage.engine.plugins.inter_pod_affinity import InterPodAffinity
from moorage.engine.plugins.node_affinity_and_taints import (
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodeUnschedulable,
    TaintToleration,
)
from moorage.engine.plugins.node_resources import NodePorts, NodeResourcesFit
from moorage.engine.plugins.node_volume_limits import NodeVolumeLimits
from moorage.engine.plugins.pod_topology_spread import PodTopologySpread
from moorage.engine.plugins.volume_binding import VolumeBinding
from moorage.engine.plugins.volume_restrictions_and_zone import VolumeRestrictions, VolumeZone

from ..probe import Probe
from . import affinity, devices, ports, room, selection, spread, volumes

MakeFinder = Callable[[Probe, RejectedPod], FindEvidence]
"""Returns the function that finds the evidence of the nodes that a filter rejects."""

BY_PLUGIN: dict[type[Plugin], MakeFinder] = {
    NodeUnschedulable: selection.taint_evidence,
    TaintToleration: selection.taint_evidence,
    NodeName: selection.name_evidence,
    NodeAffinity: selection.label_evidence,
    NodeDeclaredFeatures: selection.feature_evidence,
    NodePorts: ports.evidence,
    NodeResourcesFit: room.evidence,
    PodTopologySpread: spread.evidence,
    InterPodAffinity: affinity.evidence,
    VolumeBinding: volumes.binding_evidence,
    VolumeRestrictions: volumes.restriction_evidence,
    VolumeZone: volumes.zone_evidence,
    NodeVolumeLimits: volumes.limit_evidence,
    DynamicResources: devices.evidence,
}
"""Of the in-tree filters. Those with the same function are asked together."""

LOOSENED: dict[str, Callable[[Probe, Any], Iterator[HelpfulChange]]] = {
    "request": room.loosened,
    "taint": selection.loosened,
    "topology-spread": spread.loosened,
}
"""By the kind of the constraint; those of other kinds are dropped."""


def finder_of(plugin: Plugin | None) -> MakeFinder | None:
    """Return what makes the function that finds the evidence of a filter; None for one that has none."""
    if isinstance(plugin, EvidencePlugin):
        return lambda probe, inquiry: plugin.evidence(inquiry)
    return next((make for kind, make in BY_PLUGIN.items() if isinstance(plugin, kind)), None)


def remedies(probe: Probe, constraint: Constraint) -> Iterator[HelpfulChange]:
    """Yield the changes that loosen a constraint of the pod, or else drop it, and place the pod."""
    loosened = LOOSENED.get(constraint.kind)
    return probe.tried(dropped(constraint)) if loosened is None else loosened(probe, constraint)
