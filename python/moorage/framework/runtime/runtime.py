"""Framework: runs the plugins of a profile (kube-scheduler v1.36, framework/runtime/framework.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from moorage._core.decide.decider import Decider
from moorage._core.preempt.preemptor import Preemptor
from moorage._core.state.pod_class import Shape
from moorage.cache import NodeInfo, NodeInfoClone, SchedulerCache
from moorage.errors import MoorageError
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.interface import (
    FILTER,
    PRE_ENQUEUE,
    QUEUE_SORT,
    SCORE,
    FilterPlugin,
    Plugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueuedPod,
    QueueSortPlugin,
    ScorePlugin,
)
from moorage.framework.plugin.nodes_view import (
    AnyNodeInfo,
    CycleColumns,
    NodesView,
    TableNodes,
)
from moorage.framework.plugin.signing import Signer
from moorage.framework.plugin.status import SKIP, Code, Status, error_status
from moorage.framework.plugin.waiting_pods import MAX_TIMEOUT, WaitingPod
from moorage.framework.profiles.in_core import (
    NativePlugin,
    UnbuiltPlugin,
    VolumePlugin,
    always_skips,
)
from moorage.framework.profiles.profile import Profile
from moorage.objects.model.pod import Pod

from . import filtering, scoring
from .binding_points import (
    PRE_FLIGHT,
    WAITING,
    ask_permit,
    ask_pre_flight,
    passed_on,
    permitted,
    pre_bind_steps,
)
from .call import StatusError, ask_status
from .filtering import PreFilterRun
from .kernels import Kernels
from .pods_in_pre_bind import PodInPreBind
from .remembered import Remembered
from .scoring import NodePluginScores
from .steps import StatusSteps, take_all

Target = tuple[int, int, int]


def target_of(cache: SchedulerCache, pod: Pod) -> Target:
    """A pod's class, and the symbols of the node it names and of the one it is pinned to (0: none)."""
    state = cache.state
    pod_class = state.classes.intern(pod)
    node_name = state.symbols.intern(pod.spec.node_name) if pod.spec.node_name else 0
    return pod_class, node_name, state.classes.pinned_symbol(pod_class, pod)


