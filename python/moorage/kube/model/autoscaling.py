"""Objects that autoscalers read: of pods, and of Karpenter's nodes."""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from .meta import Condition, Int32, Object, Resources, Struct
from .node import Taint
from .workload import WorkloadStatus


class CrossVersionObjectReference(Struct, frozen=True):
    """A workload of the namespace."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class MetricTarget(Struct, frozen=True):
    """What a metric is to reach."""

    type: str = ""


class ResourceMetric(Struct, frozen=True):
    """The use of a resource by the pods of the target."""

    name: str = ""
    target: MetricTarget = MetricTarget()


class MetricSpec(Struct, frozen=True):
    """A metric by which an autoscaler scales."""

    type: str = ""
    resource: ResourceMetric | None = None


class HorizontalPodAutoscalerSpec(Struct, frozen=True):
    """Spec of a HorizontalPodAutoscaler; `min_replicas` None is 1; without metrics it is the used share of
    requested cpu that counts."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: Int32 | None = None
    max_replicas: Int32 = 0
    metrics: tuple[MetricSpec, ...] = ()


class HorizontalPodAutoscaler(Object, frozen=True):
    """A HorizontalPodAutoscaler, of any version."""

    kind: str = "HorizontalPodAutoscaler"
    api_version: str = "autoscaling/v2"
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: WorkloadStatus = WorkloadStatus()


class ScaleTarget(Struct, frozen=True):
    """The workload of a ScaledObject; "" is a Deployment."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class ScaledObjectSpec(Struct, frozen=True):
    """Spec of a ScaledObject; None is 0 at least and 100 at most, and idle is as at least."""

    scale_target_ref: ScaleTarget = ScaleTarget()
    idle_replica_count: Int32 | None = None
    min_replica_count: Int32 | None = None
    max_replica_count: Int32 | None = None


class ScaledObject(Object, frozen=True):
    """A ScaledObject of KEDA, which makes a HorizontalPodAutoscaler and scales to zero itself."""

    kind: str = "ScaledObject"
    api_version: str = "keda.sh/v1alpha1"
    spec: ScaledObjectSpec = ScaledObjectSpec()


class ContainerResourcePolicy(Struct, frozen=True):
    """What an autoscaler may do to a container, or to ``*``, all that have no policy of their own."""

    container_name: str = ""
    mode: str = ""
    min_allowed: Resources = {}
    max_allowed: Resources = {}
    controlled_resources: tuple[str, ...] | None = None
    controlled_values: str = ""


class PodResourcePolicy(Struct, frozen=True):
    """The policies of an autoscaler by container."""

    container_policies: tuple[ContainerResourcePolicy, ...] = ()


class PodUpdatePolicy(Struct, frozen=True):
    """When an autoscaler applies what it recommends; "" is Recreate."""

    update_mode: str = ""


class VerticalPodAutoscalerSpec(Struct, frozen=True):
    """Spec of a VerticalPodAutoscaler."""

    target_ref: CrossVersionObjectReference | None = None
    update_policy: PodUpdatePolicy = PodUpdatePolicy()
    resource_policy: PodResourcePolicy = PodResourcePolicy()


class RecommendedContainerResources(Struct, frozen=True):
    """The requests that suit a container."""

    container_name: str = ""
    target: Resources = {}


class RecommendedPodResources(Struct, frozen=True):
    """The requests that suit the containers of a pod."""

    containers: tuple[RecommendedContainerResources, ...] = field(default=(), name="containerRecommendations")


class VerticalPodAutoscalerStatus(Struct, frozen=True):
    """Status of a VerticalPodAutoscaler; None before it has seen its pods for long enough."""

    recommendation: RecommendedPodResources | None = None


class VerticalPodAutoscaler(Object, frozen=True):
    """A VerticalPodAutoscaler, which gives new pods of its target the requests that it recommends."""

    kind: str = "VerticalPodAutoscaler"
    api_version: str = "autoscaling.k8s.io/v1"
    spec: VerticalPodAutoscalerSpec = VerticalPodAutoscalerSpec()
    status: VerticalPodAutoscalerStatus = VerticalPodAutoscalerStatus()


PRIORITIES, STATUS = "cluster-autoscaler-priority-expander", "cluster-autoscaler-status"
"""ConfigMaps that cluster-autoscaler reads and writes."""
KUEUE_KEY = "controller_manager_config.yaml"
"""What the ConfigMap with Kueue's configuration holds, whatever its name."""


class ConfigMap(Object, frozen=True):
    """A ConfigMap of cluster-autoscaler or Kueue. Files may have many others, which are not read."""

    kind: str = "ConfigMap"
    api_version: str = "v1"
    data: dict[str, str] = {}


