"""Every feature gate that kube-scheduler v1.36.2 knows, and what this version makes of it.

The alpha and beta gates are those that ``kube-scheduler --help`` lists; of GA gates, which it does not list,
those that the scheduler reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Stage(Enum):
    """How mature a feature is."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"


class Effect(Enum):
    """What setting a gate does."""

    BUILT = "built"
    NONE = "no effect"
    NOT_BUILT = "not built"


@dataclass(frozen=True, slots=True)
class Gate:
    """A feature gate.

    Attributes
    ----------
    default : bool
        In v1.36.2.
    effect : Effect
        Built: decisions follow it. No effect: it is accepted, as it changes none. Not built: any other value
        than the default is refused.
    reason : str
        What it does, or why it does nothing.
    is_locked : bool
        Upstream refuses any other value than the default as well.
    """

    name: str
    stage: Stage
    default: bool
    effect: Effect
    reason: str
    is_locked: bool = False


_OF_CLAIMS = "About devices; pods with resource claims are refused, so no decision depends on it."

_OF_THE_SCHEDULER = (
    Gate("DRAAdminAccess", Stage.GA, True, Effect.NOT_BUILT, _OF_CLAIMS, is_locked=True),
    Gate("DRAConsumableCapacity", Stage.BETA, True, Effect.NONE, _OF_CLAIMS),
    Gate(
        "DRADeviceBindingConditions",
        Stage.BETA,
        True,
        Effect.BUILT,
        "Whether bindingTimeout may be an argument of DynamicResources. Pods with claims are refused.",
    ),
    Gate("DRADeviceTaintRules", Stage.BETA, False, Effect.NOT_BUILT, "Taints of devices by rules."),
    Gate("DRADeviceTaints", Stage.BETA, True, Effect.NONE, _OF_CLAIMS),
    Gate(
        "DRAExtendedResource",
        Stage.BETA,
        True,
        Effect.NOT_BUILT,
        "Extended resources from device classes. They come from what nodes have to allocate alone.",
    ),
    Gate("DRAListTypeAttributes", Stage.ALPHA, False, Effect.NONE, _OF_CLAIMS),
    Gate(
        "DRANodeAllocatableResources",
        Stage.ALPHA,
        False,
        Effect.NOT_BUILT,
        "What claims take of a node's own resources.",
    ),
    Gate("DRAPartitionableDevices", Stage.BETA, True, Effect.NONE, _OF_CLAIMS),
    Gate("DRAPrioritizedList", Stage.GA, True, Effect.NONE, _OF_CLAIMS),
    Gate(
        "DRAResourceClaimDeviceStatus",
        Stage.BETA,
        True,
        Effect.BUILT,
        "As DRADeviceBindingConditions, which needs it.",
    ),
    Gate(
        "DRASchedulerFilterTimeout",
        Stage.BETA,
        True,
        Effect.BUILT,
        "Whether filterTimeout may be an argument of DynamicResources. Pods with claims are refused.",
    ),
    Gate("DRAWorkloadResourceClaims", Stage.ALPHA, False, Effect.NOT_BUILT, "Claims of pod groups."),
    Gate(
        "DynamicResourceAllocation",
        Stage.GA,
        True,
        Effect.NOT_BUILT,
        "Pods with claims are refused.",
        is_locked=True,
    ),
    Gate(
        "GangScheduling",
        Stage.ALPHA,
        False,
        Effect.BUILT,
        "All of a pod group are placed, as many as its minCount says, or none.",
    ),
    Gate("GenericWorkload", Stage.ALPHA, False, Effect.BUILT, "Pods of a PodGroup are tried together."),
    Gate(
        "InPlacePodLevelResourcesVerticalScaling",
        Stage.BETA,
        True,
        Effect.BUILT,
        "What a pod's status says of its pod-level resources counts beside its spec.",
    ),
    Gate(
        "InPlacePodVerticalScaling",
        Stage.GA,
        True,
        Effect.BUILT,
        "What a pod's status says of its containers' resources counts beside its spec.",
        is_locked=True,
    ),
    Gate(
        "MatchLabelKeysInPodTopologySpread",
        Stage.BETA,
        True,
        Effect.NOT_BUILT,
        "matchLabelKeys of spread constraints always count.",
    ),
    Gate(
        "NodeDeclaredFeatures",
        Stage.BETA,
        True,
        Effect.BUILT,
        "Off, the plugin is not in the default profile. On, it rejects no node yet.",
    ),
    Gate(
        "NodeInclusionPolicyInPodTopologySpread",
        Stage.GA,
        True,
        Effect.BUILT,
        "nodeAffinityPolicy and nodeTaintsPolicy of spread constraints count.",
        is_locked=True,
    ),
    Gate(
        "NominatedNodeNameForExpectation",
        Stage.BETA,
        True,
        Effect.NOT_BUILT,
        "A pod whose binding takes time is always nominated to its node meanwhile.",
    ),
    Gate(
        "OpportunisticBatching",
        Stage.BETA,
        True,
        Effect.BUILT,
        "Equal pods that follow one another share a scored list of nodes.",
    ),
    Gate("PodLevelResources", Stage.BETA, True, Effect.BUILT, "A pod's spec.resources counts."),
    Gate(
        "SchedulerAsyncAPICalls",
        Stage.BETA,
        False,
        Effect.NONE,
        "Writes end within the cycle that they belong to; no decision waits for them upstream either.",
    ),
    Gate(
        "SchedulerAsyncPreemption",
        Stage.BETA,
        True,
        Effect.NONE,
        "Victims are deleted within the preemptor's cycle, so no later cycle finds one that is still to be.",
    ),
    Gate(
        "SchedulerPopFromBackoffQ",
        Stage.BETA,
        True,
        Effect.BUILT,
        "Pods that back off are taken where no other pod is ready.",
    ),
    Gate(
        "SchedulerQueueingHints",
        Stage.GA,
        True,
        Effect.BUILT,
        "Events wake the pods that they may help.",
        is_locked=True,
    ),
    Gate(
        "SidecarContainers",
        Stage.GA,
        True,
        Effect.BUILT,
        "Init containers that restart always add up.",
        is_locked=True,
    ),
    Gate(
        "StorageCapacityScoring",
        Stage.ALPHA,
        False,
        Effect.BUILT,
        "VolumeBinding scores nodes by how full their storage would be.",
    ),
    Gate(
        "TaintTolerationComparisonOperators",
        Stage.ALPHA,
        False,
        Effect.BUILT,
        "Tolerations compare numbers (Lt, Gt).",
    ),
    Gate(
        "TopologyAwareWorkloadScheduling",
        Stage.ALPHA,
        False,
        Effect.BUILT,
        "Pod groups are placed within one domain of a topology.",
    ),
    Gate(
        "VolumeAttributesClass",
        Stage.GA,
        True,
        Effect.BUILT,
        "Volumes must have the class of their claim.",
        is_locked=True,
    ),
    Gate(
        "VolumeLimitScaling",
        Stage.ALPHA,
        False,
        Effect.BUILT,
        "Where a CSIDriver has preventPodSchedulingIfMissing, which is not built: pods that name claims or "
        "ephemeral volumes then fail with an error. Without, it changes nothing.",
    ),
    Gate(
        "WorkloadAwarePreemption",
        Stage.ALPHA,
        False,
        Effect.BUILT,
        "Pods are evicted for a pod group as a whole.",
    ),
)

