"""The feature gates of kube-scheduler v1.36.2, and their effect in this version.

Included are all alpha and beta gates, which ``kube-scheduler --help`` lists, and the GA gates that the
scheduler reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from moorage._core.base.resources import PodGates


class Stage(Enum):
    """The maturity of a feature."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"


class Effect(Enum):
    """The effect of setting a gate."""

    BUILT = "built"
    NONE = "no effect"
    NOT_BUILT = "not built"


@dataclass(frozen=True, slots=True)
class Gate:
    """A feature gate.

    Attributes
    ----------
    default : bool
        The default in v1.36.2.
    effect : Effect
        Built: decisions depend on the gate. No effect: the gate is accepted, because no decision depends on
        it. Not built: any value but the default is refused.
    reason : str
        The effect of the gate, or why it has none.
    is_locked : bool
        Whether upstream refuses any value but the default.
    needs : tuple of str
        Gates that can be off, and must be on where this one is.
    """

    name: str
    stage: Stage
    default: bool
    effect: Effect
    reason: str
    is_locked: bool = False
    needs: tuple[str, ...] = ()


_OF_THE_SCHEDULER: dict[tuple[Stage, bool, Effect], dict[str, str]] = {
    (Stage.GA, True, Effect.NOT_BUILT): {
        "DRAAdminAccess": "Requests with adminAccess are always allowed.",
        "DynamicResourceAllocation": "DynamicResources is always in the default profile.",
    },
    (Stage.BETA, True, Effect.NONE): {
        "SchedulerAsyncPreemption": "Victims are deleted within the preemptor's cycle, so no later cycle "
        "finds one that is still to be.",
    },
    (Stage.BETA, True, Effect.BUILT): {
        "DRAConsumableCapacity": "Devices can be allocated several times, and requests can ask for capacity.",
        "DRADeviceBindingConditions": "Devices with binding conditions can be allocated; pods wait for them.",
        "DRADeviceTaints": "Taints of devices count.",
        "DRAExtendedResource": "Device classes provide extended resources.",
        "DRAPartitionableDevices": "Devices share counters, and may choose their nodes each.",
        "DRAResourceClaimDeviceStatus": "As DRADeviceBindingConditions.",
        "DRASchedulerFilterTimeout": "The search for devices on a node has a limit.",
        "InPlacePodLevelResourcesVerticalScaling": "Pod-level resources in a pod's status count beside those "
        "of its spec.",
        "MatchLabelKeysInPodTopologySpread": "matchLabelKeys of spread constraints count. Files are read as "
        "kube-apiserver does it with the gate on, which adds them to the selectors.",
        "NodeDeclaredFeatures": "Nodes have to declare the features that a pod needs.",
        "NominatedNodeNameForExpectation": "A pod whose binding takes time is nominated to its node "
        "meanwhile.",
        "OpportunisticBatching": "Equal pods that follow one another share a scored list of nodes.",
        "PodLevelResources": "A pod's spec.resources counts.",
        "SchedulerPopFromBackoffQ": "Pods that back off are taken where no other pod is ready.",
    },
    (Stage.BETA, False, Effect.BUILT): {
        "DRADeviceTaintRules": "With a DeviceTaintRule, pods whose claims have to be allocated fail with an "
        "error, as kube-scheduler v1.36.2 panics. Without one it changes nothing.",
        "MaxUnavailableStatefulSet": "maxUnavailable of StatefulSets counts for the simulated controllers.",
    },
    (Stage.ALPHA, False, Effect.BUILT): {
        "DRAListTypeAttributes": "Selectors see attributes that are lists. Without it they fail for a device "
        "with such an attribute; constraints never match lists.",
        "DRANodeAllocatableResources": "What devices take of a node's own resources counts.",
        "DRAWorkloadResourceClaims": "Pods share claims with their PodGroup.",
        "GangScheduling": "At least minCount pods of a pod group are placed, or none.",
        "GenericWorkload": "Pods of a PodGroup are tried together.",
        "StorageCapacityScoring": "VolumeBinding scores nodes by how full their storage would be.",
        "TaintTolerationComparisonOperators": "Tolerations compare numbers (Lt, Gt).",
        "TopologyAwareWorkloadScheduling": "Pod groups are placed within one domain of a topology.",
        "VolumeLimitScaling": "Volumes of a CSIDriver with preventPodSchedulingIfMissing need nodes whose "
        "CSINode lists the driver.",
        "WorkloadAwarePreemption": "Pods are evicted for a pod group as a whole.",
    },
    (Stage.GA, True, Effect.BUILT): {
        "DRAPrioritizedList": "Requests can have alternatives.",
        "InPlacePodVerticalScaling": "Resources of containers in a pod's status count beside those of its "
        "spec.",
        "NodeInclusionPolicyInPodTopologySpread": "nodeAffinityPolicy and nodeTaintsPolicy of spread "
        "constraints count.",
        "SchedulerQueueingHints": "Events wake the pods that they may help.",
        "SidecarContainers": "Init containers that restart always add up.",
        "VolumeAttributesClass": "Volumes must have the class of their claim.",
    },
    (Stage.BETA, False, Effect.NONE): {
        "SchedulerAsyncAPICalls": "Writes end within the cycle that they belong to; no decision waits for "
        "them upstream either."
    },
}
"""By stage, default and effect, the gates and their reasons."""

