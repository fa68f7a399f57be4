"""Objects that own or select pods: Service and the workload controllers; and PriorityClass."""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from ..go_texts import go_json
from .meta import (
    Condition,
    Int32,
    Int64,
    LabelSelector,
    Object,
    ObjectMeta,
    Struct,
)
from .pod import PersistentVolumeClaimTemplate, PodSpec

KUEUE = "kueue.x-k8s.io"
"""The API group of Kueue."""
QUEUE = f"{KUEUE}/queue-name"
"""The label by which a job names its queue."""
DEFAULT_QUEUE = "default"
"""The queue of jobs of its namespace that name none."""
MIN_PARALLELISM = f"{KUEUE}/job-min-parallelism"
"""The annotation of a Job with the fewest pods that it may be admitted with."""
MAX_PODS = 2_000_000
"""Maximum number of pods that the workloads of a cluster may request."""


class PodTemplateSpec(Struct, frozen=True):
    """Template of a workload's pods.

    Attributes
    ----------
    unread : str
        The fields of the spec that scheduling does not read, such as environment variables and probes, as
        JSON text without the API server's defaults; "" where there are none. Equal fields have equal texts.
        Controllers compare whole templates, so a change of such a field is a rollout. Digests stand for
        values of environment variables, arguments and commands.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    unread: str = field(default="", name="$unread")


class PodTemplate(Object, frozen=True):
    """A template by itself, which other objects name."""

    kind: str = "PodTemplate"
    api_version: str = "v1"
    template: PodTemplateSpec = PodTemplateSpec()


class ServicePort(Struct, frozen=True):
    """A port of a service."""

    port: Int32 = 0
    node_port: Int32 = 0


class ServiceSpec(Struct, frozen=True):
    """Spec of a service."""

    selector: dict[str, str] | None = None
    type: str = ""
    ports: tuple[ServicePort, ...] = ()
    allocate_load_balancer_node_ports: bool | None = None


class Service(Object, frozen=True):
    """A service."""

    kind: str = "Service"
    api_version: str = "v1"
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    """Spec of a replication controller."""

    replicas: Int32 | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None
    min_ready_seconds: Int32 = 0


class WorkloadStatus(Struct, frozen=True):
    """Status of a workload, or of its autoscaler: what its controller has seen."""

    conditions: tuple[Condition, ...] = ()


class ReplicationController(Object, frozen=True):
    """A replication controller."""

    kind: str = "ReplicationController"
    api_version: str = "v1"
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: WorkloadStatus = WorkloadStatus()


def unselected(labels: Mapping[str, str]) -> str:
    """Return the text of an error: a selector does not match the labels of its template."""
    shown = go_json(dict(sorted(labels.items())) or None)
    return f"Invalid value: {shown}: `selector` does not match template `labels`"


class ReplicaSetSpec(Struct, frozen=True):
    """Spec of a ReplicaSet or Deployment."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: Int32 = 0


class ReplicaSet(Object, frozen=True):
    """A ReplicaSet."""

    kind: str = "ReplicaSet"
    api_version: str = "apps/v1"
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: WorkloadStatus = WorkloadStatus()


class RollingUpdateDeployment(Struct, frozen=True):
    """How many pods a rolling update may add, and how many may be unavailable."""

    max_unavailable: Int32 | str | None = None
    max_surge: Int32 | str | None = None


class DeploymentStrategy(Struct, frozen=True):
    """How a Deployment replaces its pods; "" is RollingUpdate."""

    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(ReplicaSetSpec, frozen=True):
    """Spec of a Deployment."""

    strategy: DeploymentStrategy = DeploymentStrategy()
    paused: bool = False
    progress_deadline_seconds: Int32 | None = None
    revision_history_limit: Int32 | None = None


class DeploymentCondition(Condition, frozen=True):
    """A condition of a Deployment."""

    last_update_time: str | None = None


class DeploymentStatus(Struct, frozen=True):
    """Status of a Deployment: whether its rollout progresses."""

    conditions: tuple[DeploymentCondition, ...] = ()


class Deployment(Object, frozen=True):
    """A Deployment."""

    kind: str = "Deployment"
    api_version: str = "apps/v1"
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class StatefulSetOrdinals(Struct, frozen=True):
    """The first ordinal of a StatefulSet."""

    start: Int32 = 0


class RollingUpdateStatefulSetStrategy(Struct, frozen=True):
    """Which pods a rolling update replaces, and how many at once; None is 0 and 1.

    Before 1.37 the API server drops `max_unavailable` before it looks at it.
    """

    partition: Int32 | None = None
    max_unavailable: Int32 | str | None = None


