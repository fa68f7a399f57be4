"""The options of a scheduler, from which its forks are made."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from moorage.kube.releases import FeatureGates
from moorage.kube.releases import feature_gates as all_gates

from ..framework.configuration import KubeSchedulerConfiguration
from ..framework.profiles.plugin_registry import Registry

Wait = Callable[[float], object]
"""Takes seconds, and lets them pass while pods are being bound."""


class Options(Struct, frozen=True, kw_only=True):
    """The options of a scheduler as it was made; see the parameters of `Scheduler`.

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
    threads : int or None
        Number of threads that search very many nodes; None for the configuration's parallelism.
    binding_threads : int
        Number of threads that run steps of binding cycles.
    fail_fast : bool
    """

    configuration: KubeSchedulerConfiguration | None = None
    registry: Registry | None = None
    gates: FeatureGates = msgspec.field(default_factory=all_gates)
    percentage: int | None = None
    tie_break: str = "go-heap"
    seed: int = 0
    clock: Callable[[], float] | None = None
    wait: Wait | None = None
    threads: int | None = None
    binding_threads: int = 0
    fail_fast: bool = False
