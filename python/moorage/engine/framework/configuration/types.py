"""The structs of ``kubescheduler.config.k8s.io/v1``, and the arguments of in-tree plugins.

An attribute that may be None is a pointer in Go, or a slice if it is a list; absent and zero differ for it.
The `title` of an annotation is the Go type name that error messages print. Durations are nanoseconds.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from moorage.kube.apiserver.go_structs import Part
from moorage.kube.model.meta import Int32, Int64

GROUP = "kubescheduler.config.k8s.io"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"

Float32 = Annotated[float, Meta(title="float32")]
Duration = Annotated[int, Meta(title="v1.Duration")]
"""Nanoseconds; in JSON a string such as ``1m30s``."""


class Typed(Part, kw_only=True):
    """A part with kind and apiVersion."""

    kind: str = ""
    api_version: str = ""


class LeaderElectionConfiguration(Part, kw_only=True):
    """Settings of leader election, for a scheduler of a real cluster."""

    go_package = "v1alpha1"
    leader_elect: bool | None = None
    lease_duration: Duration = 0
    renew_deadline: Duration = 0
    retry_period: Duration = 0
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnectionConfiguration(Part, kw_only=True):
    """Settings of the connection to the API server, for a scheduler of a real cluster.

    Requests and answers are JSON there. The default of `content_type`, protobuf, stands for no choice; other
    types than JSON are refused.
    """

    go_package = "v1alpha1"
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: Float32 = 0.0
    burst: Int32 = 0


class Plugin(Part, kw_only=True):
    """A plugin's name and weight."""

    name: str = ""
    weight: Int32 | None = None


class PluginSet(Part, kw_only=True):
    """Plugins enabled and disabled at an extension point."""

    enabled: list[Plugin] | None = None
    disabled: list[Plugin] | None = None


class Plugins(Part, kw_only=True):
    """Plugin sets by extension point; attributes are the snake_case names of the points."""

    pre_enqueue: PluginSet = field(default_factory=PluginSet)
    queue_sort: PluginSet = field(default_factory=PluginSet)
    pre_filter: PluginSet = field(default_factory=PluginSet)
    filter: PluginSet = field(default_factory=PluginSet)
    post_filter: PluginSet = field(default_factory=PluginSet)
    pre_score: PluginSet = field(default_factory=PluginSet)
    score: PluginSet = field(default_factory=PluginSet)
    reserve: PluginSet = field(default_factory=PluginSet)
    permit: PluginSet = field(default_factory=PluginSet)
    pre_bind: PluginSet = field(default_factory=PluginSet)
    bind: PluginSet = field(default_factory=PluginSet)
    post_bind: PluginSet = field(default_factory=PluginSet)
    multi_point: PluginSet = field(default_factory=PluginSet)
    placement_generate: PluginSet = field(default_factory=PluginSet)
    placement_score: PluginSet = field(default_factory=PluginSet)
    placement_feasible: PluginSet = field(default_factory=PluginSet)
    pod_group_post_filter: PluginSet = field(default_factory=PluginSet)


class PluginConfig(Part, kw_only=True):
    """Arguments of one plugin.

    Attributes
    ----------
    args : Typed, JSON value or None
        An args struct (in `types.py`) if the plugin has one, else the unchanged JSON
        value.
    """

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(Part, kw_only=True):
    """A scheduling profile: its scheduler name, plugins and their arguments."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    percentage_of_placements_to_score: Int32 | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] | None = None


class ExtenderManagedResource(Part, kw_only=True):
    """An extended resource that an extender manages."""

    always = ("name",)
    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Part, kw_only=True):
    """TLS settings of the connection to an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(Part, kw_only=True):
    """An HTTP extender; a timeout of 0 stands for 5 s."""

    always = ("url_prefix", "http_timeout")
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = 0
    node_cache_capable: bool = False
    managed_resources: list[ExtenderManagedResource] | None = None
    ignorable: bool = False


class KubeSchedulerConfiguration(Typed, kw_only=True):
    """The configuration of a scheduler, with upstream's defaults after `load_configuration`."""

    embedded = dict.fromkeys(("enable_profiling", "enable_contention_profiling"), "DebuggingConfiguration")
    parallelism: Int32 | None = None
    leader_election: LeaderElectionConfiguration = field(default_factory=LeaderElectionConfiguration)
    client_connection: ClientConnectionConfiguration = field(default_factory=ClientConnectionConfiguration)
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    percentage_of_placements_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: list[KubeSchedulerProfile] | None = None
    extenders: list[Extender] | None = None
    delay_cache_until_active: bool = False


# ---- args --------------------------------------------------------------------------------------------------
# The arguments of in-tree plugins (``kubescheduler.config.k8s.io/v1``, ``…Args``).

PodTopologySpreadConstraintsDefaulting = Annotated[
    str, Meta(title="v1.PodTopologySpreadConstraintsDefaulting")
]
ScoringStrategyType = Annotated[str, Meta(title="v1.ScoringStrategyType")]
NodeAffinity = Annotated[dict[str, Any], Meta(title="core.v1.NodeAffinity")]
TopologySpreadConstraint = Annotated[dict[str, Any], Meta(title="core.v1.TopologySpreadConstraint")]
"""JSON values of structs that pods have, too."""

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


class PodTopologySpreadArgs(Args, kw_only=True):
    """Arguments of PodTopologySpread."""

    default_constraints: list[TopologySpreadConstraint] | None = None
    defaulting_type: PodTopologySpreadConstraintsDefaulting = ""


class VolumeBindingArgs(Args, kw_only=True):
    """Arguments of VolumeBinding; the timeout is in seconds."""

    bind_timeout_seconds: Int64 | None = None
    shape: list[UtilizationShapePoint] | None = None


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
