"""Kubernetes objects: structs, quantities, selectors, reading, defaults and validation.

The names are imported when they are first used (PEP 562).
"""

from typing import TYPE_CHECKING

from moorage.lazy import names_at_first_use

if TYPE_CHECKING:
    from moorage._core.base.quantity import Quantity as Quantity
    from moorage._core.base.quantity import parse_milli as parse_milli
    from moorage._core.base.quantity import parse_value as parse_value
    from moorage._core.base.selectors import LabelSelectorMatcher as LabelSelectorMatcher
    from moorage._core.base.selectors import NodeSelectorMatcher as NodeSelectorMatcher
    from moorage._core.base.selectors import parse_selector as parse_selector

    from .admission.validate_object import validate as validate
    from .model.admission_policies import MatchResources as MatchResources
    from .model.admission_policies import MutatingAdmissionPolicy as MutatingAdmissionPolicy
    from .model.admission_policies import MutatingAdmissionPolicyBinding as MutatingAdmissionPolicyBinding
    from .model.admission_policies import MutatingAdmissionPolicySpec as MutatingAdmissionPolicySpec
    from .model.admission_policies import Mutation as Mutation
    from .model.admission_policies import NamedExpression as NamedExpression
    from .model.admission_policies import ParamKind as ParamKind
    from .model.admission_policies import ParamRef as ParamRef
    from .model.admission_policies import PatchExpression as PatchExpression
    from .model.admission_policies import PolicyBindingSpec as PolicyBindingSpec
    from .model.admission_policies import PolicySpec as PolicySpec
    from .model.admission_policies import ResourceRule as ResourceRule
    from .model.admission_policies import ValidatingAdmissionPolicy as ValidatingAdmissionPolicy
    from .model.admission_policies import ValidatingAdmissionPolicyBinding as ValidatingAdmissionPolicyBinding
    from .model.admission_policies import (
        ValidatingAdmissionPolicyBindingSpec as ValidatingAdmissionPolicyBindingSpec,
    )
    from .model.admission_policies import ValidatingAdmissionPolicySpec as ValidatingAdmissionPolicySpec
    from .model.admission_policies import Validation as Validation
    from .model.autoscaling import Budget as Budget
    from .model.autoscaling import ContainerResourcePolicy as ContainerResourcePolicy
    from .model.autoscaling import CrossVersionObjectReference as CrossVersionObjectReference
    from .model.autoscaling import Disruption as Disruption
    from .model.autoscaling import EC2NodeClass as EC2NodeClass
    from .model.autoscaling import HorizontalPodAutoscaler as HorizontalPodAutoscaler
    from .model.autoscaling import HorizontalPodAutoscalerSpec as HorizontalPodAutoscalerSpec
    from .model.autoscaling import NodeClaim as NodeClaim
    from .model.autoscaling import NodeClaimRequirement as NodeClaimRequirement
    from .model.autoscaling import NodeClaimSpec as NodeClaimSpec
    from .model.autoscaling import NodeClaimStatus as NodeClaimStatus
    from .model.autoscaling import NodeClaimTemplate as NodeClaimTemplate
    from .model.autoscaling import NodeClaimTemplateMeta as NodeClaimTemplateMeta
    from .model.autoscaling import NodeClassReference as NodeClassReference
    from .model.autoscaling import NodeOverlay as NodeOverlay
    from .model.autoscaling import NodeOverlaySpec as NodeOverlaySpec
    from .model.autoscaling import NodePool as NodePool
    from .model.autoscaling import NodePoolSpec as NodePoolSpec
    from .model.autoscaling import NodePoolStatus as NodePoolStatus
    from .model.autoscaling import NodeRequirement as NodeRequirement
    from .model.autoscaling import PodResourcePolicy as PodResourcePolicy
    from .model.autoscaling import PodUpdatePolicy as PodUpdatePolicy
    from .model.autoscaling import RecommendedContainerResources as RecommendedContainerResources
    from .model.autoscaling import RecommendedPodResources as RecommendedPodResources
    from .model.autoscaling import ScaledObject as ScaledObject
    from .model.autoscaling import ScaledObjectSpec as ScaledObjectSpec
    from .model.autoscaling import ScaleTarget as ScaleTarget
    from .model.autoscaling import VerticalPodAutoscaler as VerticalPodAutoscaler
    from .model.autoscaling import VerticalPodAutoscalerSpec as VerticalPodAutoscalerSpec
    from .model.autoscaling import VerticalPodAutoscalerStatus as VerticalPodAutoscalerStatus
    from .model.cluster import Cluster as Cluster
    from .model.meta import Condition as Condition
    from .model.meta import LabelSelector as LabelSelector
    from .model.meta import LabelSelectorRequirement as LabelSelectorRequirement
    from .model.meta import Object as Object
    from .model.meta import ObjectMeta as ObjectMeta
    from .model.meta import OwnerReference as OwnerReference
    from .model.meta import Resources as Resources
    from .model.node import AttachedVolume as AttachedVolume
    from .model.node import ContainerImage as ContainerImage
    from .model.node import LocalObjectReference as LocalObjectReference
    from .model.node import Namespace as Namespace
    from .model.node import Node as Node
    from .model.node import NodePodPreemptionPolicy as NodePodPreemptionPolicy
    from .model.node import NodeSpec as NodeSpec
    from .model.node import NodeStatus as NodeStatus
    from .model.node import NodeSystemInfo as NodeSystemInfo
    from .model.node import ServiceAccount as ServiceAccount
    from .model.node import Taint as Taint
    from .model.pod import Affinity as Affinity
    from .model.pod import Container as Container
    from .model.pod import ContainerExtendedResourceRequest as ContainerExtendedResourceRequest
    from .model.pod import ContainerPort as ContainerPort
    from .model.pod import ContainerRestartRule as ContainerRestartRule
    from .model.pod import ContainerState as ContainerState
    from .model.pod import ContainerStateTerminated as ContainerStateTerminated
    from .model.pod import ContainerStateWaiting as ContainerStateWaiting
    from .model.pod import ContainerStatus as ContainerStatus
    from .model.pod import DiskVolumeSource as DiskVolumeSource
    from .model.pod import EmptyDirVolumeSource as EmptyDirVolumeSource
    from .model.pod import EphemeralVolumeSource as EphemeralVolumeSource
    from .model.pod import HostPathVolumeSource as HostPathVolumeSource
    from .model.pod import ImageVolumeSource as ImageVolumeSource
    from .model.pod import NodeAffinity as NodeAffinity
    from .model.pod import NodeAllocatableResourceClaimStatus as NodeAllocatableResourceClaimStatus
    from .model.pod import NodeSelector as NodeSelector
    from .model.pod import NodeSelectorRequirement as NodeSelectorRequirement
    from .model.pod import NodeSelectorTerm as NodeSelectorTerm
    from .model.pod import PersistentVolumeClaimSpec as PersistentVolumeClaimSpec
    from .model.pod import PersistentVolumeClaimTemplate as PersistentVolumeClaimTemplate
    from .model.pod import PersistentVolumeClaimVolumeSource as PersistentVolumeClaimVolumeSource
    from .model.pod import Pod as Pod
    from .model.pod import PodAffinity as PodAffinity
    from .model.pod import PodAffinityTerm as PodAffinityTerm
    from .model.pod import PodExtendedResourceClaimStatus as PodExtendedResourceClaimStatus
    from .model.pod import PodOS as PodOS
    from .model.pod import PodResourceClaim as PodResourceClaim
    from .model.pod import PodResourceClaimStatus as PodResourceClaimStatus
    from .model.pod import PodSchedulingGate as PodSchedulingGate
    from .model.pod import PodSchedulingGroup as PodSchedulingGroup
    from .model.pod import PodSpec as PodSpec
    from .model.pod import PodStatus as PodStatus
    from .model.pod import PreferredSchedulingTerm as PreferredSchedulingTerm
    from .model.pod import ProjectedVolumeSource as ProjectedVolumeSource
    from .model.pod import ResourceClaimUse as ResourceClaimUse
    from .model.pod import ResourceRequirements as ResourceRequirements
    from .model.pod import Toleration as Toleration
    from .model.pod import TopologySpreadConstraint as TopologySpreadConstraint
    from .model.pod import Volume as Volume
    from .model.pod import WeightedPodAffinityTerm as WeightedPodAffinityTerm
    from .model.pod_group import AllDisruptionMode as AllDisruptionMode
    from .model.pod_group import AnyGroup as AnyGroup
    from .model.pod_group import BasicSchedulingPolicy as BasicSchedulingPolicy
    from .model.pod_group import CompositePodGroup as CompositePodGroup
    from .model.pod_group import CompositePodGroupSchedulingPolicy as CompositePodGroupSchedulingPolicy
    from .model.pod_group import CompositePodGroupSpec as CompositePodGroupSpec
    from .model.pod_group import CompositePodGroupStatus as CompositePodGroupStatus
    from .model.pod_group import DisruptionMode as DisruptionMode
    from .model.pod_group import GangGroupSchedulingPolicy as GangGroupSchedulingPolicy
    from .model.pod_group import GangSchedulingPolicy as GangSchedulingPolicy
    from .model.pod_group import GroupCondition as GroupCondition
    from .model.pod_group import PodGroup as PodGroup
    from .model.pod_group import PodGroupSchedulingConstraints as PodGroupSchedulingConstraints
    from .model.pod_group import PodGroupSchedulingPolicy as PodGroupSchedulingPolicy
    from .model.pod_group import PodGroupSpec as PodGroupSpec
    from .model.pod_group import PodGroupStatus as PodGroupStatus
    from .model.pod_group import SingleDisruptionMode as SingleDisruptionMode
    from .model.pod_group import TopologyConstraint as TopologyConstraint
    from .model.pod_group import UnitKey as UnitKey
    from .model.pod_group import WorkloadReference as WorkloadReference
    from .model.pod_group import group_of as group_of
    from .model.policy import AdmissionPlugins as AdmissionPlugins
    from .model.policy import LimitRange as LimitRange
    from .model.policy import LimitRangeItem as LimitRangeItem
    from .model.policy import LimitRangeSpec as LimitRangeSpec
    from .model.policy import Overhead as Overhead
    from .model.policy import PodDisruptionBudget as PodDisruptionBudget
    from .model.policy import PodDisruptionBudgetSpec as PodDisruptionBudgetSpec
    from .model.policy import PodDisruptionBudgetStatus as PodDisruptionBudgetStatus
    from .model.policy import ResourceQuota as ResourceQuota
    from .model.policy import ResourceQuotaSpec as ResourceQuotaSpec
    from .model.policy import RuntimeClass as RuntimeClass
    from .model.policy import RuntimeClassScheduling as RuntimeClassScheduling
    from .model.policy import Scheduler as Scheduler
    from .model.policy import SchedulerSpec as SchedulerSpec
    from .model.policy import ScopedResourceSelectorRequirement as ScopedResourceSelectorRequirement
    from .model.policy import ScopeSelector as ScopeSelector
    from .model.resource_claims import AllocatedDeviceStatus as AllocatedDeviceStatus
    from .model.resource_claims import AllocationResult as AllocationResult
    from .model.resource_claims import CapacityRequirements as CapacityRequirements
    from .model.resource_claims import CELDeviceSelector as CELDeviceSelector
    from .model.resource_claims import DeviceAllocationConfiguration as DeviceAllocationConfiguration
    from .model.resource_claims import DeviceAllocationResult as DeviceAllocationResult
    from .model.resource_claims import DeviceClaim as DeviceClaim
    from .model.resource_claims import DeviceClaimConfiguration as DeviceClaimConfiguration
    from .model.resource_claims import DeviceClass as DeviceClass
    from .model.resource_claims import DeviceClassConfiguration as DeviceClassConfiguration
    from .model.resource_claims import DeviceClassSpec as DeviceClassSpec
    from .model.resource_claims import DeviceConstraint as DeviceConstraint
    from .model.resource_claims import DeviceRequest as DeviceRequest
    from .model.resource_claims import DeviceRequestAllocationResult as DeviceRequestAllocationResult
    from .model.resource_claims import DeviceSelector as DeviceSelector
    from .model.resource_claims import DeviceSubRequest as DeviceSubRequest
    from .model.resource_claims import DeviceToleration as DeviceToleration
    from .model.resource_claims import ExactDeviceRequest as ExactDeviceRequest
    from .model.resource_claims import OpaqueDeviceConfiguration as OpaqueDeviceConfiguration
    from .model.resource_claims import ResourceClaim as ResourceClaim
    from .model.resource_claims import ResourceClaimConsumerReference as ResourceClaimConsumerReference
    from .model.resource_claims import ResourceClaimSpec as ResourceClaimSpec
    from .model.resource_claims import ResourceClaimStatus as ResourceClaimStatus
    from .model.resource_claims import ResourceClaimTemplate as ResourceClaimTemplate
    from .model.resource_claims import ResourceClaimTemplateSpec as ResourceClaimTemplateSpec
    from .model.resource_slices import CapacityRequestPolicy as CapacityRequestPolicy
    from .model.resource_slices import CapacityRequestPolicyRange as CapacityRequestPolicyRange
    from .model.resource_slices import Counter as Counter
    from .model.resource_slices import CounterSet as CounterSet
    from .model.resource_slices import Device as Device
    from .model.resource_slices import DeviceAttribute as DeviceAttribute
    from .model.resource_slices import DeviceCapacity as DeviceCapacity
    from .model.resource_slices import DeviceCounterConsumption as DeviceCounterConsumption
    from .model.resource_slices import DeviceTaint as DeviceTaint
    from .model.resource_slices import DeviceTaintRule as DeviceTaintRule
    from .model.resource_slices import DeviceTaintRuleSpec as DeviceTaintRuleSpec
    from .model.resource_slices import DeviceTaintSelector as DeviceTaintSelector
    from .model.resource_slices import NodeAllocatableResourceMapping as NodeAllocatableResourceMapping
    from .model.resource_slices import ResourcePool as ResourcePool
    from .model.resource_slices import ResourceSlice as ResourceSlice
    from .model.resource_slices import ResourceSliceSpec as ResourceSliceSpec
    from .model.storage import CSIDriver as CSIDriver
    from .model.storage import CSIDriverSpec as CSIDriverSpec
    from .model.storage import CSINode as CSINode
    from .model.storage import CSINodeDriver as CSINodeDriver
    from .model.storage import CSINodeSpec as CSINodeSpec
    from .model.storage import CSIPersistentVolumeSource as CSIPersistentVolumeSource
    from .model.storage import CSIStorageCapacity as CSIStorageCapacity
    from .model.storage import LocalVolumeSource as LocalVolumeSource
    from .model.storage import ObjectReference as ObjectReference
    from .model.storage import PersistentVolume as PersistentVolume
    from .model.storage import PersistentVolumeClaim as PersistentVolumeClaim
    from .model.storage import PersistentVolumeClaimStatus as PersistentVolumeClaimStatus
    from .model.storage import PersistentVolumeSpec as PersistentVolumeSpec
    from .model.storage import PersistentVolumeStatus as PersistentVolumeStatus
    from .model.storage import StorageClass as StorageClass
    from .model.storage import TopologySelectorLabelRequirement as TopologySelectorLabelRequirement
    from .model.storage import TopologySelectorTerm as TopologySelectorTerm
    from .model.storage import VolumeAttachment as VolumeAttachment
    from .model.storage import VolumeAttachmentSource as VolumeAttachmentSource
    from .model.storage import VolumeAttachmentSpec as VolumeAttachmentSpec
    from .model.storage import VolumeNodeAffinity as VolumeNodeAffinity
    from .model.storage import VolumeNodeResources as VolumeNodeResources
    from .model.webhooks import MutatingWebhookConfiguration as MutatingWebhookConfiguration
    from .model.webhooks import RuleWithOperations as RuleWithOperations
    from .model.webhooks import ValidatingWebhookConfiguration as ValidatingWebhookConfiguration
    from .model.webhooks import Webhook as Webhook
    from .model.workload import ClaimRetentionPolicy as ClaimRetentionPolicy
    from .model.workload import CloneSet as CloneSet
    from .model.workload import CloneSetStatus as CloneSetStatus
    from .model.workload import ControllerRevision as ControllerRevision
    from .model.workload import CronJob as CronJob
    from .model.workload import CronJobSpec as CronJobSpec
    from .model.workload import DaemonSet as DaemonSet
    from .model.workload import DaemonSetSpec as DaemonSetSpec
    from .model.workload import DaemonSetStatus as DaemonSetStatus
    from .model.workload import DaemonSetUpdateStrategy as DaemonSetUpdateStrategy
    from .model.workload import Deployment as Deployment
    from .model.workload import DeploymentCondition as DeploymentCondition
    from .model.workload import DeploymentConfig as DeploymentConfig
    from .model.workload import DeploymentConfigSpec as DeploymentConfigSpec
    from .model.workload import DeploymentConfigStatus as DeploymentConfigStatus
    from .model.workload import DeploymentSpec as DeploymentSpec
    from .model.workload import DeploymentStatus as DeploymentStatus
    from .model.workload import DeploymentStrategy as DeploymentStrategy
    from .model.workload import Job as Job
    from .model.workload import JobSpec as JobSpec
    from .model.workload import JobStatus as JobStatus
    from .model.workload import JobTemplateSpec as JobTemplateSpec
    from .model.workload import LeaderWorkerSet as LeaderWorkerSet
    from .model.workload import LeaderWorkerSetSpec as LeaderWorkerSetSpec
    from .model.workload import LeaderWorkerTemplate as LeaderWorkerTemplate
    from .model.workload import PodFailurePolicy as PodFailurePolicy
    from .model.workload import PodFailurePolicyOnExitCodes as PodFailurePolicyOnExitCodes
    from .model.workload import PodFailurePolicyOnPodCondition as PodFailurePolicyOnPodCondition
    from .model.workload import PodFailurePolicyRule as PodFailurePolicyRule
    from .model.workload import PodTemplateSpec as PodTemplateSpec
    from .model.workload import PriorityClass as PriorityClass
    from .model.workload import ReplicaSet as ReplicaSet
    from .model.workload import ReplicaSetSpec as ReplicaSetSpec
    from .model.workload import ReplicationController as ReplicationController
    from .model.workload import ReplicationControllerSpec as ReplicationControllerSpec
    from .model.workload import RollingUpdateDaemonSet as RollingUpdateDaemonSet
    from .model.workload import RollingUpdateDeployment as RollingUpdateDeployment
    from .model.workload import RollingUpdateStatefulSetStrategy as RollingUpdateStatefulSetStrategy
    from .model.workload import Rollout as Rollout
    from .model.workload import RolloutSpec as RolloutSpec
    from .model.workload import Service as Service
    from .model.workload import ServicePort as ServicePort
    from .model.workload import ServiceSpec as ServiceSpec
    from .model.workload import StatefulSet as StatefulSet
    from .model.workload import StatefulSetOrdinals as StatefulSetOrdinals
    from .model.workload import StatefulSetSpec as StatefulSetSpec
    from .model.workload import StatefulSetStatus as StatefulSetStatus
    from .model.workload import StatefulSetUpdateStrategy as StatefulSetUpdateStrategy
    from .model.workload import SuccessPolicy as SuccessPolicy
    from .model.workload import SuccessPolicyRule as SuccessPolicyRule
    from .model.workload import WorkloadStatus as WorkloadStatus
    from .read.cluster_builder import build_cluster as build_cluster
    from .read.decode import decode_object as decode_object
    from .read.load import load as load
    from .read.load import read_object as read_object
    from .read.object_defaults import defaults as defaults
    from .read.python_values import Source as Source
    from .read.python_values import dump as dump
    from .read.python_values import encode_object as encode_object
    from .read.python_values import object_to_dict as object_to_dict
    from .read.python_values import write as write
    from .read.python_values import write_cluster as write_cluster
    from .workloads.disruption import disruption_status as disruption_status
