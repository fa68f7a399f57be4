"""The engines of a scheduler, the handle of their plugins, and the rotation that they share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any

from moorage._core.decide.decider import TieBreak
from moorage._core.decide.search import MAX_THREADS
from moorage.engine.cache import SchedulerCache
from moorage.engine.framework.configuration import KubeSchedulerConfiguration, groups_pods
from moorage.engine.framework.plugin.extender import Extender
from moorage.engine.framework.plugin.handle import FrameworkHandle
from moorage.engine.framework.plugin.interface import Plugin
from moorage.engine.framework.plugin.nominator import PodNominator
from moorage.engine.framework.profiles.build_profiles import check_profiles, make_profiles
from moorage.engine.framework.profiles.profile import Profile
from moorage.engine.plugins.registry import IN_TREE_CLASSES, all_plugins
from moorage.engine.preemption.evaluator import set_up_preemption
from moorage.errors import InputError
from moorage.store import InformerFactory, ObjectClient

from ..controllers import ClaimControllers
from ..options import Options
from .engine import Engine
from .opportunistic_batching import Batching

TIE_BREAKS = {"first": TieBreak.FIRST, "random": TieBreak.RANDOM, "go-heap": TieBreak.GO_HEAP}
PARALLELISM = 16  # default of kube-scheduler v1.36
OWN_ATTRIBUTES = vars(Plugin()).keys()  # all attributes of a plugin that keeps no state


def make_handle(
    cache: SchedulerCache,
    client: ObjectClient,
    informers: InformerFactory,
    nominator: PodNominator,
    options: Options,
    time: ClaimControllers,
) -> FrameworkHandle:
    """Make the handle that plugins use, with the extenders of a configuration.

    Parameters
    ----------
    client : ObjectClient
        Where plugins read and write objects.
    options : Options
        With the random tie-break, preemption draws its offsets from the seed.
    time : ClaimControllers
        The clock, in seconds, and the wait of plugins.
    """
    gates = options.gates
    handle = FrameworkHandle(
        cache,
        client,
        informers=informers,
        nominator=nominator,
        extenders=_extenders(options.configuration, cache),
        groups_pods=groups_pods(gates),
        feature_gates=gates,
        places_groups=gates["TopologyAwareWorkloadScheduling"],
        has_trees=gates["CompositePodGroup"],
        clock=time.now,
        wait=time.wait,
    )
    handle.plugin_errors.fail_fast = options.fail_fast
    set_up_preemption(handle, options.seed if options.tie_break == "random" else None)
    return handle


def _extenders(configuration: KubeSchedulerConfiguration | None, cache: SchedulerCache) -> Sequence[Extender]:
    """Make the extenders of a configuration; few have any, and HTTP and TLS take long to import."""
    if configuration is None or not configuration.extenders:
        return ()
    from moorage.engine.extenders.http_extender import make_extenders

    return make_extenders(configuration, cache.node_info)


class Rotation:
    """The position in the node list at which the next search begins, shared by all profiles.

    A Participant of the cache's transactions. kube-scheduler v1.36, schedule_one.go nextStartNodeIndex.

    Parameters
    ----------
    engines : sequence of Engine
        One for each profile; numbered in this order.

    Attributes
    ----------
    holder : Engine
        The engine whose decider has the position: the one that searched last.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = engines
        self.holder = engines[0]
        for number, engine in enumerate(engines):
            engine.number = number

    def take(self, engine: Engine) -> Engine:
        """Hand the rotation to an engine, whose search is the next.

        Returns
        -------
        Engine
            The argument.
        """
        if engine is not self.holder:
            engine.decider.start = self.holder.decider.start
            self.holder = engine
        return engine

    @property
    def start(self) -> int:
        """Position in the node list at which the next search begins."""
        return self.holder.decider.start

    @start.setter
    def start(self, start: int) -> None:
        self.holder.decider.start = start

    def save(self) -> object:
        """Return what `undo` needs: the holder and its position."""
        return self.holder, self.holder.decider.start

    def undo(self, saved: Any) -> None:
        """Restore the holder and its position."""
        self.holder, self.holder.decider.start = saved

    def release(self, saved: object) -> None:
        """Do nothing: a saved position needs no release."""

    def copy_from(self, other: Rotation) -> dict[Engine, Engine]:
        """Take the state of the rotation and of the engines of another scheduler.

        Parameters
        ----------
        other : Rotation
            Of as many profiles.

        Returns
        -------
        dict of Engine to Engine
            The engine here for each one there.
        """
        engines = dict(zip(other.engines, self.engines, strict=True))
        for there, here in engines.items():
            here.decider.copy_from(there.decider)
        self.holder = engines[other.holder]
        return engines

    def clone(self) -> Rotation:
        """Return a rotation for a fork of the cache. The fork searches by engines of its own, so it never
        moves this position."""
        out = Rotation(self.engines)
        out.holder = self.holder
        return out


