"""Engine: what the scheduling cycles of one profile over the cache need (`cycle.cycle`); the engines of a
scheduler, and the rotation that they share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from moorage._core.decide.decider import TieBreak
from moorage._core.decide.plan import Plan
from moorage._core.decide.search import MAX_THREADS
from moorage._core.state.pod_class import Shape
from moorage.engine.cache import Participant, SchedulerCache
from moorage.engine.framework.handle import Extender, FrameworkHandle
from moorage.engine.framework.in_tree_plugins import CorePostFilter
from moorage.engine.framework.interface import FilterPlugin, Plugin, PreFilterPlugin
from moorage.engine.framework.plugin_registry import check_profiles, make_profiles
from moorage.engine.framework.profile import Profile
from moorage.engine.framework.run_plugins import Target, target_of
from moorage.engine.framework.waiting_pods import PodNominator
from moorage.engine.plugins.registry import all_plugins, is_in_tree
from moorage.engine.preemption.default_preemption import random_offset
from moorage.errors import InputError
from moorage.kube.model.pod import Pod
from moorage.kube.releases import groups_pods
from moorage.lazy import lazy_attribute
from moorage.saved_fields import SavedFields
from moorage.store import InformerFactory, ObjectClient

from ..options import ClaimControllers, Options
from .node_search import Batching, NodeSearch

if TYPE_CHECKING:
    from moorage.engine.framework.configuration import KubeSchedulerConfiguration

    from .diagnosis import Diagnosis


class Engine(NodeSearch):
    """Runs the scheduling cycles of one profile.

    Parameters
    ----------
    handle : FrameworkHandle
        What the plugins of the profile are handed.
    tie_break : TieBreak
        How one of several nodes with the highest total is chosen.
    percentage : int
        percentageOfNodesToScore, 0 (adaptive) to 100; that of the profile takes precedence.
    seed : int
        Seed of the random tie-break; the low 64 bits count.
    batching : Batching, optional
        Opportunistic batching, shared by all engines of a scheduler; off by default.

    Attributes
    ----------
    number : int
        Index of the profile in the configuration.
    runs_post_filter : bool
        Whether PostFilter is run for pods that fit nowhere. Without it no pod is evicted.

    Raises
    ------
    ValueError
        The percentage is not between 0 and 100.
    """

    def __init__(
        self,
        profile: Profile,
        handle: FrameworkHandle,
        tie_break: TieBreak,
        percentage: int,
        seed: int,
        batching: Batching | None = None,
    ) -> None:
        super().__init__(profile, handle, tie_break, percentage, seed)
        self.runs_post_filter = True
        self.number = 0
        self.batching = batching or Batching(False, self.cache.clock)
        self.signs = self.batching.is_on and bool(self.framework.signer.plugins)

    @lazy_attribute
    def may_leave_out_volumes(self) -> bool:
        """Whether a pod whose volumes fit everywhere can be scheduled as one without volumes."""
        profile = self.profile
        if not (profile.reads_volumes and profile.is_in_core):
            return False
        filters, pre_filters = profile.at(FilterPlugin), profile.at(PreFilterPlugin)
        for plugin in profile.claim_plugins.plugins:
            if not plugin.skips("pre_score") or (plugin in filters and plugin not in pre_filters):
                return False
        return True

    def cycle_target(self, pod: Pod, target: Target) -> Target:
        """Return the target by which the cycle of a pod is run.

        Parameters
        ----------
        target : (int, int, int)
            Of the pod (`Framework.target_of`).

        Returns
        -------
        (int, int, int)
            That of a pod without volumes, where no plugin about volumes rejects or scores any node for the
            pod: these plugins are skipped then.
        """
        asks = self.framework.profile_of(target) is not self.profile
        if not (asks and self.may_leave_out_volumes and self.decides_alone(pod)):
            return target
        fits = self.profile.claim_plugins.fit_everywhere(pod, self.framework.all_nodes())
        return target_of(self.cache, pod) if fits else target

    # ---- one cycle -----------------------------------------------------------------------------------------

    def begin_cycle(self, target: Target) -> None:
        """Begin a scheduling cycle: refresh the snapshot of plugins and the resources of classes.

        Parameters
        ----------
        target : (int, int, int)
            Of the pod (`Framework.target_of`).
        """
        plan = self.search.plan_of(target[0])
        if plan is not self.plan:
            self.delegate(plan, self.profile.delegated_resources())
        if self.profile.has_out_of_tree_plugins:
            self.handle.begin_cycle()

    def delegate(self, plan: Plan, names: frozenset[str]) -> None:
        """Set the extended resources that device classes provide in a plan of this engine; see
        `Plan.delegate`."""
        if names is not plan.delegated and names != plan.delegated:
            plan.delegate(names)
            self.search.states.open_scope()

    def passes(self, target: Target, pod: Pod) -> bool:
        """Whether no PreFilter or PreScore plugin rejects the pods of a target.

        Plugins in the core reject malformed selectors and affinity terms of the pod at these points. The
        answer does not depend on the nodes and is remembered.

        Parameters
        ----------
        target : (int, int, int)
            Class of the pods, symbol of spec.nodeName, symbol of the node they are pinned to; 0 for none. The
            profile of the pods is in the core.
        pod : Pod
            Any pod of the target.
        """
        framework = self.framework
        if not self.framework.profile_of(target).may_reject(framework.shape_of(target)):
            return True
        known = self.search.states.state_of(*target)
        if known.passes is None:
            state = framework.state_of(target)
            ran = framework.run_pre_filter_plugins(state, pod)
            scored = framework.run_pre_score_plugins(state, pod, framework.all_nodes())
            known.passes = not ran.error and ran.rejection is None and scored is None
        return known.passes

    def sign(self, pod: Pod) -> bytes | None:
        """Return the signature by which opportunistic batching recognizes equal pods.

        Returns
        -------
        bytes or None
            None for a pod that batching does not handle.
        """
        return self.framework.sign_pod(pod) if self.signs else None

    # ---- why not -------------------------------------------------------------------------------------------

    @property
    def core_post_filters(self) -> tuple[CorePostFilter, ...] | None:
        """The PostFilter plugins, where all of them can tell in advance that they cannot help; None where one
        cannot."""
        return self.profile.core_post_filters if self.runs_post_filter else ()

    def may_preempt(self, shape: Shape, potential: int = 1) -> bool:
        """Whether PostFilter could make room for pods of a shape.

        Parameters
        ----------
        potential : int, optional
            Number of nodes with code Unschedulable, where eviction might help.
        """
        plugins = self.core_post_filters
        return plugins is None or any(plugin.may_preempt(shape, potential) for plugin in plugins)

    def preemption_is_futile(self, diagnosis: Diagnosis) -> bool:
        """Whether PostFilter certainly makes no room for a pod without a nominated node."""
        return not self.may_preempt(diagnosis.shape, diagnosis.potential)


# ---- engines -----------------------------------------------------------------------------------------------
# The engines of a scheduler, the handle of their plugins, and the rotation that they share.

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
    if options.tie_break == "random" and options.seed is not None:
        handle.preemption_offset = partial(random_offset, options.seed)
    return handle


def _extenders(configuration: KubeSchedulerConfiguration | None, cache: SchedulerCache) -> Sequence[Extender]:
    """Make the extenders of a configuration; few have any, and HTTP and TLS take long to import."""
    if configuration is None or not configuration.extenders:
        return ()
    from moorage.engine.extenders.http_extender import make_extenders

    return make_extenders(configuration, cache.node_info)


class Rotation(SavedFields, Participant):
    """The position in the node list at which the next search begins, shared by all profiles.

    kube-scheduler v1.36, schedule_one.go nextStartNodeIndex.

    Parameters
    ----------
    engines : sequence of Engine
        One for each profile; numbered in this order.

    Attributes
    ----------
    holder : Engine
        The engine whose decider has the position: the one that searched last.
    """

    fields = ("holder", "holder.decider.start")

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = engines
        self.holder = engines[0]
        for number, engine in enumerate(engines):
            engine.number = number

    def take(self, engine: Engine) -> Engine:
        """Hand the rotation to an engine, whose search is the next."""
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

    def take_over(self, other: Rotation) -> dict[Engine, Engine]:
        """Take the state of the rotation and of the engines of another scheduler.

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
    profiles : sequence of Profile
        Used without a configuration.

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
    if is_in_tree(plugin):
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
