"""NodePool and NodeClaim of Karpenter (karpenter.sh/v1)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import field

from moorage.errors import InputError

from .field_rules import Rule, between, each, labels, one_of
from .meta import Condition, Int32, Object, Resources, Struct
from .node import Taint

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")


def _written_as(pattern: str, example: str) -> Rule:
    """The rule that a text, if there is one, has a form."""

    def rule(value: str | None) -> None:
        if value is not None and not re.fullmatch(pattern, value):
            raise InputError(f'must be like {example}, not "{value}"')

    return rule


_CRON = r"@(annually|yearly|monthly|weekly|daily|midnight|hourly)|.+\s.+\s.+\s.+\s.+"


class NodeClassReference(Struct, frozen=True):
    """The object of a provider that says how its nodes are made."""

    group: str = ""
    kind: str = ""
    name: str = ""


class NodeClaimRequirement(Struct, frozen=True):
    """A requirement on a label of new nodes, and how many of its values must be left to choose from."""

    key: str = ""
    operator: Annotated[str, one_of(*_OPERATORS, required=True)] = ""
    values: tuple[str, ...] = ()
    min_values: Annotated[Int32 | None, between(1, 50)] = None


class NodeClaimSpec(Struct, frozen=True):
    """Spec of a NodeClaim, and of the template of a pool."""

    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[NodeClaimRequirement, ...] = ()
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

    nodes: Annotated[str, _written_as("(100|[0-9]{1,2})%|[0-9]+", "10% or 3")] = "10%"
    reasons: Annotated[
        tuple[str, ...] | None, each(one_of("Underutilized", "Empty", "Drifted", "Unhealthy"))
    ] = None
    schedule: Annotated[str | None, _written_as(_CRON, "@daily or 0 9 * * 1-5")] = None
    duration: Annotated[str | None, _written_as("([0-9]+(h|m)|[0-9]+h[0-9]+m)(0s)?", "8h or 1h30m")] = None


class Disruption(Struct, frozen=True):
    """When and how nodes of a pool may go."""

    consolidate_after: Annotated[str | None, _written_as("([0-9]+(s|m|h))+|Never", "5m or Never")] = None
    consolidation_policy: Annotated[str, one_of("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")] = ""
    budgets: tuple[Budget, ...] | None = None


class NodePoolSpec(Struct, frozen=True):
    """Spec of a NodePool; one with `replicas` is static."""

    template: NodeClaimTemplate = NodeClaimTemplate()
    disruption: Disruption = Disruption()
    limits: Resources = {}
    weight: Annotated[Int32 | None, between(1, 100)] = None
    replicas: Annotated[Int32 | None, between(0)] = None


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


KINDS = (NodePool, NodeClaim, EC2NodeClass)
"""The kinds of this module that files are decoded to."""
