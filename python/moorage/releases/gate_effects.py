"""What feature gates do here, in whichever release has them.

Which gates a release has, and their stages and defaults, is in ``gates/``. A gate of a release that is not
named here is an error of `moorage.releases.feature_gates.gates_of`.
"""

from __future__ import annotations

from enum import Enum


class Effect(Enum):
    """The effect of setting a gate."""

    BUILT = "built"
    NONE = "no effect"
    NOT_BUILT = "not built"


OF_THE_SCHEDULER: dict[str, tuple[Effect, str]] = {
    name: (effect, reason)
    for effect, reasons in (
        (
            Effect.NOT_BUILT,
            {
                "DRAAdminAccess": "Requests with adminAccess are always allowed.",
                "DRADerivedAttributes": "Attributes of devices that others are derived from.",
                "DRADeviceCompatibilityGroups": "Devices are only allocated with others of their group.",
                "DRAOptionalNodeOperations": "Drivers that need no preparation on the node.",
                "DRAPartitionableDevicesType": "Devices of pools that are partitioned by type.",
                "DynamicResourceAllocation": "DynamicResources is always in the default profile.",
                "InPlacePodVerticalScalingMemoryBackedVolumes": "Nodes have to declare the feature for pods "
                "that resize memory-backed volumes.",
                "InPlacePodVerticalScalingSchedulerPreemption": "Pods are evicted for deferred resizes.",
                "InterPodAffinityHostnameFastPath": "A shorter way to the same decisions.",
                "PodGroupPreemptionPolicy": "Pod groups have a preemption policy.",
                "SchedulerPreQueueingHints": "Events are filtered before the queueing hints.",
                "VolumeBindMountOptions": "Nodes have to declare the feature for pods that use it.",
            },
        ),
        (
            Effect.NONE,
            {
                "SchedulerAsyncAPICalls": "Writes end within the cycle that they belong to; no decision "
                "waits for them upstream either.",
                "SchedulerAsyncPreemption": "Victims are deleted within the preemptor's cycle, so no later "
                "cycle finds one that is still to be.",
            },
        ),
        (
            Effect.BUILT,
            {
                "CompositePodGroup": "Pod groups of pod groups.",
                "DRAConsumableCapacity": "Devices can be allocated several times, and requests can ask for "
                "capacity.",
                "DRADeviceBindingConditions": "Devices with binding conditions can be allocated; pods wait "
                "for them.",
                "DRADeviceTaintRules": "DeviceTaintRules taint devices.",
                "DRADeviceTaints": "Taints of devices count.",
                "DRAExtendedResource": "Device classes provide extended resources.",
                "DRAFractionalCapacityRange": "Ranges of capacity are compared in thousandths.",
                "DRAListTypeAttributes": "Selectors see attributes that are lists. Without it they fail for "
                "a device with such an attribute; constraints never match lists.",
                "DRANodeAllocatableResources": "What devices take of a node's own resources counts.",
                "DRAPartitionableDevices": "Devices share counters, and may choose their nodes each.",
                "DRAPrioritizedList": "Requests can have alternatives.",
                "DRAResourceClaimDeviceStatus": "As DRADeviceBindingConditions.",
                "DRASchedulerFilterTimeout": "The search for devices on a node has a limit.",
                "DRAWorkloadResourceClaims": "Pods share claims with their PodGroup.",
                "GangScheduling": "Part of GenericWorkload in 1.37.",
                "GenericWorkload": "Pods of a PodGroup are tried together: at least minCount of them are "
                "placed, or none, and others are evicted for the group as a whole.",
                "InPlacePodLevelResourcesVerticalScaling": "Pod-level resources in a pod's status count "
                "beside those of its spec.",
                "InPlacePodVerticalScaling": "Resources of containers in a pod's status count beside those "
                "of its spec.",
                "MatchLabelKeysInPodTopologySpread": "matchLabelKeys of spread constraints count. Files are "
                "read as kube-apiserver does it with the gate on, which adds them to the selectors.",
                "MaxUnavailableStatefulSet": "maxUnavailable of StatefulSets counts for the simulated "
                "controllers.",
                "NodeDeclaredFeatures": "Nodes have to declare the features that a pod needs.",
                "NodeInclusionPolicyInPodTopologySpread": "nodeAffinityPolicy and nodeTaintsPolicy of spread "
                "constraints count.",
                "NominatedNodeNameForExpectation": "A pod whose binding takes time is nominated to its node "
                "meanwhile.",
                "OpportunisticBatching": "Equal pods that follow one another share a scored list of nodes.",
                "PodLevelResources": "A pod's spec.resources counts.",
                "SchedulerPopFromBackoffQ": "Pods that back off are taken where no other pod is ready.",
                "SchedulerQueueingHints": "Events wake the pods that they may help.",
                "SidecarContainers": "Init containers that restart always add up.",
                "StorageCapacityScoring": "VolumeBinding scores nodes by how full their storage would be.",
                "TaintTolerationComparisonOperators": "Tolerations compare numbers (Lt, Gt).",
                "TopologyAwareWorkloadScheduling": "Pod groups are placed within one domain of a topology.",
                "VolumeAttributesClass": "Volumes must have the class of their claim.",
                "VolumeLimitScaling": "Volumes of a CSIDriver with preventPodSchedulingIfMissing need nodes "
                "whose CSINode lists the driver.",
                "WorkloadAwarePreemption": "Part of GenericWorkload in 1.37.",
            },
        ),
    )
    for name, reason in reasons.items()
}
"""Effect and reason by gate, for those that kube-scheduler reads."""

