"""Objects that own or select pods: Service and the workload controllers; and PriorityClass."""

from __future__ import annotations

import re
from typing import Annotated

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.errors import InputError

from .field_rules import between, int_or_percent, labels, one_of, required
from .meta import Condition, Int32, LabelSelector, Object, ObjectMeta, Struct
from .pod import PersistentVolumeClaimTemplate, PodSpec, PreemptionPolicy

MAX_PODS = 2_000_000
"""Maximum number of pods that the workloads of a cluster may request."""

_Replicas = Annotated[Int32 | None, between(0, MAX_PODS)]


class PodTemplateSpec(Struct, frozen=True):
    """Template of a workload's pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class ServiceSpec(Struct, frozen=True):
    """Spec of a service."""

    selector: dict[str, str] | None = None


class Service(Object, frozen=True):
    """A service."""

    kind: str = "Service"
    api_version: str = "v1"
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    """Spec of a replication controller."""

    replicas: _Replicas = None
    selector: Annotated[dict[str, str] | None, labels] = None
    template: Annotated[PodTemplateSpec | None, required] = None


class ReplicationController(Object, frozen=True):
    """A replication controller."""

    kind: str = "ReplicationController"
    api_version: str = "v1"
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


def _check_selector(selector: LabelSelector | None, template: PodTemplateSpec) -> None:
    """Check that a selector matches the pods of a template."""
    if selector is not None and not LabelSelectorMatcher(selector).matches(template.metadata.labels):
        raise InputError("spec.selector does not match them", path="template.metadata.labels")


class ReplicaSetSpec(Struct, frozen=True):
    """Spec of a ReplicaSet or Deployment."""

    replicas: _Replicas = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()

    def check(self) -> None:
        _check_selector(self.selector, self.template)


class ReplicaSet(Object, frozen=True):
    """A ReplicaSet."""

    kind: str = "ReplicaSet"
    api_version: str = "apps/v1"
    spec: ReplicaSetSpec = ReplicaSetSpec()


class RollingUpdateDeployment(Struct, frozen=True):
    """How many pods a rolling update may add, and how many may be unavailable; None is 25%."""

    max_unavailable: Annotated[Int32 | str | None, int_or_percent()] = None
    max_surge: Annotated[Int32 | str | None, int_or_percent(limited=False)] = None


class DeploymentStrategy(Struct, frozen=True):
    """How a Deployment replaces its pods; "" is RollingUpdate."""

    type: Annotated[str, one_of("Recreate", "RollingUpdate")] = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(ReplicaSetSpec, frozen=True):
    """Spec of a Deployment."""

    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: Annotated[Int32, between(0)] = 0
    paused: bool = False


class Deployment(Object, frozen=True):
    """A Deployment."""

    kind: str = "Deployment"
    api_version: str = "apps/v1"
    spec: DeploymentSpec = DeploymentSpec()


class StatefulSetOrdinals(Struct, frozen=True):
    """The first ordinal of a StatefulSet."""

    start: Int32 = 0


class StatefulSetSpec(ReplicaSetSpec, frozen=True):
    """Spec of a StatefulSet."""

    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()
    ordinals: StatefulSetOrdinals | None = None


class StatefulSet(Object, frozen=True):
    """A StatefulSet."""

    kind: str = "StatefulSet"
    api_version: str = "apps/v1"
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(Struct, frozen=True):
    """Spec of a DaemonSet."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()

    def check(self) -> None:
        _check_selector(self.selector, self.template)


class DaemonSet(Object, frozen=True):
    """A DaemonSet."""

    kind: str = "DaemonSet"
    api_version: str = "apps/v1"
    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(Struct, frozen=True):
    """Spec of a Job."""

    parallelism: Annotated[Int32 | None, between(0)] = None
    completions: Annotated[Int32 | None, between(0)] = None
    completion_mode: Annotated[str | None, one_of("NonIndexed", "Indexed")] = None
    suspend: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()

    def check(self) -> None:
        if self.completion_mode == "Indexed" and self.completions is None:
            raise InputError("required for an indexed Job", path="completions")


def _check_indexes(text: str | None) -> None:
    if text and re.fullmatch(r"\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*", text) is None:
        raise InputError(f'"{text}" is not a list of indexes like 1,3-5')


class JobStatus(Struct, frozen=True):
    """Status of a Job."""

    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    completion_time: str | None = None
    completed_indexes: Annotated[str, _check_indexes] = ""
    failed_indexes: Annotated[str | None, _check_indexes] = None
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True):
    """A Job."""

    kind: str = "Job"
    api_version: str = "batch/v1"
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class PriorityClass(Object, frozen=True):
    """A priority class."""

    kind: str = "PriorityClass"
    api_version: str = "scheduling.k8s.io/v1"
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: PreemptionPolicy = None


KINDS = (Service, ReplicationController, ReplicaSet, Deployment, StatefulSet, DaemonSet, Job, PriorityClass)
"""The kinds of this module that files are decoded to."""
