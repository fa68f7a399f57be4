"""The options of a scheduler: as callers pass them, and as its forks are made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec
from msgspec import Struct

from moorage.controllers.workloads import PodTimes, TimesOf
from moorage.framework.configuration import KubeSchedulerConfiguration
from moorage.framework.profiles.plugin_registry import Registry
from moorage.framework.profiles.profile import Profile
from moorage.objects.model.cluster import Suspended
from moorage.plugins.registry import ConfigurationSource
from moorage.releases import FeatureGates
from moorage.releases import feature_gates as all_gates

Wait = Callable[[float], object]
"""Takes seconds, and lets them pass while pods are being bound."""


class ProfileOptions(TypedDict, total=False):
    """Keyword arguments that say which plugins take part; see `Scheduler`."""

    profile: Profile | None
    profiles: Sequence[Profile]
    config: ConfigurationSource | None
    feature_gates: Mapping[str, bool] | None
    registry: Registry | None


class SchedulerOptions(ProfileOptions, total=False):
    """Keyword arguments of `Scheduler`."""

    percentage_of_nodes_to_score: int | None
    tie_break: str
    kubernetes_version: str
    seed: int
    ttl: float | None
    clock: Callable[[], float] | None
    wait: Wait | None
    threads: int | None
    binding_threads: int | None
    controllers: bool
    pod_times: PodTimes | TimesOf
    fail_fast: bool
    measured: bool
    synced: bool


def check_names(options: Mapping[str, object], known: Any, of: str) -> None:
    """Raise TypeError for a keyword argument that is unknown.

    Parameters
    ----------
    options : mapping of str to object
        The keyword arguments.
    of : str
        What takes them, for the text.
    """
    unknown = sorted(options.keys() - (known.__required_keys__ | known.__optional_keys__))
    if unknown:
        raise TypeError(f"{of} takes no option {', '.join(unknown)}")


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
    threads : int or None
        Number of threads that search very many nodes; None for the configuration's parallelism.
    binding_threads : int
        Number of threads that run steps of binding cycles.
    owns_store : bool
        Whether nobody else writes to the store.
    controllers : bool
        Whether the controllers of workloads are simulated in that case.
    pod_times : PodTimes or callable
        How long a pod takes to start, to become ready, and to stop.
    fail_fast : bool
    suspended : tuple of Suspended
        The suspended workloads of other projects that the cluster had.
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
    owns_store: bool = False
    controllers: bool = True
    pod_times: PodTimes | TimesOf = PodTimes()
    fail_fast: bool = False
    suspended: tuple[Suspended, ...] = ()
