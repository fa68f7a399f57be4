"""NodePool and NodeClaim of Karpenter (karpenter.sh/v1); `validate.custom_schemas` has their rules."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import field

from .field_rules import labels
from .meta import Condition, Int32, Object, Resources, Struct
from .node import Taint


class NodeClassReference(Struct, frozen=True):
    """The object of a provider that says how its nodes are made."""

    group: str = ""
    kind: str = ""
    name: str = ""


class NodeRequirement(Struct, frozen=True):
    """A requirement on a label of nodes."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeClaimRequirement(NodeRequirement, frozen=True):
    """A requirement on a label of new nodes, and how many of its values must be left to choose from."""

    min_values: Int32 | None = None


class NodeClaimSpec(Struct, frozen=True):
    """Spec of a NodeClaim, and of the template of a pool."""

    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[NodeClaimRequirement, ...] | None = None
    node_class_ref: NodeClassReference = NodeClassReference()
    expire_after: str | None = None
    termination_grace_period: str | None = None


class NodeClaimStatus(Struct, frozen=True):
    """Status of a NodeClaim."""

    provider_id: str = field(default="", name="providerID")
    node_name: str = ""
    image_id: str = field(default="", name="imageID")
    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()
    last_pod_event_time: str | None = None


class NodeClaim(Object, frozen=True):
    """A machine that Karpenter has asked for."""

    kind: str = "NodeClaim"
    api_version: str = "karpenter.sh/v1"
    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()


class NodeClaimTemplateMeta(Struct, frozen=True):
    """Metadata of the nodes of a pool."""

    labels: Annotated[dict[str, str], labels] = {}
    annotations: dict[str, str] = {}


class NodeClaimTemplate(Struct, frozen=True):
    """What the nodes of a pool are made from."""

    metadata: NodeClaimTemplateMeta = NodeClaimTemplateMeta()
    spec: NodeClaimSpec = NodeClaimSpec()


class Budget(Struct, frozen=True):
    """How many nodes of a pool may go at once: a number or a percentage.

    With a `schedule` (cron, UTC) the budget holds for `duration` after each of its times.
    """

    nodes: str = "10%"
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None
    duration: str | None = None


class Disruption(Struct, frozen=True):
    """When and how nodes of a pool may go."""

    consolidate_after: str | None = None
    consolidation_policy: str = ""
    budgets: tuple[Budget, ...] | None = None


class NodePoolSpec(Struct, frozen=True):
    """Spec of a NodePool; one with `replicas` is static."""

    template: NodeClaimTemplate = NodeClaimTemplate()
    disruption: Disruption = Disruption()
    limits: Resources = {}
    weight: Int32 | None = None
    replicas: Int32 | None = None


class NodePoolStatus(Struct, frozen=True):
    """Status of a NodePool."""

    conditions: tuple[Condition, ...] = ()


class NodePool(Object, frozen=True):
    """A pool of nodes that come and go with the pods."""

    kind: str = "NodePool"
    api_version: str = "karpenter.sh/v1"
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()


class EC2NodeClass(Object, frozen=True):
    """How nodes of AWS are made. Its provider knows the fields: they are as written."""

    kind: str = "EC2NodeClass"
    api_version: str = "karpenter.k8s.aws/v1"
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class NodeOverlaySpec(Struct, frozen=True):
    """Spec of a NodeOverlay. `price` is per hour; `price_adjustment` is a number or a share with a sign."""

    requirements: tuple[NodeRequirement, ...] | None = None
    price: str | None = None
    price_adjustment: str | None = None
    capacity: Resources = {}
    weight: Int32 | None = None


class NodeOverlay(Object, frozen=True):
    """Another price, or more resources, for some instance types of the provider."""

    kind: str = "NodeOverlay"
    api_version: str = "karpenter.sh/v1alpha1"
    spec: NodeOverlaySpec = NodeOverlaySpec()


KINDS = (NodePool, NodeClaim, EC2NodeClass, NodeOverlay)
"""The kinds of this module that files are decoded to."""
