"""How Kueue is configured, as far as it decides about admissions."""

from __future__ import annotations

from dataclasses import dataclass, field

from moorage.errors import InputError, nearest
from moorage.kube.apiserver.kueue_configuration import ResourceTransformation

FINAL, INITIAL = "LessThanOrEqualToFinalShare", "LessThanInitialShare"

GATES = {
    "PartialAdmission": True,
    "FlavorFungibility": True,
    "PrioritySortingWithinCohort": True,
    "FairSharingPreemptWithinNominal": True,
    "FairSharingPrioritizeNonBorrowing": True,
    "TopologyAwareScheduling": True,
    "TASProfileMixed": True,
    "TASBalancedPlacement": False,
    "SchedulerTimestampPreemptionBuffer": False,
}
"""The gates of v0.17 that are followed, with their defaults."""


@dataclass(frozen=True)
class Settings:
    """The configuration of Kueue.

    Parameters
    ----------
    fair_sharing : tuple of str, optional
        The strategies of preemption by shares, in their order; without any, both; None turns fair sharing
        off.
    requeuing_timestamp : {"Eviction", "Creation"}
        Where a workload stands whose pods were not ready in time.
    gates : dict of str to bool
        Feature gates that are not as v0.17 has them.
    frameworks : frozenset of str, optional
        The kinds that become workloads, such as ``batch/job``; by default all that are known.
    excluded : tuple of str
        How the names of resources begin that do not count.
    transformations : tuple of ResourceTransformation
        As what others count.

    Raises
    ------
    InputError
        A gate or strategy is not known.
    """

    fair_sharing: tuple[str, ...] | None = None
    requeuing_timestamp: str = "Eviction"
    gates: dict[str, bool] = field(default_factory=dict)
    frameworks: frozenset[str] | None = None
    excluded: tuple[str, ...] = ()
    transformations: tuple[ResourceTransformation, ...] = ()

    def __post_init__(self) -> None:
        for name in self.gates:
            if name not in GATES:
                raise InputError(f"Kueue's feature gate {name} is not followed{nearest(name, GATES)}")
        for name in self.fair_sharing or ():
            if name not in (FINAL, INITIAL):
                raise InputError(f"preemptionStrategies: {name} is not one of {FINAL}, {INITIAL}")

    def gate(self, name: str) -> bool:
        """Whether a feature gate is on."""
        return self.gates.get(name, GATES[name])

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies of fair sharing."""
        return self.fair_sharing or (FINAL, INITIAL)