_OF_OTHERS: dict[str, dict[Stage, str]] = {
    "Only kube-apiserver reads it.": {
        Stage.ALPHA: """APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
            CrossNamespaceVolumeDataSource ManifestBasedAdmissionControlConfig
            MutablePVNodeAffinity PodLogsQuerySplitStreams ShardedListAndWatch StorageVersionAPI""",
        Stage.BETA: """APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth
            AuthorizePodWebsocketUpgradeCreatePermission CRDObservedGenerationTracking
            ClearingNominatedNodeNameAfterBinding ClusterTrustBundle=off
            ConcurrentWatchObjectDecode=off ConstrainedImpersonation
            CoordinatedLeaderElection=off DRAResourceClaimGranularStatusAuthorization
            DeclarativeValidationBeta DetectCacheInconsistency ExtendWebSocketsToKubelet
            ListFromCacheSnapshot MutablePodResourcesForSuspendedJobs
            MutableSchedulingDirectivesForSuspendedJobs OpenAPIEnums PodTopologyLabelsAdmission
            PortForwardWebsockets RelaxedServiceNameValidation RemoteRequestHeaderUID
            ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate StorageVersionHash
            StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
            StructuredAuthenticationConfigurationJWKSMetrics
            TokenRequestServiceAccountUIDValidation TranslateStreamCloseWebsocketRequests
            UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
            WatchCacheInitializationPostStartHook WatchList""",
    },
    "Only kube-apiserver reads it, which merges matchLabelKeys into a new pod's selectors. Where that was "
    "not done, the scheduler does it.": {
        Stage.BETA: "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    },
    "Only kubelet reads it.": {
        Stage.ALPHA: """CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ContainerStopSignals
            EventedPLEG ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
            InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace MemoryQoS
            PodAndContainerStatsFromCRI PodLevelResourceManagers PodsAPI QOSReserved
            ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
            TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
            WindowsCPUAndMemoryAffinity""",
        Stage.BETA: """CPUManagerPolicyBetaOptions ClusterTrustBundleProjection=off ContainerCheckpoint
            ContainerRestartRules EnvFiles GracefulNodeShutdown
            GracefulNodeShutdownBasedOnPodPriority HostnameOverride
            InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
            KubeletEnsureSecretPulledImages KubeletSeparateDiskGC
            KubeletServiceAccountTokenForCredentialProviders
            LocalStorageCapacityIsolationFSQuotaMonitoring=off PLEGOnDemandRelist
            PodCertificateRequest=off PodReadyToStartContainersCondition
            PreventStaticPodAPIReferences ReloadKubeletClientCAFile
            ReloadKubeletServerCertificateFile ResourceHealthStatus ResourceHealthStatusMessage
            RestartAllContainersOnContainerExits RotateKubeletServerCertificate SELinuxMount=off
            TopologyManagerPolicyBetaOptions WindowsGracefulNodeShutdown""",
    },
    "Only controllers read it.": {
        Stage.ALPHA: """CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
            ControllerManagerReleaseLeaderElectionLockOnExit DRAResourcePoolStatus
            HPAScaleToZero PersistentVolumeClaimUnusedSinceTime WorkloadWithJob""",
        Stage.BETA: """DeploymentReplicaSetTerminatingReplicas HPAConfigurableTolerance
            MaxUnavailableStatefulSet=off PodDeletionCost StaleControllerConsistencyDaemonSet
            StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
            StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison
            StorageVersionMigrator=off""",
    },
    "About how objects come from the API server, not about what they say.": {
        Stage.ALPHA: "ClientsAllowCBOR ClientsPreferCBOR",
        Stage.BETA: """AtomicFIFO ClientsAllowCARotation ClientsAllowTLSCacheGC
            InOrderInformersBatchProcess UnlockWhileProcessingFIFO WatchListClient""",
    },
    "About logs, metrics and status pages.": {
        Stage.ALPHA: "LoggingAlphaOptions NativeHistograms",
        Stage.BETA: "ComponentFlagz ComponentStatusz ContextualLogging LoggingBetaOptions",
    },
}
"""Reason to gates, by stage; alpha gates are off, beta gates on where nothing else is said."""


def _of_others() -> Iterator[Gate]:
    for reason, stages in _OF_OTHERS.items():
        for stage, names in stages.items():
            for word in names.split():
                name, _, off = word.partition("=")
                yield Gate(name, stage, stage is Stage.BETA and not off, Effect.NONE, reason)


GATES: dict[str, Gate] = {
    gate.name: gate for gate in sorted((*_OF_THE_SCHEDULER, *_of_others()), key=lambda gate: gate.name)
}
"""By name, in its order."""