class StatefulSetUpdateStrategy(Struct, frozen=True):
    """How a StatefulSet replaces its pods; "" is RollingUpdate."""

    type: str = ""
    rolling_update: RollingUpdateStatefulSetStrategy | None = None


class ClaimRetentionPolicy(Struct, frozen=True):
    """What becomes of claims with their StatefulSet, and with pods beyond the replicas; "" is Retain."""

    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetSpec(ReplicaSetSpec, frozen=True):
    """Spec of a StatefulSet."""

    service_name: str = ""
    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()
    ordinals: StatefulSetOrdinals | None = None
    pod_management_policy: str = ""
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy = ClaimRetentionPolicy()
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    revision_history_limit: Int32 | None = None


class StatefulSetStatus(WorkloadStatus, frozen=True):
    """Status of a StatefulSet: the names of its revisions."""

    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(Object, frozen=True):
    """A StatefulSet."""

    kind: str = "StatefulSet"
    api_version: str = "apps/v1"
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class RollingUpdateDaemonSet(Struct, frozen=True):
    """How many pods may be unavailable, and how many nodes may have two."""

    max_unavailable: Int32 | str | None = None
    max_surge: Int32 | str | None = None


class DaemonSetUpdateStrategy(Struct, frozen=True):
    """How a DaemonSet replaces its pods; "" is RollingUpdate."""

    type: str = ""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(Struct, frozen=True):
    """Spec of a DaemonSet."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None


class DaemonSetStatus(WorkloadStatus, frozen=True):
    """Status of a DaemonSet."""

    updated_number_scheduled: Int32 = 0


class DaemonSet(Object, frozen=True):
    """A DaemonSet."""

    kind: str = "DaemonSet"
    api_version: str = "apps/v1"
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(Object, frozen=True):
    """A template that a StatefulSet or a DaemonSet has or had.

    Attributes
    ----------
    data : object
        ``{"spec": {"template": PodTemplateSpec}}``, or what another controller keeps.
    revision : int
        Increases with each change.
    """

    kind: str = "ControllerRevision"
    api_version: str = "apps/v1"
    data: Any = None
    revision: Int64 = 0


class PodFailurePolicyOnExitCodes(Struct, frozen=True):
    """The exit codes of containers that a rule matches."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[Int32, ...] = ()


class PodFailurePolicyOnPodCondition(Struct, frozen=True):
    """A condition of pods that a rule matches."""

    type: str = ""
    status: str = "True"


class PodFailurePolicyRule(Struct, frozen=True):
    """What a pod that fails in a certain way means for its Job."""

    action: str = ""
    on_exit_codes: PodFailurePolicyOnExitCodes | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodCondition, ...] = ()


