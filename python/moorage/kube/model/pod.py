"""Pod and the parts of its spec and status that scheduling reads (core/v1)."""

from typing import Any, ClassVar

from msgspec import field

from .meta import (
    Condition,
    Int32,
    Int64,
    LabelSelector,
    Object,
    ObjectMeta,
    Resources,
    Struct,
    Time,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

PREEMPTS = "PreemptLowerPriority"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class ContainerPort(Struct, frozen=True):
    """A port of a container."""

    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class ResourceClaimUse(Struct, frozen=True):
    """The use of a pod's resource claim by a container."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Struct, frozen=True):
    """Requests and limits of a container or pod."""

    requests: Resources = {}
    limits: Resources = {}
    claims: tuple[ResourceClaimUse, ...] = ()


class ContainerRestartRule(Struct, frozen=True):
    """A rule for restarts of a container."""

    action: str = ""


class Container(Struct, frozen=True):
    """A container of a pod."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class NodeSelectorRequirement(Struct, frozen=True):
    """A requirement on a label or field of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    """Requirements of which a node must meet all."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    """Terms of which a node must match one."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True):
    """A node selector term with a weight."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    """Required and preferred node affinity."""

    required: NodeSelector | None = field(default=None, name=_REQUIRED)
    preferred: tuple[PreferredSchedulingTerm, ...] | None = field(default=None, name=_PREFERRED)


class PodAffinityTerm(Struct, frozen=True):
    """Pods selected by labels and namespaces, and the topology key of their domain."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    """A pod affinity term with a weight."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """Required and preferred pod affinity, or anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name=_REQUIRED)
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(default=(), name=_PREFERRED)


class Affinity(Struct, frozen=True):
    """Node affinity, pod affinity and pod anti-affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    """A toleration of taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    """A topology spread constraint."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    """A volume source that names a claim."""

    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimSpec(Struct, frozen=True):
    """Spec of a persistent volume claim."""

    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()


class PersistentVolumeClaimTemplate(Struct, frozen=True):
    """Template of a persistent volume claim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Struct, frozen=True):
    """A volume source with a claim template."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class EmptyDirVolumeSource(Struct, frozen=True):
    """A directory whose data goes with the pod."""

    medium: str = ""


class HostPathVolumeSource(Struct, frozen=True):
    """A directory or file of the node."""

    path: str = ""


class ProjectedVolumeSource(Struct, frozen=True):
    """Files from several sources, such as the token of a service account."""


class ImageVolumeSource(Struct, frozen=True):
    """A volume source from an image."""

    reference: str = ""


class DiskVolumeSource(Struct, frozen=True):
    """The identifying fields of in-tree disks, for VolumeRestrictions and NodeVolumeLimits."""

    volume_id: str = field(default="", name="volumeID")
    pd_name: str = ""
    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    volume_path: str = ""
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    iqn: str = ""
    target_portal: str = ""
    lun: Int32 = 0
    driver: str = ""
    kind: str | None = None
    read_only: bool = False


class Volume(Struct, frozen=True):
    """A volume of a pod."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    gce_persistent_disk: DiskVolumeSource | None = None
    aws_elastic_block_store: DiskVolumeSource | None = None
    azure_disk: DiskVolumeSource | None = None
    cinder: DiskVolumeSource | None = None
    portworx_volume: DiskVolumeSource | None = None
    azure_file: DiskVolumeSource | None = None
    vsphere_volume: DiskVolumeSource | None = None
    iscsi: DiskVolumeSource | None = None
    rbd: DiskVolumeSource | None = None
    csi: DiskVolumeSource | None = None


class PodSchedulingGate(Struct, frozen=True):
    """A scheduling gate of a pod."""

    name: str = ""


class PodSchedulingGroup(Struct, frozen=True):
    """A pod's reference to its pod group."""

    pod_group_name: str = ""


class PodOS(Struct, frozen=True):
    """The operating system of a pod's containers; its kubelet refuses a pod for another one."""

    name: str = ""


class PodResourceClaim(Struct, frozen=True):
    """A resource claim of a pod, or the template of one."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Struct, frozen=True):
    """Spec of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    runtime_class_name: str | None = None
    active_deadline_seconds: Int64 | None = None
    preemption_policy: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    os: PodOS | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None


class ContainerStateTerminated(Struct, frozen=True):
    """How a container has ended."""

    exit_code: Int32 = 0


class ContainerStateWaiting(Struct, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""


class ContainerState(Struct, frozen=True):
    """State of a container."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True):
    """Status of a container."""

    name: str = ""
    restart_count: Int32 = 0
    state: ContainerState | None = None
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    """The name of a generated resource claim."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct, frozen=True):
    """The request of a claim that serves an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Struct, frozen=True):
    """The resource claim that serves a pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(Struct, frozen=True):
    """What the devices of a claim take of the node's own resources, and the containers that use the claim."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: Resources = {}


class PodStatus(Struct, frozen=True):
    """Status of a pod."""

    phase: str = ""
    start_time: Time | None = None
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None
    qos_class: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


POD_PENDING = PodStatus(phase="Pending")
"""Status of a new pod."""
POD_GATED = PodStatus(
    phase="Pending",
    conditions=(
        Condition(
            type="PodScheduled",
            status="False",
            reason="SchedulingGated",
            message="Scheduling is blocked due to non-empty scheduling gates",
        ),
    ),
)
"""Status of a new pod with scheduling gates, as the API server writes it."""
DISRUPTION_TARGET = "DisruptionTarget"
"""Type of the condition of a pod that is deleted because of a disruption; its reason says of which."""


def disruption_condition(reason: str, message: str) -> Condition:
    """Return the condition of a pod that is deleted because of a disruption.

    Parameters
    ----------
    reason : str
        ``EvictionByEvictionAPI``, ``PreemptionByScheduler``, ….
    """
    return Condition(type=DISRUPTION_TARGET, status="True", reason=reason, message=message)


class UnreadFields(str):
    """The fields of the spec of a new pod that scheduling does not read; see `PodTemplateSpec.unread`.

    They tell whether the pod is admitted. Nobody keeps them longer, so pods that differ in them alone are
    equal.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return hash(None)


class Pod(Object, frozen=True, dict=True, gc=True):
    """A pod (core/v1).

    Attributes
    ----------
    unread : UnreadFields or None
        None where they are not known: of pods that were made in Python, that exist already, or whose template
        does not stand in the input.
    """

    interned: ClassVar[object] = None  # the class of the pod, which the core stores in the object

    kind: str = "Pod"
    api_version: str = "v1"
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    unread: Any = field(default=None, name="$unread")

    def claim_key(self, volume: Volume) -> str | None:
        """Return the key (``namespace/name``) of the claim of a volume of the pod.

        Returns
        -------
        str or None
            None for a volume without a claim.
        """
        if volume.persistent_volume_claim is not None:
            return f"{self.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        if volume.ephemeral is None:
            return None
        return f"{self.metadata.namespace}/{self.metadata.name}-{volume.name}"

    def claim_keys(self) -> tuple[str, ...]:
        """Return the keys (``namespace/name``) of the claims of all volumes of the pod."""
        return tuple(filter(None, map(self.claim_key, self.spec.volumes)))


KINDS = (Pod,)
"""The kinds of this module that files are decoded to."""


def is_api_server(obj: Object) -> bool:
    """Whether an object is a pod of the API server, which a kubelet runs by itself."""
    return obj.namespace == "kube-system" and obj.kind == "Pod" and obj.name.startswith("kube-apiserver")