else:
    __getattr__, __dir__, __all__ = names_at_first_use(
        __name__,
        {
            "moorage._core.base.quantity": "Quantity parse_milli parse_value",
            "moorage._core.base.selectors": "LabelSelectorMatcher NodeSelectorMatcher parse_selector",
            ".admission.validate_object": "validate",
            ".model.admission_policies": (
                "MatchResources MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
                "MutatingAdmissionPolicySpec Mutation NamedExpression ParamKind ParamRef PatchExpression "
                "PolicyBindingSpec PolicySpec ResourceRule ValidatingAdmissionPolicy "
                "ValidatingAdmissionPolicyBinding ValidatingAdmissionPolicyBindingSpec "
                "ValidatingAdmissionPolicySpec Validation"
            ),
            ".model.autoscaling": (
                "Budget ContainerResourcePolicy CrossVersionObjectReference Disruption EC2NodeClass "
                "HorizontalPodAutoscaler HorizontalPodAutoscalerSpec NodeClaim NodeClaimRequirement "
                "NodeClaimSpec NodeClaimStatus NodeClaimTemplate NodeClaimTemplateMeta NodeClassReference "
                "NodeOverlay NodeOverlaySpec NodePool NodePoolSpec NodePoolStatus NodeRequirement "
                "PodResourcePolicy PodUpdatePolicy RecommendedContainerResources RecommendedPodResources "
                "ScaledObject ScaledObjectSpec ScaleTarget VerticalPodAutoscaler "
                "VerticalPodAutoscalerSpec VerticalPodAutoscalerStatus"
            ),
            ".model.cluster": "Cluster",
            ".model.meta": (
                "Condition LabelSelector LabelSelectorRequirement Object ObjectMeta OwnerReference Resources"
            ),
            ".model.node": (
                "AttachedVolume ContainerImage LocalObjectReference Namespace Node NodePodPreemptionPolicy "
                "NodeSpec NodeStatus NodeSystemInfo ServiceAccount Taint"
            ),
            ".model.pod": (
                "Affinity Container ContainerExtendedResourceRequest ContainerPort ContainerRestartRule "
                "ContainerState ContainerStateTerminated ContainerStateWaiting ContainerStatus "
                "DiskVolumeSource EmptyDirVolumeSource EphemeralVolumeSource HostPathVolumeSource "
                "ImageVolumeSource NodeAffinity NodeAllocatableResourceClaimStatus NodeSelector "
                "NodeSelectorRequirement NodeSelectorTerm PersistentVolumeClaimSpec "
                "PersistentVolumeClaimTemplate PersistentVolumeClaimVolumeSource Pod PodAffinity "
                "PodAffinityTerm PodExtendedResourceClaimStatus PodOS PodResourceClaim "
                "PodResourceClaimStatus PodSchedulingGate PodSchedulingGroup PodSpec PodStatus "
                "PreferredSchedulingTerm ProjectedVolumeSource ResourceClaimUse ResourceRequirements "
                "Toleration TopologySpreadConstraint Volume WeightedPodAffinityTerm"
            ),
            ".model.pod_group": (
                "AllDisruptionMode AnyGroup BasicSchedulingPolicy CompositePodGroup "
                "CompositePodGroupSchedulingPolicy CompositePodGroupSpec CompositePodGroupStatus "
                "DisruptionMode GangGroupSchedulingPolicy GangSchedulingPolicy GroupCondition PodGroup "
                "PodGroupSchedulingConstraints PodGroupSchedulingPolicy PodGroupSpec PodGroupStatus "
                "SingleDisruptionMode TopologyConstraint UnitKey WorkloadReference group_of"
            ),
            ".model.policy": (
                "AdmissionPlugins LimitRange LimitRangeItem LimitRangeSpec Overhead PodDisruptionBudget "
                "PodDisruptionBudgetSpec PodDisruptionBudgetStatus ResourceQuota ResourceQuotaSpec "
                "RuntimeClass RuntimeClassScheduling Scheduler SchedulerSpec "
                "ScopedResourceSelectorRequirement ScopeSelector"
            ),
            ".model.resource_claims": (
                "AllocatedDeviceStatus AllocationResult CapacityRequirements CELDeviceSelector "
                "DeviceAllocationConfiguration DeviceAllocationResult DeviceClaim "
                "DeviceClaimConfiguration DeviceClass DeviceClassConfiguration DeviceClassSpec "
                "DeviceConstraint DeviceRequest DeviceRequestAllocationResult DeviceSelector "
                "DeviceSubRequest DeviceToleration ExactDeviceRequest OpaqueDeviceConfiguration "
                "ResourceClaim ResourceClaimConsumerReference ResourceClaimSpec ResourceClaimStatus "
                "ResourceClaimTemplate ResourceClaimTemplateSpec"
            ),
            ".model.resource_slices": (
                "CapacityRequestPolicy CapacityRequestPolicyRange Counter CounterSet Device "
                "DeviceAttribute DeviceCapacity DeviceCounterConsumption DeviceTaint DeviceTaintRule "
                "DeviceTaintRuleSpec DeviceTaintSelector NodeAllocatableResourceMapping ResourcePool "
                "ResourceSlice ResourceSliceSpec"
            ),
            ".model.storage": (
                "CSIDriver CSIDriverSpec CSINode CSINodeDriver CSINodeSpec CSIPersistentVolumeSource "
                "CSIStorageCapacity LocalVolumeSource ObjectReference PersistentVolume "
                "PersistentVolumeClaim PersistentVolumeClaimStatus PersistentVolumeSpec "
                "PersistentVolumeStatus StorageClass TopologySelectorLabelRequirement "
                "TopologySelectorTerm VolumeAttachment VolumeAttachmentSource VolumeAttachmentSpec "
                "VolumeNodeAffinity VolumeNodeResources"
            ),
            ".model.webhooks": (
                "MutatingWebhookConfiguration RuleWithOperations ValidatingWebhookConfiguration Webhook"
            ),
            ".model.workload": (
                "ClaimRetentionPolicy CloneSet CloneSetStatus ControllerRevision CronJob CronJobSpec "
                "DaemonSet DaemonSetSpec DaemonSetStatus DaemonSetUpdateStrategy Deployment "
                "DeploymentCondition DeploymentConfig DeploymentConfigSpec DeploymentConfigStatus "
                "DeploymentSpec DeploymentStatus DeploymentStrategy Job JobSpec JobStatus JobTemplateSpec "
                "LeaderWorkerSet LeaderWorkerSetSpec LeaderWorkerTemplate PodFailurePolicy "
                "PodFailurePolicyOnExitCodes PodFailurePolicyOnPodCondition PodFailurePolicyRule "
                "PodTemplateSpec PriorityClass ReplicaSet ReplicaSetSpec ReplicationController "
                "ReplicationControllerSpec RollingUpdateDaemonSet RollingUpdateDeployment "
                "RollingUpdateStatefulSetStrategy Rollout RolloutSpec Service ServicePort ServiceSpec "
                "StatefulSet "
                "StatefulSetOrdinals StatefulSetSpec StatefulSetStatus StatefulSetUpdateStrategy "
                "SuccessPolicy SuccessPolicyRule WorkloadStatus"
            ),
            ".read.cluster_builder": "build_cluster",
            ".read.decode": "decode_object",
            ".read.load": "load read_object",
            ".read.object_defaults": "defaults",
            ".read.python_values": "Source dump encode_object object_to_dict write write_cluster",
            ".workloads.disruption": "disruption_status",
        },
    )