class MachineGroup(Object, frozen=True):
    """The sizes of a set of machines that cluster-autoscaler scales, as which it is named: annotations of
    Cluster API, or a MachineAutoscaler of OpenShift, whose set is its `target`. `capacity` has what
    annotations say of its nodes, those of OpenShift with their whole keys."""

    kind: str = "MachineGroup"
    api_version: str = "moorage.dev/v1"
    source: str = ""
    min_size: Int32 = 0
    max_size: Int32 = 0
    capacity: dict[str, str] = {}
    target: str = ""


CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
"""How annotations begin that say what nodes of a set of machines would be."""
MACHINE_CAPACITY = {
    f"machine.openshift.io/{key}": name
    for key, name in (("vCPU", "cpu"), ("memoryMb", "memory"), ("GPU", "gpu-count"), ("maxPods", "maxPods"))
}
"""Annotations of OpenShift, and which of the others its operator makes of them."""


def annotated_sizes(annotations: Mapping[str, str]) -> tuple[str, str]:
    """Return the least and the greatest size that annotations of Cluster API or OpenShift give a set of
    machines; "" for none."""
    least, most = (
        next((value for key, value in annotations.items() if key.endswith(f"node-group-{end}-size")), "")
        for end in ("min", "max")
    )
    return least, most


class AutoscalerFlags(Object, frozen=True):
    """The arguments of a Deployment of cluster-autoscaler, as which it is named."""

    kind: str = "AutoscalerFlags"
    api_version: str = "moorage.dev/v1"
    words: tuple[str, ...] = ()


class KarpenterSettings(Object, frozen=True):
    """The environment of a Deployment of Karpenter, as which it is named. Flags are there under the names of
    their variables, which they go before."""

    kind: str = "KarpenterSettings"
    api_version: str = "moorage.dev/v1"
    values: dict[str, str] = {}


KINDS = (
    *(HorizontalPodAutoscaler, ScaledObject, VerticalPodAutoscaler),
    *(AutoscalerFlags, KarpenterSettings, MachineGroup),
)
"""The kinds of this module that files are decoded to, those included that only dumps have."""


# ---- karpenter ---------------------------------------------------------------------------------------------
#
# NodePool and NodeClaim of Karpenter (karpenter.sh/v1); `kube.apiserver.custom_schemas` has their rules.


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

    labels: dict[str, str] = {}
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


class ProviderNodeClass(Object, frozen=True):
    """How nodes of a provider are made. It knows the fields: they are as written."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class EC2NodeClass(ProviderNodeClass, frozen=True):
    """How nodes of AWS are made."""

    kind: str = "EC2NodeClass"
    api_version: str = "karpenter.k8s.aws/v1"


class AKSNodeClass(ProviderNodeClass, frozen=True):
    """How nodes of Azure are made."""

    kind: str = "AKSNodeClass"
    api_version: str = "karpenter.azure.com/v1beta1"


class GCENodeClass(ProviderNodeClass, frozen=True):
    """How nodes of GCP are made."""

    kind: str = "GCENodeClass"
    api_version: str = "karpenter.k8s.gcp/v1alpha1"


class NodeClass(ProviderNodeClass, frozen=True):
    """How nodes of EKS Auto Mode are made."""

    kind: str = "NodeClass"
    api_version: str = "eks.amazonaws.com/v1"


NODE_CLASSES: tuple[type[ProviderNodeClass], ...] = (EC2NodeClass, NodeClass, AKSNodeClass, GCENodeClass)


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


class LocalObjectRef(Struct, frozen=True):
    """A PodTemplate of the namespace."""

    name: str = ""


class ScalableRef(Struct, frozen=True):
    """A workload of the namespace; without a group it is of apps."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class CapacityBufferSpec(Struct, frozen=True):
    """Spec of a CapacityBuffer: how many pods of which template its room is for."""

    pod_template_ref: LocalObjectRef | None = None
    scalable_ref: ScalableRef | None = None
    replicas: Int32 | None = None
    percentage: Int32 | None = None
    limits: Resources = {}


class CapacityBuffer(Object, frozen=True):
    """Room for pods that an autoscaler keeps free."""

    kind: str = "CapacityBuffer"
    api_version: str = "autoscaling.x-k8s.io/v1beta1"
    spec: CapacityBufferSpec = CapacityBufferSpec()


KARPENTER_KINDS: tuple[type[Object], ...] = (
    *(NodePool, NodeClaim, NodeOverlay, CapacityBuffer),
    *NODE_CLASSES,
)
"""The kinds of this module that files are decoded to."""
