"""A change of a pod or of the cluster that places the pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from moorage.kube import Node, Pod
from moorage.kube.model.resource_claims import ResourceClaim
from moorage.kube.model.resource_slices import ResourceSlice

from ..probe import Probe

LOWER = "lower-request"
SMALLER_CLAIM = "smaller-claim"
TOLERATE = "add-toleration"
FEWER_DEVICES = "fewer-devices"
LABEL = "add-label"
UNCORDON = "uncordon-node"
NODE = "add-node"
DEVICE_CLASS = "device-class"
TOLERATE_DEVICE = "tolerate-device"
ADD_SELECTOR = "add-selector"
SPREAD = "change-spread"
FREE_CLAIM = "free-claim"
DROP = "drop"
DROP_DEVICE_RULE = "drop-device-rule"
REPROVISION = "reprovision-claim"
ROLLOUT = "change-rollout"
KINDS = {
    LOWER: 0,
    SMALLER_CLAIM: 0,
    FEWER_DEVICES: 0,
    TOLERATE: 1,
    UNCORDON: 1,
    LABEL: 1,
    NODE: 1,
    DEVICE_CLASS: 1,
    TOLERATE_DEVICE: 1,
    ADD_SELECTOR: 1,
    SPREAD: 1,
    REPROVISION: 1,
    ROLLOUT: 1,
    FREE_CLAIM: 2,
    DROP: 2,
    DROP_DEVICE_RULE: 2,
}
"""Order of the changes: lower requests, additions, what others or the pod give up."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a pod or of the cluster that places the pod.

    Attributes
    ----------
    kind : str
        A key of `KINDS`.
    text : str
        The change in words.
    feasible_nodes : int
        Number of feasible nodes after the change.
    pod : Pod
        The pod after the change.
    edit : callable or None
        Makes the change of the pod to others that are like it; None for a change of the cluster.
    amount : float
        Relative reduction of the effective request, of the number of devices or of a claim, 0 to 1; 0 for
        other kinds.
    values : dict of str to object
        What changes, in values of JSON; by kind as in the schema ``explain.moorage.dev/v1``.
    node : Node or None
        The added node, or the node with its new label or without its cordon.
    claims : tuple of ResourceClaim
        The changed claims.
    slices : tuple of ResourceSlice
        The devices of the added node.
    """

    kind: str
    text: str
    feasible_nodes: int
    pod: Pod = field(repr=False)
    edit: Callable[[Pod], Pod] | None = field(default=None, compare=False, repr=False)
    amount: float = 0.0
    values: dict[str, Any] = field(default_factory=dict)
    node: Node | None = field(default=None, repr=False)
    claims: tuple[ResourceClaim, ...] = field(default=(), repr=False)
    slices: tuple[ResourceSlice, ...] = field(default=(), repr=False)


def claim_values(claim: str, before: str = "", after: str = "", request: str = "") -> dict[str, str]:
    """Return the values of a change of a claim."""
    return {"claim": claim, "request": request, "from": before, "to": after}


def tried(
    probe: Probe, kind: str, text: str, edit: Callable[[Pod], Pod], values: dict[str, Any]
) -> Iterator[Change]:
    """Yield a change of the pod, if it places it."""
    pod = edit(probe.pod)
    feasible = probe.count_feasible(pod)
    if feasible:
        yield Change(kind, text, feasible, pod, edit, values=values)
