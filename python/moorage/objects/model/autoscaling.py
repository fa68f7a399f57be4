"""Objects that say how many replicas a workload has at least and at most."""

from __future__ import annotations

from typing import Annotated

from .field_rules import between, required
from .meta import Int32, Object, Struct
from .workload import MAX_PODS

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
    max_replicas: Annotated[Int32, between(1, MAX_PODS)] = 0


class HorizontalPodAutoscaler(Object, frozen=True):
    """A HorizontalPodAutoscaler, of any version."""

    kind: str = "HorizontalPodAutoscaler"
    api_version: str = "autoscaling/v2"
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()


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


KINDS = (HorizontalPodAutoscaler, ScaledObject)
"""The kinds of this module that files are decoded to."""