OF_OTHERS: dict[str, str] = {
    "Only kube-apiserver reads it.": """
        APIResponseCompression APIServerIdentity APIServerWebhookAuthenticationToken APIServingWithRoutine
        AllowParsingUserUIDFromCertAuth AllowUnsafeMalformedObjectDeletion
        AuthorizePodWebsocketUpgradeCreatePermission CBORServingAndStorage CRDObservedGenerationTracking
        ClearingNominatedNodeNameAfterBinding ClusterTrustBundle ConcurrentWatchObjectDecode
        ConsistentListFromCacheSkipTimeoutFallback ConstrainedImpersonation CoordinatedLeaderElection
        CrossNamespaceVolumeDataSource DRAResourceClaimGranularStatusAuthorization DeclarativeValidation
        DeclarativeValidationBeta DeclarativeValidationTakeover DetectCacheInconsistency EtcdRangeStream
        EvictionRequestAPI ExcludeAdmissionWebhookVirtualResources ExtendWebSocketsToKubelet
        ExternalServiceAccountTokenSigner ListFromCacheSnapshot ManifestBasedAdmissionControlConfig
        MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs
        MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy OpenAPIEnums
        PodLevelResourcesFixDefaulting PodLogsQuerySplitStreams PodObservedGenerationTracking
        PortForwardWebsockets RelaxedServiceNameValidation RemoteRequestHeaderUID
        ServiceAccountNodeAudienceRestriction ShardedListAndWatch SizeBasedListCostEstimate
        StorageVersionAPI StorageVersionHash StrictIPCIDRValidation
        StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
        UnknownVersionInteroperabilityProxy UserNamespacesPodSecurityStandards
        WatchCacheInitializationPostStartHook WatchList WatchListCompression WebhookRoundTripLoadBalancing
    """,
    "Only kube-apiserver reads it, which merges matchLabelKeys into a new pod's selectors. Where that was"
    " not done, the scheduler does it.": "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "Only kube-apiserver reads it, which copies topology labels of the node to a pod as it is bound. Here"
    " a binding does not.": "PodTopologyLabelsAdmission",
    "Only kubelet reads it.": """
        AtomicWriteVolumeUserFields CPUCFSQuotaPeriod CPUManagerPolicyAlphaOptions
        CPUManagerPolicyBetaOptions CRIListStreaming CSIServiceAccountTokenSecrets CSIVolumeHealth
        ClusterTrustBundleProjection ContainerCheckpoint ContainerRestartRules ContainerStopSignals
        DefaultPodSysctls DisableCPUQuotaWithExclusiveCPUs EmptyDirVolumeMode EnvFiles EventedPLEG
        GRPCContainerProbeTLS GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
        H2CContainerProbe HostnameOverride HugepageAwareEviction ImageMaximumGCAge ImageVolume
        ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScalingInitContainers
        KubeletAllocatedPodsEndpoint KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
        KubeletFineGrainedAuthz KubeletInUserNamespace KubeletPSI KubeletPodResourcesDynamicResources
        KubeletPodResourcesGet KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
        LocalStorageCapacityIsolationFSQuotaMonitoring MemoryQoS MutableCSINodeAllocatableCount
        NodeLogQuery PLEGOnDemandRelist PodAndContainerStatsFromCRI PodCertificateRequest
        PodLevelResourceManagers PodLevelResourcesFixKubeletQOSClass PodReadyToStartContainersCondition
        PodsAPI PreventStaticPodAPIReferences ProcMountType QOSReserved ReduceDefaultCrashLoopBackOffDecay
        ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile ResourceHealthStatus
        ResourceHealthStatusMessage RestartAllContainersOnContainerExits RotateKubeletServerCertificate
        RuntimeClassInImageCriApi SELinuxChangePolicy SELinuxMount SELinuxMountReadWriteOncePod
        SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyAlphaOptions
        TopologyManagerPolicyBetaOptions UserNamespacesHostNetworkSupport UserNamespacesSupport
        WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown
    """,
    "Only controllers read it.": """
        CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
        ControllerManagerReleaseLeaderElectionLockOnExit DRAResourcePoolStatus
        DeploymentReplicaSetTerminatingReplicas HPAConfigurableTolerance HPAGeneration
        HPAOptimizedSelectorStore HPAScaleToZero InTreePluginPortworxUnregister JobManagedBy
        NodeControllerLeaseCircuitBreaker NodeLifecycleConditions PersistentVolumeClaimUnusedSinceTime
        PodDeletionCost StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA
        StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
        StaleControllerConsistencyStatefulSet StatefulSetRecreateStrategy
        StatefulSetSemanticRevisionComparison StorageVersionMigrator WorkloadWithJob
    """,
    "About the transport of objects from the API server, not about their content.": """
        AtomicFIFO ClientsAllowCARotation ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR
        InOrderInformers InOrderInformersBatchProcess InformerResourceVersion
        UnlockWhileProcessingFIFO WatchListClient
    """,
    "About logs, metrics and status pages.": """
        ComponentFlagz ComponentStatusz ContextualLogging LoggingAlphaOptions LoggingBetaOptions
        NativeHistograms
    """,
    "Only kube-proxy reads it.": """
        KubeProxyNFTablesLocalhostNodePorts NFTablesNetlink PreferSameTrafficDistribution
    """,
}
"""The gates that nothing here reads, by reason."""
