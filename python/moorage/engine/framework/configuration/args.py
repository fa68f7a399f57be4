"""The arguments of in-tree plugins (``kubescheduler.config.k8s.io/v1``, ``…Args``)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from moorage.kube.model.meta import Int32, Int64

from .types import Duration, Part, Typed

PodTopologySpreadConstraintsDefaulting = Annotated[
    str, Meta(title="v1.PodTopologySpreadConstraintsDefaulting")
]
ScoringStrategyType = Annotated[str, Meta(title="v1.ScoringStrategyType")]
NodeSelectorOperator = Annotated[str, Meta(title="v1.NodeSelectorOperator")]
LabelSelectorOperator = Annotated[str, Meta(title="v1.LabelSelectorOperator")]
UnsatisfiableConstraintAction = Annotated[str, Meta(title="v1.UnsatisfiableConstraintAction")]
NodeInclusionPolicy = Annotated[str, Meta(title="v1.NodeInclusionPolicy")]

SYSTEM_DEFAULTING = "System"
LIST_DEFAULTING = "List"
LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
STRATEGIES = LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO


class Args(Typed, kw_only=True):
    """The arguments of one plugin."""


class DefaultPreemptionArgs(Args, kw_only=True):
    """Arguments of DefaultPreemption: minimum number and percentage of candidate nodes."""

    min_candidate_nodes_percentage: Int32 | None = None
    min_candidate_nodes_absolute: Int32 | None = None


class InterPodAffinityArgs(Args, kw_only=True):
    """Arguments of InterPodAffinity."""

    always = ("ignore_preferred_terms_of_existing_pods",)
    hard_pod_affinity_weight: Int32 | None = None
    ignore_preferred_terms_of_existing_pods: bool = False


class ResourceSpec(Part, kw_only=True):
    """A resource and its weight in a score."""

    always = ("name",)
    name: str = ""
    weight: Int64 = 0


class UtilizationShapePoint(Part, kw_only=True):
    """A point of a piecewise linear function: utilization in percent, score from 0 to 10."""

    always = ("utilization", "score")
    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(Part, kw_only=True):
    """The piecewise linear function of the strategy RequestedToCapacityRatio."""

    shape: list[UtilizationShapePoint] | None = None


class ScoringStrategy(Part, kw_only=True):
    """The scoring strategy of NodeResourcesFit, with its resources."""

    type: ScoringStrategyType = ""
    resources: list[ResourceSpec] | None = None
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(Args, kw_only=True):
    """Arguments of NodeResourcesFit."""

    ignored_resources: list[str] | None = None
    ignored_resource_groups: list[str] | None = None
    scoring_strategy: ScoringStrategy | None = None


class NodeResourcesBalancedAllocationArgs(Args, kw_only=True):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: list[ResourceSpec] | None = None


class LabelSelectorRequirement(Part, kw_only=True):
    """A requirement on a label (meta/v1)."""

    always = ("key", "operator")
    key: str = ""
    operator: LabelSelectorOperator = ""
    values: list[str] | None = None


class LabelSelector(Part, kw_only=True):
    """A label selector (meta/v1)."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class TopologySpreadConstraint(Part, kw_only=True):
    """A topology spread constraint (core/v1)."""

    always = ("max_skew", "topology_key", "when_unsatisfiable")
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: UnsatisfiableConstraintAction = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: NodeInclusionPolicy | None = None
    node_taints_policy: NodeInclusionPolicy | None = None
    match_label_keys: list[str] | None = None


class PodTopologySpreadArgs(Args, kw_only=True):
    """Arguments of PodTopologySpread."""

    default_constraints: list[TopologySpreadConstraint] | None = None
    defaulting_type: PodTopologySpreadConstraintsDefaulting = ""


class VolumeBindingArgs(Args, kw_only=True):
    """Arguments of VolumeBinding; the timeout is in seconds."""

    bind_timeout_seconds: Int64 | None = None
    shape: list[UtilizationShapePoint] | None = None


class NodeSelectorRequirement(Part, kw_only=True):
    """A requirement on a label or field of a node (core/v1)."""

    always = ("key", "operator")
    key: str = ""
    operator: NodeSelectorOperator = ""
    values: list[str] | None = None


class NodeSelectorTerm(Part, kw_only=True):
    """Requirements of which a node must meet all (core/v1)."""

    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Part, kw_only=True):
    """Terms of which a node must match one (core/v1)."""

    always = ("node_selector_terms",)
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Part, kw_only=True):
    """A node selector term with a weight (core/v1)."""

    always = ("weight", "preference")
    weight: Int32 = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(Part, kw_only=True):
    """Required and preferred node affinity (core/v1)."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredSchedulingTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class NodeAffinityArgs(Args, kw_only=True):
    """Arguments of NodeAffinity."""

    added_affinity: NodeAffinity | None = None


class DynamicResourcesArgs(Args, kw_only=True):
    """Arguments of DynamicResources."""

    always = ("filter_timeout",)
    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None


ARGS: dict[str, type[Args]] = {kind.__name__.removesuffix("Args"): kind for kind in Args.__subclasses__()}
"""Struct of the arguments by plugin."""
