"""The feature gates that kube-scheduler v1.36 reads."""

from __future__ import annotations

from collections.abc import Mapping

from moorage._core.resources import PodGates

_ON = (
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
    "InPlacePodLevelResourcesVerticalScaling",
    "MatchLabelKeysInPodTopologySpread",
    "NodeDeclaredFeatures",
    "NominatedNodeNameForExpectation",
    "OpportunisticBatching",
    "PodLevelResources",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
)
_OFF = (
    "CompositePodGroup",
    "DRADeviceTaintRules",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "SchedulerAsyncAPICalls",
    "StorageCapacityScoring",
    "TaintTolerationComparisonOperators",
    "TopologyAwareWorkloadScheduling",
    "VolumeLimitScaling",
    "WorkloadAwarePreemption",
)
_LOCKED_ON = (
    "DRAAdminAccess",
    "DynamicResourceAllocation",
    "InPlacePodVerticalScaling",
    "NodeInclusionPolicyInPodTopologySpread",
    "SchedulerQueueingHints",
    "SidecarContainers",
    "VolumeAttributesClass",
)

DEFAULT_GATES: Mapping[str, bool] = (
    dict.fromkeys(_ON, True) | dict.fromkeys(_OFF, False) | dict.fromkeys(_LOCKED_ON, True)
)
"""Gate name to its default in v1.36."""


def feature_gates(changes: Mapping[str, bool] | None = None) -> dict[str, bool]:
    """All gates: the defaults of v1.36 with the given changes.

    Raises
    ------
    ValueError
        With upstream's text, for a gate that is unknown or locked, or a value that is no boolean.
    """
    gates = dict(DEFAULT_GATES)
    for name, value in (changes or {}).items():
        if name not in gates:
            raise ValueError(f"unrecognized feature gate: {name}")
        if not isinstance(value, bool):
            raise ValueError(f"invalid value of {name}={value}, err: not a boolean")
        if name in _LOCKED_ON and not value:
            raise ValueError(f"cannot set feature gate {name} to false, feature is locked to true")
        gates[name] = value
    return gates


def groups_pods(gates: Mapping[str, bool]) -> bool:
    """Whether pods of a `PodGroup` belong together; else groups are ignored."""
    return gates["GenericWorkload"] or gates["GangScheduling"]


def pod_gates(gates: Mapping[str, bool]) -> PodGates:
    """What of the gates decides how pods are read."""
    return PodGates(
        pod_level_resources=gates["PodLevelResources"],
        pod_level_resizing=gates["InPlacePodLevelResourcesVerticalScaling"],
        comparison_operators=gates["TaintTolerationComparisonOperators"],
    )