def make_engines(
    handle: FrameworkHandle, options: Options, profiles: Sequence[Profile], batching: Batching
) -> list[Engine]:
    """Make an engine for each profile of a configuration, or else of a list of profiles.

    Parameters
    ----------
    handle : FrameworkHandle
        Each engine has a copy of it.
    options : Options
        Of the scheduler.
    profiles : sequence of Profile
        Used without a configuration.
    batching : Batching
        Shared by the engines.

    Returns
    -------
    list of Engine
        In the order of the profiles.
    """
    configuration, percentage, seed = options.configuration, options.percentage, options.seed
    if not hasattr(seed, "__index__"):
        raise TypeError(f"seed must be an integer, not {seed!r}")
    threads = PARALLELISM
    if configuration is None:
        profiles = check_profiles(profiles)
        handles = [replace(handle) for _ in profiles]
    else:
        handles = [replace(handle) for _ in configuration.profiles or ()]
        profiles = make_profiles(configuration, all_plugins(options.registry, handle.release), handles)
        threads = configuration.parallelism or PARALLELISM
        if percentage is None:
            percentage = configuration.percentage_of_nodes_to_score
    if options.threads is not None:
        threads = options.threads
    profiles = [
        profile if profile.release is handle.release else replace(profile, release=handle.release)
        for profile in profiles
    ]
    owned: list[Profile] = []
    engines = []
    with disowned_on_error(owned):
        for profile, engine_handle in zip(profiles, handles, strict=True):
            owned.append(owned_profile(profile, engine_handle))
            engine = Engine(
                owned[-1], engine_handle, TIE_BREAKS[options.tie_break], percentage or 0, seed, batching
            )
            engine.search.threads = _threads(threads)
            engines.append(engine)
    return engines


def _threads(wanted: int) -> int:
    """Return the number of threads that search very many nodes, at most the number of this process's cores.

    Raises
    ------
    ValueError
        Fewer than one is wanted.
    """
    if wanted < 1:
        raise ValueError(f"threads must be at least 1, not {wanted}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(wanted, cores, MAX_THREADS)


@contextmanager
def disowned_on_error(profiles: Sequence[Profile]) -> Iterator[None]:
    """Take the plugins of profiles from their scheduler if an exception ends the block, so that another can
    use them.

    Parameters
    ----------
    profiles : sequence of Profile
        Read at the exception.
    """
    try:
        yield
    except BaseException:
        for profile in profiles:
            for plugin in profile.plugins:
                plugin.handle = None
        raise


def owned_profile(profile: Profile, handle: FrameworkHandle) -> Profile:
    """Return a profile whose plugins belong to the scheduler of `handle`. Plugins of another scheduler are
    copied.

    Returns
    -------
    Profile
        The argument, where no plugin had to be copied.

    Raises
    ------
    InputError
        A plugin that keeps state belongs to another scheduler.
    """
    if not [plugin for plugin in profile.plugins if plugin.handle is not None]:
        return profile
    plugins = tuple(_owned_plugin(plugin, handle) for plugin in profile.plugins)
    return profile if plugins == tuple(profile.plugins) else replace(profile, plugins=plugins)


def _owned_plugin(plugin: Plugin, handle: FrameworkHandle) -> Plugin:
    """Return the plugin itself; where it belongs to another scheduler, a copy or what its method `clone`
    returns."""
    if plugin.handle is None or plugin.handle is handle:
        return plugin
    if type(plugin) in IN_TREE_CLASSES:
        return plugin.another()
    if plugin.handle.cache is handle.cache:
        return plugin
    if hasattr(plugin, "clone"):
        cloned: Plugin = plugin.clone()
        cloned.handle = None
        return cloned
    if not vars(plugin).keys() <= OWN_ATTRIBUTES:
        raise InputError(
            f'plugin "{plugin.name}" keeps state and belongs to another scheduler already: '
            f"make an instance for each scheduler, or give it a method clone()"
        )
    duplicate = copy(plugin)
    duplicate.handle = None
    return duplicate
