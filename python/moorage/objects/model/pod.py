"""Pod: every field that scheduling reads."""

from __future__ import annotations

from msgspec import field

from .meta import Condition, Int32, Int64, LabelSelector, Object, ObjectMeta, Resources, Struct


class ContainerPort(Struct, frozen=True):
    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class ResourceClaimUse(Struct, frozen=True):
    name: str = ""
    request: str = ""


class ResourceRequirements(Struct, frozen=True):
    requests: Resources = {}
    limits: Resources = {}
    claims: tuple[ResourceClaimUse, ...] = ()


class ContainerRestartRule(Struct, frozen=True):
    action: str = ""


class Container(Struct, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class NodeSelectorRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """Pod affinity or pod anti-affinity: both have this form."""

    required: tuple[PodAffinityTerm, ...] = field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimSpec(Struct, frozen=True):
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()


class PersistentVolumeClaimTemplate(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Struct, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(Struct, frozen=True):
    reference: str = ""


class DiskVolumeSource(Struct, frozen=True):
    """The identifying fields of in-tree disks, for VolumeRestrictions and NodeVolumeLimits."""

    volume_id: str = field(default="", name="volumeID")
    pd_name: str = ""
    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    iqn: str = ""
    target_portal: str = ""
    lun: Int32 = 0
    driver: str = ""
    read_only: bool = False


class Volume(Struct, frozen=True):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None
    gce_persistent_disk: DiskVolumeSource | None = None
    aws_elastic_block_store: DiskVolumeSource | None = None
    azure_disk: DiskVolumeSource | None = None
    cinder: DiskVolumeSource | None = None
    iscsi: DiskVolumeSource | None = None
    rbd: DiskVolumeSource | None = None
    csi: DiskVolumeSource | None = None


class PodSchedulingGate(Struct, frozen=True):
    name: str = ""


class PodSchedulingGroup(Struct, frozen=True):
    pod_group_name: str = ""


class PodResourceClaim(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
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
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodExtendedResourceClaimStatus(Struct, frozen=True):
    resource_claim_name: str = ""


class PodStatus(Struct, frozen=True):
    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None
    qos_class: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(Object, frozen=True, dict=True, gc=True):
    kind: str = "Pod"
    api_version: str = "v1"
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
