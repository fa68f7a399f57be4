"""What differs in earlier releases of kube-scheduler: defaults of gates, the choice among ties, a score.

Source: versioned feature specifications of kubernetes/kubernetes, pkg/features and
test/compatibility_lifecycle/reference/versioned_feature_list.yaml (Apache-2.0). Gates are named which the
scheduler reads and whose value, or whose existence, differs from v1.36. docs/releases.md says what else
differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .feature_gates import DEFAULT_GATES, GATES, Effect, dependents_off, feature_gates


@dataclass(frozen=True, slots=True)
class Release:
    """A release of kube-scheduler, as it differs from v1.36.

    Attributes
    ----------
    gates : dict of str to bool
        Defaults that differ.
    unknown : frozenset of str
        Gates that it does not have; they are off.
    tie_break : str
        Choice among nodes of equal score.
    balanced_allocation : str
        Formula of NodeResourcesBalancedAllocation; see `Profile`.
    """

    gates: Mapping[str, bool]
    unknown: frozenset[str]
    tie_break: str = "go-heap"
    balanced_allocation: str = "1.35"


_OFF_BEFORE_136 = (
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
    "InPlacePodLevelResourcesVerticalScaling",
    "NodeDeclaredFeatures",
)
_SINCE_136 = frozenset(
    {
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAWorkloadResourceClaims",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
    }
)
_SINCE_135 = frozenset(
    {
        "DRADeviceTaintRules",
        "GangScheduling",
        "GenericWorkload",
        "InPlacePodLevelResourcesVerticalScaling",
        "NodeDeclaredFeatures",
        "OpportunisticBatching",
        "TaintTolerationComparisonOperators",
        "VolumeLimitScaling",
    }
)
RELEASES = {
    "1.34": Release(
        dict.fromkeys((*_OFF_BEFORE_136, "NominatedNodeNameForExpectation", "OpportunisticBatching"), False),
        _SINCE_136 | _SINCE_135,
        "random",
    ),
    "1.35": Release(dict.fromkeys(_OFF_BEFORE_136, False), _SINCE_136),
    "1.36": Release({}, frozenset(), balanced_allocation="1.36"),
}
"""Releases by their minor version."""


def release_gates(version: str, changes: Mapping[str, bool] | None = None) -> dict[str, bool]:
    """Return the values of all feature gates in a release.

    Parameters
    ----------
    version : str
        ``1.34``, ``1.35`` or ``1.36``.
    changes : mapping of str to bool, optional
        Gates that differ from the defaults of the release; ``AllAlpha`` and ``AllBeta`` only in 1.36, as
        gates of other releases are of other stages.

    Returns
    -------
    dict of str to bool
        Value by gate. A default that is not built (`not_built`) is that of v1.36. Gates of later releases are
        off if they need one that is off.

    Raises
    ------
    ValueError
        The release does not have a gate, or see `feature_gates`.
    """
    release, changes = RELEASES[version], dict(changes or {})
    for name in changes:
        if name in release.unknown or (release.gates and name in ("AllAlpha", "AllBeta")):
            raise ValueError(f"unrecognized feature gate in v{version}: {name}")
    defaults = {name: value for name, value in release.gates.items() if name not in not_built(version)}
    given = defaults | changes
    return feature_gates(dependents_off(given) | given if release.gates else given)


def not_built(version: str) -> list[str]:
    """Return the gates whose default in a release is not built.

    Parameters
    ----------
    version : str

    Returns
    -------
    list of str
        In alphabetical order.
    """
    return sorted(
        name
        for name, value in RELEASES[version].gates.items()
        if value != DEFAULT_GATES[name] and GATES[name].effect is Effect.NOT_BUILT
    )
