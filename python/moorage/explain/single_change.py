"""A change of a pod or of the cluster that places the pod."""

from __future__ import annotations

from dataclasses import dataclass, field

from moorage.objects import Node, Pod, Toleration
from moorage.objects.model.resource_claims import ResourceClaim
from moorage.objects.model.resource_slices import ResourceSlice

from .constraints import Constraint
from .lowering import Edit

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
        ``lower-request``, ``fewer-devices``, ``add-toleration``, ``uncordon-node``, ``add-label``,
        ``add-node``, ``device-class``, ``tolerate-device``, ``add-selector``, ``change-spread``,
        ``smaller-claim``, ``reprovision-claim``, ``change-rollout``, ``free-claim``, ``drop`` or
        ``drop-device-rule``.
    text : str
        The change in words.
    feasible_nodes : int
        Number of feasible nodes after the change.
    pod : Pod
        The pod after the change.
    amount : float
        Relative reduction of the effective request or number of devices, 0 to 1; 0 for other kinds.
    resource, before, after : str
        For ``lower-request``: the resource, and its effective requests as quantities. For
        ``fewer-devices`` and ``device-class``: before and after the change. For ``change-spread``: the field,
        and its values; likewise for ``change-rollout``. For ``smaller-claim``: the storage that the claim
        asks for, before and after. For ``reprovision-claim``: the node for which it is being provisioned.
    edits : list of Edit
        For ``lower-request``: the edits of the spec.
    label : (str, str)
        For ``add-label``: key and value.
    node_name : str
        For ``add-label`` and ``uncordon-node``: the first node that the change makes feasible. For
        ``add-node``: the node to copy.
    eligible_nodes : int
        For ``add-label`` and ``uncordon-node``: number of nodes that each become feasible by the change.
        Where other pods matter, only the nodes that are tried count (`MOST_LABELS`).
    toleration : Toleration or None
        For ``add-toleration``.
    constraint : Constraint or None
        For ``drop``: the dropped constraint. For ``change-spread``: the spread constraint, whose `drop` makes
        the change.
    node : Node or None
        The added node, or the node with its new label or without its cordon.
    claim, request : str
        For changes of devices: the claim by its name in the pod, or, if it is freed, ``namespace/name``; and
        the request.
    claims : tuple of ResourceClaim
        The changed claims.
    slices : tuple of ResourceSlice
        The devices of the added node.
    workload : str
        For ``change-rollout``: the workload.
    """

    kind: str
    text: str
    feasible_nodes: int
    pod: Pod = field(repr=False)
    amount: float = 0.0
    resource: str = ""
    before: str = ""
    after: str = ""
    edits: list[Edit] = field(default_factory=list)
    label: tuple[str, str] = ("", "")
    node_name: str = ""
    eligible_nodes: int = 0
    toleration: Toleration | None = None
    constraint: Constraint | None = None
    node: Node | None = field(default=None, repr=False)
    claim: str = ""
    request: str = ""
    claims: tuple[ResourceClaim, ...] = field(default=(), repr=False)
    slices: tuple[ResourceSlice, ...] = field(default=(), repr=False)
    workload: str = ""
