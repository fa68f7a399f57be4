"""What feature gates do here, in whichever release has them.

Which gates a release has, and their stages and defaults, is in ``gates/``. An alpha or beta gate of a release
that is not named here is an error of `moorage.kube.releases.feature_gates.gates_of`.
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
                "DRADerivedAttributes": "Attributes of devices are derived from others.",
                "DRADeviceCompatibilityGroups": "A pod only gets devices of one group.",
                "DRAOptionalNodeOperations": "Drivers may skip the preparation of devices on the node.",
                "DRAPartitionableDevicesType": "Pools say which types of partitions their devices have.",
                "DynamicResourceAllocation": "DynamicResources is always in the default profile.",
                "GangScheduling": "Part of GenericWorkload in 1.37.",
                "InPlacePodVerticalScalingMemoryBackedVolumes": "Pods that resize memory-backed volumes "
                "need a node that declares the feature.",
                "InPlacePodVerticalScalingSchedulerPreemption": "Pods are evicted for deferred resizes.",
                "InterPodAffinityHostnameFastPath": "A shorter way, which decides otherwise where nodes "
                "share a hostname label.",
                "PodGroupPreemptionPolicy": "Pod groups have a preemption policy.",
                "VolumeBindMountOptions": "Pods that use it need a node that declares the feature.",
                "WorkloadAwarePreemption": "Part of GenericWorkload in 1.37.",
            },
        ),
        (
            Effect.NONE,
            {
                "SchedulerAsyncAPICalls": "Here, the writes of a cycle end with the cycle. In "
                "kube-scheduler too, no decision waits for them.",
                "SchedulerAsyncPreemption": "Here, victims are deleted within the preemptor's cycle; on a "
                "real cluster, beside it.",
                "SchedulerPreQueueingHints": "Which pods an event may concern is looked up before the "
                "queueing hints, which pass over the others anyway.",
            },
        ),
        (
            Effect.BUILT,
            {
                "CompositePodGroup": "Pod groups of pod groups.",
                "DRAConsumableCapacity": "Several claims can share a device, and requests can ask "
                "for a part of its capacity.",
                "DRADeviceBindingConditions": "Devices with binding conditions can be allocated. Pods wait "
                "for the conditions before they are bound.",
                "DRADeviceTaintRules": "DeviceTaintRules taint devices.",
                "DRADeviceTaints": "Requests get only devices whose taints they tolerate.",
                "DRAExtendedResource": "Device classes provide extended resources.",
                "DRAFractionalCapacityRange": "Ranges of capacity are compared exactly to a thousandth.",
                "DRAListTypeAttributes": "Selectors can read attributes that are lists. If off, they fail "
                "for a device that has one.",
                "DRANodeAllocatableResources": "Devices can use cpu and memory of their node.",
                "DRAPartitionableDevices": "Devices can share counters, and can have their own nodes.",
                "DRAPrioritizedList": "A request can list alternatives (firstAvailable).",
                "DRAResourceClaimDeviceStatus": "DRADeviceBindingConditions needs it; nothing else reads it.",
                "DRASchedulerFilterTimeout": "The search for devices on a node has a limit (filterTimeout).",
                "DRAWorkloadResourceClaims": "Pods share claims with their PodGroup.",
                "GenericWorkload": "Pods of a PodGroup are placed together or not at all, and preempt as "
                "a group.",
                "InPlacePodLevelResourcesVerticalScaling": "Pod-level resources in a pod's status count "
                "too, not only those in its spec.",
                "InPlacePodVerticalScaling": "Resources of containers in a pod's status count too, not only "
                "those in its spec.",
                "MatchLabelKeysInPodTopologySpread": "matchLabelKeys of spread constraints count.",
                "MaxUnavailableStatefulSet": "The simulated StatefulSet controller respects maxUnavailable.",
                "NodeDeclaredFeatures": "A pod needs a node that declares the features it uses.",
                "NodeInclusionPolicyInPodTopologySpread": "nodeAffinityPolicy and nodeTaintsPolicy of spread "
                "constraints count.",
                "NominatedNodeNameForExpectation": "While a slow binding goes on, the pod is nominated "
                "to its node.",
                "OpportunisticBatching": "Equal pods in a row reuse the scored list of nodes of the first.",
                "PodLevelResources": "`spec.resources` of a pod counts.",
                "SchedulerPopFromBackoffQ": "If no other pod is ready, pods that back off are tried.",
                "SchedulerQueueingHints": "An event wakes only the pods that it may help.",
                "SidecarContainers": "Init containers with restartPolicy Always add to the requests.",
                "StorageCapacityScoring": "VolumeBinding scores nodes by how full their storage would be.",
                "TaintTolerationComparisonOperators": "Tolerations can compare numbers (Lt, Gt).",
                "TopologyAwareWorkloadScheduling": "Pod groups can ask for one domain of a topology.",
                "VolumeAttributesClass": "A volume needs the VolumeAttributesClass of its claim.",
                "VolumeLimitScaling": "Volumes of a CSIDriver with preventPodSchedulingIfMissing need nodes "
                "whose CSINode lists the driver.",
            },
        ),
    )
    for name, reason in reasons.items()
}
"""Effect and reason by gate, for those that kube-scheduler reads."""

PAST = frozenset({"GA", "Deprecated"})
"""The stages of gates that `OF_NO_INTEREST` stands for, unless they are named."""
OF_NO_INTEREST = (Effect.NONE, "Generally available or deprecated, and the scheduler does not read it.")

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
    "Only kube-apiserver reads it, and merges matchLabelKeys into the selectors of new pods. The scheduler"
    " does so for pods where that is missing.": "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "Only kube-apiserver reads it, and copies topology labels of the node to the pod when it binds. A binding"
    " here does not.": "PodTopologyLabelsAdmission",
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
