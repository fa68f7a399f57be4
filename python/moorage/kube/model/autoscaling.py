"""Objects that say how many replicas a workload has at least and at most."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from .field_rules import between, one_of, required
from .meta import Int32, Object, Resources, Struct
from .workload import MAX_PODS, WorkloadStatus

Bound = Annotated[Int32 | None, between(0, MAX_PODS)]


class CrossVersionObjectReference(Struct, frozen=True):
    """A workload of the namespace."""

    api_version: str = ""
    kind: Annotated[str, required] = ""
    name: Annotated[str, required] = ""


class HorizontalPodAutoscalerSpec(Struct, frozen=True):
    """Spec of a HorizontalPodAutoscaler; `min_replicas` None is 1."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: Bound = None
    max_replicas: Annotated[Int32, between(0, MAX_PODS)] = 0


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
    name: Annotated[str, required] = ""


class ScaledObjectSpec(Struct, frozen=True):
    """Spec of a ScaledObject; None is 0 at least and 100 at most, and idle is as at least."""

    scale_target_ref: ScaleTarget = ScaleTarget()
    idle_replica_count: Bound = None
    min_replica_count: Bound = None
    max_replica_count: Bound = None


class ScaledObject(Object, frozen=True):
    """A ScaledObject of KEDA, which makes a HorizontalPodAutoscaler and scales to zero itself."""

    kind: str = "ScaledObject"
    api_version: str = "keda.sh/v1alpha1"
    spec: ScaledObjectSpec = ScaledObjectSpec()


class ContainerResourcePolicy(Struct, frozen=True):
    """What an autoscaler may do to a container, or to ``*``, all that have no policy of their own."""

    container_name: str = ""
    mode: Annotated[str, one_of("Auto", "Off")] = ""
    min_allowed: Resources = {}
    max_allowed: Resources = {}
    controlled_resources: tuple[str, ...] | None = None
    controlled_values: Annotated[str, one_of("RequestsAndLimits", "RequestsOnly")] = ""


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


class ConfigMap(Object, frozen=True):
    """A ConfigMap of cluster-autoscaler. Files may have many others, which are not read."""

    kind: str = "ConfigMap"
    api_version: str = "v1"
    data: dict[str, str] = {}


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


KINDS = (HorizontalPodAutoscaler, ScaledObject, VerticalPodAutoscaler)
"""The kinds of this module that files are decoded to."""
