"""The options of a scheduler, from which its forks are made."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from moorage.framework.configuration import KubeSchedulerConfiguration
from moorage.framework.profiles.plugin_registry import Registry
from moorage.releases import FeatureGates

from .volume_controllers import Wait


class Options(Struct, frozen=True, kw_only=True):
    """The options of a scheduler; see the parameters of `Scheduler`.

    Attributes
    ----------
    configuration : KubeSchedulerConfiguration or None
    registry : Registry or None
    gates : FeatureGates
        All feature gates, and their release.
    percentage : int or None
        percentageOfNodesToScore, in place of the configuration's.
    tie_break : str
    seed : int
    clock : callable or None
    wait : callable or None
    threads : int
        Number of threads that run steps of binding cycles.
    owns_store : bool
        Whether nobody else writes to the store.
    controllers : bool
        Whether the controllers of workloads are simulated in that case.
    fail_fast, group_cycle_bugs : bool
    """

    configuration: KubeSchedulerConfiguration | None
    registry: Registry | None
    gates: FeatureGates
    percentage: int | None
    tie_break: str
    seed: int
    clock: Callable[[], float] | None
    wait: Wait | None
    threads: int
    owns_store: bool
    controllers: bool
    fail_fast: bool
    group_cycle_bugs: bool
