"""Objects that own or select pods: Service and the controllers, and PriorityClass."""

from __future__ import annotations

from .meta import Condition, Int32, LabelSelector, Object, ObjectMeta, Struct
from .pod import PersistentVolumeClaimTemplate, PodSpec


class PodTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class ServiceSpec(Struct, frozen=True):
    selector: dict[str, str] | None = None


class Service(Object, frozen=True):
    kind: str = "Service"
    api_version: str = "v1"
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    replicas: Int32 | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class ReplicationController(Object, frozen=True):
    kind: str = "ReplicationController"
    api_version: str = "v1"
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ReplicaSetSpec(Struct, frozen=True):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(Object, frozen=True):
    kind: str = "ReplicaSet"
    api_version: str = "apps/v1"
    spec: ReplicaSetSpec = ReplicaSetSpec()


class DeploymentSpec(Struct, frozen=True):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Deployment(Object, frozen=True):
    kind: str = "Deployment"
    api_version: str = "apps/v1"
    spec: DeploymentSpec = DeploymentSpec()


class StatefulSetOrdinals(Struct, frozen=True):
    start: Int32 = 0


class StatefulSetSpec(Struct, frozen=True):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()
    ordinals: StatefulSetOrdinals | None = None


class StatefulSet(Object, frozen=True):
    kind: str = "StatefulSet"
    api_version: str = "apps/v1"
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(Struct, frozen=True):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSet(Object, frozen=True):
    kind: str = "DaemonSet"
    api_version: str = "apps/v1"
    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(Struct, frozen=True):
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Struct, frozen=True):
    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    completion_time: str | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True):
    kind: str = "Job"
    api_version: str = "batch/v1"
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class PriorityClass(Object, frozen=True):
    kind: str = "PriorityClass"
    api_version: str = "scheduling.k8s.io/v1"
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None