_NOT_LOCKED = frozenset({"DRAPrioritizedList"})
"""GA gates that can be set; all others are locked."""

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
            MutableSchedulingDirectivesForSuspendedJobs OpenAPIEnums PortForwardWebsockets
            RelaxedServiceNameValidation RemoteRequestHeaderUID
            ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate StorageVersionHash
            StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
            StructuredAuthenticationConfigurationJWKSMetrics
            TokenRequestServiceAccountUIDValidation TranslateStreamCloseWebsocketRequests
            UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
            WatchCacheInitializationPostStartHook WatchList""",
    },
    "Only kube-apiserver reads it, which merges matchLabelKeys into a new pod's selectors. Where that was "
    "not done, the scheduler does it.": {Stage.BETA: "MatchLabelKeysInPodTopologySpreadSelectorMerge"},
    "Only kube-apiserver reads it, which copies topology labels of the node to a pod as it is bound. Here "
    "a binding does not.": {Stage.BETA: "PodTopologyLabelsAdmission"},
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
            PodDeletionCost StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
            StaleControllerConsistencyReplicaSet
            StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison
            StorageVersionMigrator=off""",
    },
    "About the transport of objects from the API server, not about their content.": {
        Stage.ALPHA: "ClientsAllowCBOR ClientsPreferCBOR",
        Stage.BETA: """AtomicFIFO ClientsAllowCARotation ClientsAllowTLSCacheGC
            InOrderInformersBatchProcess UnlockWhileProcessingFIFO WatchListClient""",
    },
    "About logs, metrics and status pages.": {
        Stage.ALPHA: "LoggingAlphaOptions NativeHistograms",
        Stage.BETA: "ComponentFlagz ComponentStatusz ContextualLogging LoggingBetaOptions",
    },
}
"""By stage and reason, the gates; alpha gates are off, beta gates are on unless marked ``=off``."""


_NEEDS = {
    "ClusterTrustBundleProjection": "ClusterTrustBundle",
    "DRADeviceBindingConditions": "DRAResourceClaimDeviceStatus",
    "DRADeviceTaintRules": "DRADeviceTaints",
    "DRAResourceClaimGranularStatusAuthorization": "DRAResourceClaimDeviceStatus",
    "DRAWorkloadResourceClaims": "GenericWorkload",
    "ExtendWebSocketsToKubelet": "NodeDeclaredFeatures",
    "GangScheduling": "GenericWorkload",
    "GracefulNodeShutdownBasedOnPodPriority": "GracefulNodeShutdown",
    "InPlacePodLevelResourcesVerticalScaling": "NodeDeclaredFeatures PodLevelResources",
    "InPlacePodVerticalScalingInitContainers": "NodeDeclaredFeatures",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": "MatchLabelKeysInPodTopologySpread",
    "PodLevelResourceManagers": "PodLevelResources",
    "ResourceHealthStatusMessage": "ResourceHealthStatus",
    "RestartAllContainersOnContainerExits": "ContainerRestartRules NodeDeclaredFeatures",
    "StaleControllerConsistencyDaemonSet": "AtomicFIFO",
    "StaleControllerConsistencyJob": "AtomicFIFO",
    "StaleControllerConsistencyReplicaSet": "AtomicFIFO",
    "StaleControllerConsistencyStatefulSet": "AtomicFIFO",
    "StorageVersionAPI": "APIServerIdentity",
    "TopologyAwareWorkloadScheduling": "GenericWorkload",
    "UnknownVersionInteroperabilityProxy": "APIServerIdentity",
    "UserNamespacesHostNetworkSupport": "NodeDeclaredFeatures",
    "WindowsGracefulNodeShutdown": "GracefulNodeShutdown",
    "WorkloadAwarePreemption": "GangScheduling",
    "WorkloadWithJob": "GenericWorkload",
}
"""Gates that cannot be on without others; locked ones are left out."""