class PodFailurePolicy(Struct, frozen=True):
    """Rules of which the first that matches a failed pod counts."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Struct, frozen=True):
    """Indexes of which some, or all, have to succeed."""

    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Struct, frozen=True):
    """Rules of which the first that is met makes an indexed Job succeed."""

    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(Struct, frozen=True):
    """Spec of a Job."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None
    manual_selector: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Struct, frozen=True):
    """Status of a Job."""

    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    completion_time: str | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True):
    """A Job."""

    kind: str = "Job"
    api_version: str = "batch/v1"
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(Struct, frozen=True):
    """The Jobs of a CronJob."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Struct, frozen=True):
    """Spec of a CronJob; that it runs at its times is not simulated."""

    schedule: str = ""
    time_zone: str | None = None
    suspend: bool | None = None
    starting_deadline_seconds: Int64 | None = None
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None
    concurrency_policy: str = ""
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(Object, frozen=True):
    """A CronJob."""

    kind: str = "CronJob"
    api_version: str = "batch/v1"
    spec: CronJobSpec = CronJobSpec()


class PriorityClass(Object, frozen=True):
    """A priority class."""

    kind: str = "PriorityClass"
    api_version: str = "scheduling.k8s.io/v1"
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


KINDS = (
    Service, ReplicationController, ReplicaSet, Deployment, StatefulSet, DaemonSet, ControllerRevision, Job,
    CronJob, PriorityClass, PodTemplate,
)  # fmt: skip
"""The kinds of this module that files are decoded to."""


# ---- other workloads ---------------------------------------------------------------------------------------
#
# Workloads of other projects whose pods follow from a pod template.


class RolloutSpec(ReplicaSetSpec, frozen=True):
    """Spec of a Rollout; with `workload_ref` its template is elsewhere."""

    workload_ref: dict[str, Any] | None = None
    strategy: dict[str, Any] | None = None
    paused: bool = False


class RolloutStatus(Struct, frozen=True):
    """Status of a Rollout: the label of the ReplicaSet with its template."""

    current_pod_hash: str = ""


class Rollout(Object, frozen=True):
    """A Rollout of Argo Rollouts."""

    kind: str = "Rollout"
    api_version: str = "argoproj.io/v1alpha1"
    spec: RolloutSpec = RolloutSpec()
    status: RolloutStatus = RolloutStatus()


class DeploymentConfigSpec(Struct, frozen=True):
    """Spec of a DeploymentConfig."""

    replicas: Int32 | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class DeploymentConfigStatus(Struct, frozen=True):
    """Status of a DeploymentConfig."""

    latest_version: Int32 = 0


class DeploymentConfig(Object, frozen=True):
    """A DeploymentConfig of OpenShift."""

    kind: str = "DeploymentConfig"
    api_version: str = "apps.openshift.io/v1"
    spec: DeploymentConfigSpec = DeploymentConfigSpec()
    status: DeploymentConfigStatus = DeploymentConfigStatus()


class CloneSetStatus(WorkloadStatus, frozen=True):
    """Status of a CloneSet: the name of the revision of its template."""

    update_revision: str = ""


class CloneSetSpec(ReplicaSetSpec, frozen=True):
    """Spec of a CloneSet."""

    update_strategy: dict[str, Any] | None = None


class CloneSet(ReplicaSet, frozen=True):
    """A CloneSet of OpenKruise, which controls its pods as a ReplicaSet does."""

    kind: str = "CloneSet"
    api_version: str = "apps.kruise.io/v1alpha1"
    spec: CloneSetSpec = CloneSetSpec()
    status: CloneSetStatus = CloneSetStatus()


class LeaderWorkerTemplate(Struct, frozen=True):
    """The pods of a group: a leader and `size - 1` workers; a leader without a template is as a worker."""

    leader_template: PodTemplateSpec | None = None
    worker_template: PodTemplateSpec = PodTemplateSpec()
    size: Int32 | None = None


class LeaderWorkerSetSpec(Struct, frozen=True):
    """Spec of a LeaderWorkerSet: how many groups there are."""

    replicas: Int32 | None = None
    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()


class LeaderWorkerSet(Object, frozen=True):
    """A LeaderWorkerSet."""

    kind: str = "LeaderWorkerSet"
    api_version: str = "leaderworkerset.x-k8s.io/v1"
    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()


class CustomObject(Object, frozen=True):
    """An object of a kind that scheduling does not read, from which pods may follow.

    It is in no cluster: reading ends with the pods that its operator makes (`expand_kinds`).

    Attributes
    ----------
    document : bytes
        The whole object, as JSON.
    wanted : int
        Number of pods that it asks for, as far as its fields tell.
    is_exact : bool
        Whether it gives this number; otherwise it has that many templates.
    ready : int
        Number of pods that its status calls ready.
    is_namespaced : bool
        False for a kind without namespaces.
    """

    document: bytes = b""
    wanted: int = 0
    is_exact: bool = True
    ready: int = 0
    is_namespaced: bool = True
    digest: str = ""

    @property
    def full_kind(self) -> str:
        """Kind and API group, as kubectl names them: ``Job.batch.volcano.sh``."""
        return full_kind(self.kind, self.api_version)


def full_kind(kind: str, api_version: str) -> str:
    """Return kind and API group, as kubectl names them: ``Job.batch.volcano.sh``, ``ConfigMap``."""
    group = api_version.rpartition("/")[0]
    return f"{kind}.{group}" if group else kind


OTHER_KINDS = (Rollout, DeploymentConfig, CloneSet, LeaderWorkerSet)
"""The kinds of this module that files are decoded to."""


PARENTS = (Rollout, DeploymentConfig, LeaderWorkerSet)
"""The kinds of other projects whose controllers make workloads."""
WORKLOADS: tuple[type[Object], ...] = (
    Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job, CloneSet, *PARENTS,
)  # fmt: skip
"""The kinds whose pods are made by simulated controllers."""
TEMPLATED: tuple[type[Object], ...] = (*WORKLOADS, CronJob)
"""The kinds that have a pod template."""


def is_of_kueue(obj: Object) -> bool:
    """Whether an object is one of Kueue's kinds."""
    return obj.api_version.startswith(f"{KUEUE}/")