class Framework:
    """The plugins of one profile, and how each extension point runs.

    A plugin that raises fails what it was asked for with an Error status, and nothing else.

    Parameters
    ----------
    profile : Profile
    handle : FrameworkHandle
        What its plugins are handed, unless they have a handle already.
    """

    def __init__(self, profile: Profile, handle: FrameworkHandle) -> None:
        self.profile = profile
        self.handle = handle
        handle.framework = self
        for plugin in profile.plugins:
            if plugin.handle is None:
                plugin.handle = handle
        self.decider: Decider | None = None  # of the engine
        self.kernels: Kernels | None = None
        # That of the same profile where the plugins about volumes are idle, if they are at work here.
        self.without_volumes: Framework | None = None
        self.columns = CycleColumns(handle.cache.state)

        asked, self._skipping = _asked(profile.pre_filters, "pre_filter")
        self._pre_filters = cast(list[PreFilterPlugin], asked)
        self._ran: Remembered[PreFilterRun] | None = _remembered(asked)
        asked, not_scoring = _asked(profile.pre_scores, "pre_score")
        self._not_scoring = [name for _, name in not_scoring]
        missing = next(iter(profile.missing_state_texts[SCORE].items()), None)
        self._missing_state = missing and scoring.missing_state_status(*missing)
        self._pre_scores = cast(list[PreScorePlugin], asked)
        self._skipped: Remembered[frozenset[str]] | None = _remembered(asked)

    def attach(self, decider: Decider) -> None:
        """The engine's decider, by whose search native plugins answer about single nodes."""
        self.decider = decider
        self.kernels = Kernels(self.handle.cache, decider.search.plan)

    @cached_property
    def preemptor(self) -> Preemptor:
        """Preemption for the pods that the search of the engine is about."""
        if self.decider is None:
            raise MoorageError("the framework of this handle is not complete")
        return Preemptor(self.decider)

    def searching(self, now: bool) -> None:
        """A search begins or ends."""
        if self.kernels is not None:
            self.kernels.searching = now

    # ---- a cycle's state -----------------------------------------------------------------------------------

    def new_state(self, pod: Pod) -> CycleState:
        """The state of a cycle for `pod` that begins now."""
        return self.state_of(target_of(self.handle.cache, pod))

    def state_of(self, target: Target) -> CycleState:
        """The same where the pod's class is known."""
        state = CycleState()
        state.target = target
        state.shape = self.shape_of(target)
        if self.decider is not None:
            state.terms = self.decider.search.terms_of(target[0], target[2])
        return state

    def shape_of(self, target: Target) -> Shape:
        """The shape of a pod's class."""
        return self.handle.cache.state.classes.shape_of(target[0])

    def all_nodes(self) -> NodesView:
        """The nodes of the view, in list order; listed when somebody looks."""
        return TableNodes(self.columns, self._rows)

    def nodes(self, rows: npt.NDArray[np.int32]) -> NodesView:
        """Rows of the node table, as plugins see them."""
        return TableNodes(self.columns, rows)

    def _rows(self) -> npt.NDArray[np.int32]:
        view = self.handle.cache.state.view
        view.refresh()
        return view.rows()

    # ---- the queue -----------------------------------------------------------------------------------------

    def run_pre_enqueue_plugins(self, pod: Pod) -> Status | None:
        """What keeps a pod out of the active queue: the first plugin's status that is no Success."""
        for plugin in self.pre_enqueues:
            status = ask_status(plugin, pod, plugin.pre_enqueue, pod)
            if status is not None and not status.is_success:
                return status.with_plugin(plugin.name)
        return None

    @cached_property
    def pre_enqueues(self) -> list[PreEnqueuePlugin]:
        """The PreEnqueue plugins that are built."""
        found = [p for p in self.profile.at(PRE_ENQUEUE) if not isinstance(p, UnbuiltPlugin)]
        return cast(list[PreEnqueuePlugin], found)

    def queue_sort_func(self) -> Callable[[QueuedPod, QueuedPod], bool]:
        """`less` of the QueueSort plugin."""
        sorters = cast(list[QueueSortPlugin], self.profile.at(QUEUE_SORT))
        if not sorters:
            raise MoorageError("No QueueSort plugin is registered in the frameworkImpl.")
        return sorters[0].less

    # ---- signatures ----------------------------------------------------------------------------------------

    @cached_property
    def signer(self) -> Signer:
        """Signs the pods of the profile."""
        return Signer(self.profile)

    def sign_pod(self, pod: Pod) -> bytes | None:
        """The signature of a pod, which pods share that get equal answers; None where it has none."""
        return self.signer.sign(pod)

    # ---- the scheduling cycle ------------------------------------------------------------------------------

    @cached_property
    def filters(self) -> list[FilterPlugin]:
        """The Filter plugins that can reject."""
        return cast(list[FilterPlugin], self.profile.planned(FILTER))

    @cached_property
    def scorers(self) -> list[tuple[ScorePlugin, int]]:
        """The Score plugins that can differ, with their weights."""
        return [(p, self.profile.weight(p)) for p in cast(list[ScorePlugin], self.profile.planned(SCORE))]

    def run_pre_filter_plugins(
        self, state: CycleState, pod: Pod, nodes: NodesView | None = None
    ) -> PreFilterRun:
        """See `filtering.run_pre_filters`."""
        known = self._ran if hasattr(state, "terms") else None
        if known is not None and (ran := known.find(state, state.terms.affinity_filters)) is not None:
            state.skip_filter_plugins = set(ran.skipped)
            return ran
        view = self.all_nodes() if nodes is None else nodes
        ran = filtering.run_pre_filters(self._pre_filters, state, pod, view, self._skipping)
        return ran if known is None else known.keep(state, state.terms.affinity_filters, ran)

    def run_pre_filter_extension_add_pod(
        self, state: CycleState, pod: Pod, pod_to_add: Pod, node_info: AnyNodeInfo
    ) -> Status | None:
        """`pod_to_add` is on the node now, as far as this state goes."""
        return filtering.run_pod_change(self.profile.pre_filters, state, pod, pod_to_add, node_info, True)

    def run_pre_filter_extension_remove_pod(
        self, state: CycleState, pod: Pod, pod_to_remove: Pod, node_info: AnyNodeInfo
    ) -> Status | None:
        """`pod_to_remove` is off the node now, as far as this state goes."""
        return filtering.run_pod_change(self.profile.pre_filters, state, pod, pod_to_remove, node_info, False)

    def run_filter_plugins(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> Status | None:
        """See `filtering.run_filters`."""
        return filtering.run_filters(self.filters, state, pod, node_info, self.kernels)

    def run_filter_plugins_with_nominated_pods(
        self, state: CycleState, pod: Pod, node_info: NodeInfo | NodeInfoClone
    ) -> Status | None:
        """See `filtering.run_filters_with_nominated_pods`."""
        return filtering.run_filters_with_nominated_pods(
            self.filters,
            self.profile.pre_filters,
            self.handle.nominator,
            state,
            pod,
            node_info,
            self.kernels,
        )

    def run_post_filter_plugins(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        """See `filtering.run_post_filters`."""
        return filtering.run_post_filters(self.profile.post_filters, state, pod, statuses)

    def run_pre_score_plugins(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        """See `scoring.run_pre_scores`. The Error of a Score plugin without its PreScore comes here too."""
        known = self._skipped if hasattr(state, "terms") and self._missing_state is None else None
        if known is not None and (skipped := known.find(state, state.terms.affinity_scores)) is not None:
            state.skip_score_plugins = set(skipped)
            return None
        failed = scoring.run_pre_scores(self._pre_scores, state, pod, nodes, self._not_scoring)
        if known is not None and failed is None:
            known.keep(state, state.terms.affinity_scores, frozenset(state.skip_score_plugins))
        return failed or self._missing_state

    def run_score_plugins(
        self, state: CycleState, pod: Pod, nodes: NodesView
    ) -> tuple[list[NodePluginScores], Status | None]:
        """See `scoring.run_scores`; an Error comes with no scores."""
        try:
            return scoring.run_scores(self.scorers, state, pod, nodes), None
        except StatusError as error:
            return [], error.status

    # ---- from a node to a binding --------------------------------------------------------------------------

    def run_reserve_plugins_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve in profile order, until one fails."""
        state.reserved = False
        for plugin in self.profile.reserves:
            status = ask_status(plugin, pod, plugin.reserve, state, pod, node_name)
            if status is not None and not status.is_success:
                return passed_on("running Reserve plugin", plugin.name, status, names_error=False)
        state.reserved = True
        return None

    def run_reserve_plugins_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Unreserve of every Reserve plugin, in reverse order, whether it was reached or not; those that
        unreserve in order come last."""
        plugins = self.profile.reserves
        in_order = [plugin for plugin in plugins if getattr(plugin, "unreserves_in_order", False)]
        others = [plugin for plugin in plugins if plugin not in in_order]
        with ExitStack() as stack:  # all of them are asked, even where one ends the run
            for plugin in (*reversed(in_order), *others):  # the last one first
                stack.callback(ask_status, plugin, pod, plugin.unreserve, state, pod, node_name)

    def run_permit_plugins(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[Status | None, dict[str, float]]:
        """Permit in profile order: a rejection or an Error ends it; else Wait where any plugin waits, with
        the seconds that each of them waits at most."""
        timeouts: dict[str, float] = {}
        last: Status | None = None
        for plugin in self.profile.permits:
            status, seconds = ask_permit(plugin, state, pod, node_name)
            if status is None or status.is_success:
                continue
            if not status.is_wait:
                return passed_on("running Permit plugin", plugin.name, status), {}
            timeouts[plugin.name] = min(seconds, MAX_TIMEOUT)
            last = status
        return (None if last is None else last.append_reason(WAITING)), timeouts

    def add_waiting_pod(self, pod: Pod, timeouts: Mapping[str, float], now: float) -> WaitingPod:
        """A pod begins to wait on Permit."""
        waiting = WaitingPod(pod, timeouts, now)
        self.handle.waiting_pods.add(waiting)
        return waiting

    def wait_on_permit(self, pod: Pod, clock: Callable[[], float] | None = None) -> Status | None:
        """Block until a waiting pod is decided; None at once where it does not wait. `clock` as in
        `WaitingPod.wait`."""
        waiting = self.handle.waiting_pods.get(pod.metadata.uid)
        if waiting is None:
            return None
        signal = waiting.wait(clock)
        self.handle.waiting_pods.remove(pod.metadata.uid)
        return permitted(signal)

    def run_pre_bind_pre_flights(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """PreBindPreFlight in profile order: Success where any plugin will have something to do, Skip where
        none has. Fills the sets of skipped and of parallel plugins in the state."""
        overall: Status | None = SKIP
        for plugin in self.profile.pre_binds:
            result, status = ask_pre_flight(plugin, state, pod, node_name)
            if status is None or status.is_success:
                overall = None
            elif status.is_skip:
                state.skip_pre_bind_plugins.add(plugin.name)
            elif status.code == Code.ERROR:
                return error_status(f'running PreBindPreFlight "{plugin.name}"', status)
            else:
                code = str(status.code)
                text = f'PreBindPreFlight {plugin.name} returned "{code}", which is unsupported. {PRE_FLIGHT}'
                return Status(Code.ERROR, (text,))
            if result is not None and result.allow_parallel:
                state.parallel_pre_bind_plugins.add(plugin.name)
        return overall

    def run_pre_bind_plugins(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """All of `pre_bind_steps`; time passes by the handle's `wait`."""
        return take_all(self.pre_bind_steps(state, pod, node_name), self.handle.wait)

    def pre_bind_steps(
        self, state: CycleState, pod: Pod, node_name: str, in_pre_bind: PodInPreBind | None = None
    ) -> StatusSteps:
        """See `binding_points.pre_bind_steps`."""
        plugins, parallelizer = self.profile.pre_binds, self.handle.parallelizer
        return pre_bind_steps(plugins, state, pod, node_name, parallelizer, in_pre_bind)

    def run_bind_plugins(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind in profile order, until one does not leave it to the next; Skip where all do."""
        status: Status | None = Status(Code.SKIP, ("",))
        for plugin in self.profile.binds:
            status = ask_status(plugin, pod, plugin.bind, state, pod, node_name)
            if status is not None and status.is_skip:
                continue
            if status is None or status.is_success:
                return status
            return passed_on("running Bind plugin", plugin.name, status, names_error=False)
        return status

    def run_post_bind_plugins(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """PostBind of every plugin; what one raises is logged."""
        for plugin in self.profile.post_binds:
            ask_status(plugin, pod, plugin.post_bind, state, pod, node_name)

    # ---- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close every plugin; MoorageError joins what failed."""
        failures = []
        for plugin in self.profile.plugins:
            try:
                plugin.close()
            except Exception as error:  # whatever it is, the others are closed
                failures.append(f"{plugin.name} failed to close: {error}")
        if failures:
            raise MoorageError("\n".join(failures))


def _remembered(plugins: Sequence[Plugin]) -> Remembered[Any] | None:
    """A memory, where all plugins that are asked are native."""
    return None if [plugin for plugin in plugins if not isinstance(plugin, NativePlugin)] else Remembered()


def _asked(plugins: Sequence[Plugin], method: str) -> tuple[list[Plugin], list[tuple[int, str]]]:
    """The plugins that look at a pod in PreFilter or PreScore; and those that always answer Skip, each with
    the number of the former before it."""
    nothing = getattr(NativePlugin, method)
    asked: list[Plugin] = []
    skipping: list[tuple[int, str]] = []
    for plugin in plugins:
        if always_skips(plugin, method):
            skipping.append((len(asked), plugin.name))
        elif isinstance(plugin, VolumePlugin) and plugin.is_idle:
            continue
        elif getattr(type(plugin), method) is not nothing:
            asked.append(plugin)
    return asked, skipping