def _gates() -> Iterator[Gate]:
    for (stage, default, effect), reasons in _OF_THE_SCHEDULER.items():
        for name, reason in reasons.items():
            is_locked = stage is Stage.GA and name not in _NOT_LOCKED
            yield Gate(name, stage, default, effect, reason, is_locked, _needs(name))
    for reason, stages in _OF_OTHERS.items():
        for stage, names in stages.items():
            for word in names.split():
                name, _, off = word.partition("=")
                default = stage is Stage.BETA and not off
                yield Gate(name, stage, default, Effect.NONE, reason, needs=_needs(name))


def _needs(name: str) -> tuple[str, ...]:
    return tuple(_NEEDS.get(name, "").split())


GATES: dict[str, Gate] = {gate.name: gate for gate in sorted(_gates(), key=lambda gate: gate.name)}
"""Gates by name, sorted by name."""


DEFAULT_GATES: Mapping[str, bool] = {name: gate.default for name, gate in GATES.items()}
"""Default in v1.36 by gate."""

ALL = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
"""Names that set all gates of a stage that are not set individually."""


def feature_gates(changes: Mapping[str, bool] | None = None) -> dict[str, bool]:
    """Return the values of all feature gates.

    Parameters
    ----------
    changes : mapping of str to bool, optional
        Gates that differ from the defaults of v1.36; ``AllAlpha`` and ``AllBeta`` are accepted.

    Returns
    -------
    dict of str to bool
        Value by gate.

    Raises
    ------
    ValueError
        A gate is unknown or locked, needs others that are off, or a value is not a boolean (with upstream's
        message); or a value is not built.
    """
    gates = dict(DEFAULT_GATES)
    if not changes:
        return gates
    for name, value in changes.items():
        if name not in gates and name not in ALL:
            raise ValueError(f"unrecognized feature gate: {name}")
        if not isinstance(value, bool):
            raise ValueError(f"invalid value of {name}={value}, err: not a boolean")
    for every, stage in ALL.items():
        if every in changes:
            gates |= {name: changes[every] for name, gate in GATES.items() if gate.stage is stage}
    gates |= {name: value for name, value in changes.items() if name in GATES}
    for name, value in gates.items():
        if value != DEFAULT_GATES[name]:
            _check(name, value)
    wrong = [text for gate in GATES.values() if gates[gate.name] and (text := _lacks(gate, gates))]
    if wrong:
        raise ValueError(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
    return gates


def dependents_off(changes: Mapping[str, bool]) -> dict[str, bool]:
    """Return, off, the gates that need another which changes switch off.

    Parameters
    ----------
    changes : mapping of str to bool
        Gates that differ from the defaults of v1.36.

    Returns
    -------
    dict of str to bool
        Only gates that are on by default and that the changes do not name.
    """

    def is_off(name: str) -> bool:
        return not changes[name] if name in changes else any(map(is_off, GATES[name].needs))

    return {name: False for name, on in DEFAULT_GATES.items() if on and name not in changes and is_off(name)}


def _lacks(gate: Gate, gates: Mapping[str, bool]) -> str:
    """Upstream's message about the gates that are off and that a gate needs; "" without such."""
    off = " ".join(name for name in gate.needs if not gates[name])
    return f"{gate.name} is enabled, but depends on features that are disabled: [{off}]" if off else ""


def _check(name: str, value: bool) -> None:
    gate = GATES[name]
    default, text = str(gate.default).lower(), str(value).lower()
    if gate.is_locked:
        raise ValueError(f"cannot set feature gate {name} to {text}, feature is locked to {default}")
    if gate.effect is Effect.NOT_BUILT:
        raise ValueError(f"feature gate {name}={text} is not built, only its default {default} is")


def groups_pods(gates: Mapping[str, bool]) -> bool:
    """Whether the gate for pod groups is on, which all others about them need; otherwise groups are ignored.

    Parameters
    ----------
    gates : mapping of str to bool
        Value by feature gate.

    Returns
    -------
    bool
    """
    return gates["GenericWorkload"]


def pod_gates(gates: Mapping[str, bool]) -> PodGates:
    """Return the gates on which requests, tolerations and spread constraints of pods depend.

    Parameters
    ----------
    gates : mapping of str to bool
        Value by feature gate.

    Returns
    -------
    PodGates
        The gates in the form of the core.
    """
    return PodGates(
        pod_level_resources=gates["PodLevelResources"],
        pod_level_resizing=gates["InPlacePodLevelResourcesVerticalScaling"],
        comparison_operators=gates["TaintTolerationComparisonOperators"],
        match_label_keys=gates["MatchLabelKeysInPodTopologySpread"],
        node_allocatable_claims=gates["DRANodeAllocatableResources"],
    )
