"""The options of a scheduler of a cluster: as callers pass them, and as its forks are made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from moorage.controllers import PodTimes, TimesOf
from moorage.engine.framework.plugin_registry import Registry
from moorage.engine.framework.profile import Profile
from moorage.engine.plugins.registry import ConfigurationSource
from moorage.engine.scheduler.options import Options, Wait
from moorage.kube.model.cluster import Suspended


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


class ClusterOptions(Options, frozen=True, kw_only=True):
    """The options of a scheduler of a cluster.

    Attributes
    ----------
    owns_store : bool
        Whether nobody else writes to the store.
    controllers : bool
        Whether the controllers of workloads are simulated in that case.
    pod_times : PodTimes or callable
        How long a pod takes to start, to become ready, and to stop.
    suspended : tuple of Suspended
        The suspended workloads of other projects that the cluster had.
    """

    owns_store: bool = False
    controllers: bool = True
    pod_times: PodTimes | TimesOf = PodTimes()
    suspended: tuple[Suspended, ...] = ()
