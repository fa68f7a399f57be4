"""Framework: runs the plugins of a profile (kube-scheduler v1.36, framework/runtime/framework.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain

import numpy as np
import numpy.typing as npt

from moorage._core.decide.decider import Decider
from moorage._core.decide.plan import VERDICT_SHIFT
from moorage._core.preempt.preemptor import Preemptor
from moorage._core.state.pod_class import Shape
from moorage._core.state.pod_spec import uses_volumes
from moorage.engine.framework import interface
from moorage.errors import MoorageError
from moorage.kube import Pod
from moorage.lazy import lazy_attribute
from moorage.short_repr import ShortRepr

from ..cache import NodeInfo, NodeInfoClone, SchedulerCache
from .extension_points import (
    PRE_FLIGHT,
    WAITING,
    NodePluginScores,
    PreBindGroup,
    PreFilterRun,
    Scores,
    StatusError,
    answer_of,
    ask_permit,
    ask_post_filter,
    ask_pre_filter,
    ask_pre_flight,
    ask_status,
    check_range,
    filter_status,
    normalized_scores,
    nothing_left,
    passed_on,
    pre_bind_groups,
    raw_scores,
)
from .handle import FrameworkHandle
from .in_tree_plugins import NativePlugin, Signer
from .interface import FilterPlugin, Plugin, PreFilterPlugin, PreScorePlugin, ScorePlugin
from .kernels import Kernels
from .nodes_view import CycleColumns, NodesView
from .nodes_view import NodeInfo as AnyNodeInfo
from .profile import Profile
from .status import SKIP, Code, CycleState, Status, as_status, error_status
from .waiting_pods import MAX_TIMEOUT, PodInPreBind, StatusSteps, WaitingPod, going_before, take_all

Target = tuple[int, int, int]


def target_of(cache: SchedulerCache, pod: Pod) -> Target:
    """Return the key under which decisions about a pod are cached.

    Parameters
    ----------
    cache : SchedulerCache
        The scheduler's cache of nodes and pods.

    Returns
    -------
    (int, int, int)
        The pod's class, and the symbols of the node that the pod names and of the node to which it is pinned;
        0 for none.
    """
    state = cache.state
    pod_class = state.classes.intern(pod)
    node_name = state.symbols.intern(pod.spec.node_name) if pod.spec.node_name else 0
    return pod_class, node_name, state.classes.pinned_symbol(pod_class, pod)


def native_filters(filters: Sequence[FilterPlugin], state: CycleState) -> int:
    """Return the filters in the core that did not return Skip at PreFilter.

    Parameters
    ----------
    filters : sequence of FilterPlugin
        In profile order.
    state : CycleState
        After PreFilter has run.

    Returns
    -------
    int
        A bit mask by index.
    """
    natives = 0
    for at, plugin in enumerate(filters):
        is_native = isinstance(plugin, NativePlugin) and plugin.has_kernel
        if is_native and plugin.name not in state.skip_filter_plugins:
            natives |= 1 << at
    return natives


class Framework(ShortRepr):
    """Runs the plugins of one profile.

    Each method `run_…_plugins` runs one extension point in profile order. Its parameters are the state of the
    scheduling cycle, the pod that is being scheduled, and the node, by name or as NodeInfo. It returns a
    Status, or None for Success. An exception of a plugin becomes an Error.

    Parameters
    ----------
    handle : FrameworkHandle
        Handle of the plugins that have none yet.

    Attributes
    ----------
    decider : Decider or None
        The decider of the engine.
    pod : Pod
        Of the search that has begun last.
    kernels : Kernels or None
        Runs native plugins on single nodes; None without a decider.
    columns : CycleColumns
        Columns of the node table, for vectorised plugins.
    """

    shows = "{0.profile}"

    def __init__(self, profile: Profile, handle: FrameworkHandle) -> None:
        self.profile = profile
        self.handle = handle
        handle.framework = self
        if handle.observer is not None:
            handle.observer.follow(self)
        for plugin in profile.plugins:
            if plugin.handle is None:
                plugin.handle = handle
        self.decider: Decider | None = None
        self.pod = Pod()
        self.kernels: Kernels | None = None
        self._preemptor: Preemptor | None = None
        self.columns = CycleColumns(handle.cache.state)
        self.pre_enqueues = profile.at(interface.PreEnqueuePlugin)

    def profile_of(self, target: Target) -> Profile:
        """Return the profile with the plugins that are called for the pods of a key (`target_of`)."""
        asks = self.handle.cache.state.classes.asks_plugins(target[0])
        return self.profile.complete if asks else self.profile

    def profile_for(self, state: CycleState, pod: Pod) -> Profile:
        """Return the profile with the plugins that are called in a cycle; the state may be one that a plugin
        has made."""
        if not self.profile.reads_volumes:
            return self.profile
        asks = state.asks_volume_plugins if hasattr(state, "target") else self.asks_volume_plugins(pod)
        return self.profile.complete if asks else self.profile

    def asks_volume_plugins(self, pod: Pod) -> bool:
        """Whether the plugins about volumes and claims are called for a pod."""
        return self.profile.reads_volumes and (uses_volumes(pod) or self.profile.asks_devices(pod))

    def target_of(self, pod: Pod) -> Target:
        """Return the key of a pod (`target_of`); its class says which plugins are called
        (`PodClasses.with_plugins`).
        """
        target = target_of(self.handle.cache, pod)
        if not self.asks_volume_plugins(pod):
            return target
        return self.handle.cache.state.classes.with_plugins(target[0]), *target[1:]

    def attach(self, decider: Decider) -> None:
        """Set the engine's decider."""
        self.decider = decider
        stops = self.handle.release.budgets_stop_at_violation
        self.kernels = Kernels(self.handle.cache, decider.search.plan, stops)
        self._preemptor = Preemptor(decider, stops)

    @property
    def preemptor(self) -> Preemptor:
        """The preemptor over the engine's decider; MoorageError without one."""
        if self._preemptor is None:
            raise MoorageError("the framework of this handle is not complete")
        return self._preemptor

    def searching(self, now: bool) -> None:
        """Record that a search of the engine begins (`now`) or has ended."""
        if self.kernels is not None:
            self.kernels.searching = now

    def new_state(self, pod: Pod) -> CycleState:
        """Return the state of a new cycle for a pod."""
        return self.state_of(self.target_of(pod))

    def state_of(self, target: Target) -> CycleState:
        """Return the state of a new cycle for a pod with this key (`target_of`)."""
        state = CycleState()
        self._describe(state, target)
        return state

    def _describe(self, state: CycleState, target: Target) -> None:
        """Set what native plugins read of a pod with a key."""
        state.target = target
        state.asks_volume_plugins = self.handle.cache.state.classes.asks_plugins(target[0])
        state.shape = self.shape_of(target)
        if self.decider is not None:
            state.terms = self.decider.search.terms_of(target[0], target[2])

    def describe(self, state: CycleState, pod: Pod) -> None:
        """Have a state that a plugin has made itself (``CycleState()``) describe a pod, for native plugins.

        Parameters
        ----------
        state : CycleState
            Nothing changes if it describes a pod already.
        """
        if not hasattr(state, "target"):
            self._describe(state, self.target_of(pod))

    def shape_of(self, target: Target) -> Shape:
        """Return the shape of the pod class of a key (`target_of`)."""
        return self.handle.cache.state.classes.shape_of(target[0])

    def all_nodes(self) -> NodesView:
        """Return the nodes of the view, in list order."""
        return self.nodes(self._rows)

    def nodes(self, rows: npt.NDArray[np.int32] | Callable[[], npt.NDArray[np.int32]]) -> NodesView:
        """Return rows of the node table as plugins see them.

        Parameters
        ----------
        rows : (n,) int32 array, or callable
            Rows, or a function that computes them when they are needed.
        """
        return NodesView(self.columns, rows)

    def _rows(self) -> npt.NDArray[np.int32]:
        view = self.handle.cache.state.view
        view.refresh()
        return view.rows()

    def run_pre_enqueue_plugins(self, pod: Pod, first: str = "") -> Status | None:
        """Run PreEnqueue until a plugin keeps the pod out of the active queue.

        Parameters
        ----------
        first : str, optional
            Name of the plugin that runs before the others.
        """
        plugins = self.pre_enqueues
        for plugin in sorted(plugins, key=lambda plugin: plugin.name != first) if first else plugins:
            gate = plugin.pre_enqueue
            status = gate(pod) if plugin.in_core else ask_status(plugin, pod, gate, pod)
            if status is not None and not status.is_success:
                return status.with_plugin(plugin.name)
        return None

    def queue_sort_func(self) -> Callable[[interface.QueuedPod, interface.QueuedPod], bool]:
        """Return the method `less` of the QueueSort plugin.

        Returns
        -------
        callable
            Takes two queued pods, and says whether the first one goes before the second.

        Raises
        ------
        MoorageError
            The profile has no such plugin.
        """
        sorters = self.profile.at(interface.QueueSortPlugin)
        if not sorters:
            raise MoorageError("No QueueSort plugin is registered in the frameworkImpl.")
        return sorters[0].less

    @lazy_attribute
    def signer(self) -> Signer:
        """Signs the pods of the profile."""
        bases: tuple[type[Plugin], ...] = (PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin)
        return Signer(chain.from_iterable(map(self.profile.at, bases)))

    def sign_pod(self, pod: Pod) -> bytes | None:
        """Return the signature of a pod, or None; pods with equal signatures get equal results."""
        return self.signer.sign(pod)

    def run_pre_filter_plugins(self, state: CycleState, pod: Pod) -> PreFilterRun:
        """Run PreFilter in profile order.

        UnschedulableAndUnresolvable and errors end the run. After Unschedulable the other plugins run too,
        and the last rejection is returned. A rejection because the sets of several plugins have no node in
        common names no plugin. Fills `CycleState.skip_filter_plugins`.
        """
        self.describe(state, pod)
        if not (self.profile_of(state.target).pre_filters_are_native and hasattr(state, "terms")):
            return self._pre_filter(state, pod)
        # The results of native plugins depend on the shape, on these terms, on whether the terms count any
        # pods now, and on the node that the pod names.
        key = "pre_filter", state.terms.affinity_filters, pod.spec.node_name
        ran: PreFilterRun | None = state.terms.answers.get(key)
        if ran is None:
            ran = state.terms.answers[key] = self._pre_filter(state, pod)
        state.skip_filter_plugins = set(ran.skipped)
        return ran

    def pre_filtered(self, target: Target, pod: Pod) -> tuple[CycleState, PreFilterRun]:
        """Run PreFilter for a pod.

        Parameters
        ----------
        target : (int, int, int)
            Of the pod (`target_of`).

        Returns
        -------
        state : CycleState
            Of a new cycle.
        """
        state = self.state_of(target)
        return state, self.run_pre_filter_plugins(state, pod)

    def may_narrow(self, target: Target) -> bool:
        """Whether PreFilter may name the only nodes to search for a pod that it does not reject. Native
        plugins name those that required node affinity and, since v1.37, spec.nodeName name.

        Parameters
        ----------
        target : (int, int, int)
            Of the pod (`target_of`).
        """
        shape, is_named = self.shape_of(target), target[1] > 0
        names_nodes = shape.is_pinned or shape.node_names is not None or is_named
        return not self.profile_of(target).pre_filters_are_native or names_nodes

    def _pre_filter(self, state: CycleState, pod: Pod) -> PreFilterRun:
        nodes, plugins = self.all_nodes(), self.profile_of(state.target)
        names: interface.PreFilterResult | None = None
        narrowing: set[str] = set()
        rejection: Status | None = None
        state.skip_filter_plugins = skipped = set()
        stop: Status | None = None
        at_fault: tuple[str, ...] = ()
        for at, plugin in enumerate(plugins.pre_filters, 1):
            result, status = ask_pre_filter(plugin, state, pod, nodes)
            code = Code.SUCCESS if status is None else status.code
            if code == Code.SKIP:
                skipped.add(plugin.name)
            elif status is not None and code == Code.UNSCHEDULABLE:
                rejection = status.with_plugin(plugin.name)
            elif status is not None and code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                stop = status.with_plugin(plugin.name)
            elif status is not None and code != Code.SUCCESS:
                stop = error_status(f'running PreFilter plugin "{plugin.name}"', status, plugin.name)
            elif result is not None and not result.all_nodes():
                narrowing.add(plugin.name)
                names = result.merge(names)
                if names is not None and not names.node_names:
                    at_fault = tuple(sorted(narrowing))
                    stop = nothing_left(at_fault)
            if stop is not None:
                skipped.update([name for before, name in plugins.skipping if before < at])
                return PreFilterRun(stop, plugins=at_fault, skipped=frozenset(skipped))
        skipped.update([name for _, name in plugins.skipping])
        remaining = None if names is None else names.node_names
        return PreFilterRun(rejection, remaining, tuple(sorted(narrowing)), frozenset(skipped))

    def run_pre_filter_extension_add_pod(
        self, state: CycleState, pod: Pod, pod_to_add: Pod, node_info: AnyNodeInfo
    ) -> Status | None:
        """Notify the PreFilter extensions that a dry run added a pod to a node.

        Parameters
        ----------
        pod : Pod
            The pod of the cycle.

        Returns
        -------
        Status or None
            An Error where an extension returns anything but Success.
        """
        return self._notify(state, pod, pod_to_add, node_info, "AddPod")

    def run_pre_filter_extension_remove_pod(
        self, state: CycleState, pod: Pod, pod_to_remove: Pod, node_info: AnyNodeInfo
    ) -> Status | None:
        """Notify the PreFilter extensions that a dry run removed a pod from a node."""
        return self._notify(state, pod, pod_to_remove, node_info, "RemovePod")

    def _notify(
        self, state: CycleState, pod: Pod, other: Pod, node_info: AnyNodeInfo, method: str
    ) -> Status | None:
        for plugin in self.profile.at(PreFilterPlugin):
            if plugin.name in state.skip_filter_plugins:
                continue
            extensions = plugin.pre_filter_extensions()
            if extensions is None:
                continue
            change = extensions.add_pod if method == "AddPod" else extensions.remove_pod
            status = ask_status(plugin, pod, change, state, pod, other, node_info)
            if status is not None and not status.is_success:
                return error_status(f'running {method} on PreFilter plugin "{plugin.name}"', status)
        return None

    def run_filter_plugins(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> Status | None:
        """Run Filter on one node; all kernels run in one call, in place of the first.

        Returns
        -------
        Status or None
            The first rejection, or an Error; None where the pod fits.
        """
        verdict: int | None = None
        filters = self.profile_for(state, pod).filters
        for at, plugin in enumerate(filters):
            if plugin.name in state.skip_filter_plugins:
                continue
            if self.kernels is None or not (isinstance(plugin, NativePlugin) and plugin.has_kernel):
                status = filter_status(plugin, ask_status(plugin, pod, plugin.filter, state, pod, node_info))
                if status is not None:
                    return status
                continue
            if verdict is None:
                natives = native_filters(filters, state)
                answer = answer_of(plugin, pod, self.kernels.verdict, natives, state, node_info)
                if isinstance(answer, Status):
                    return filter_status(plugin, answer)
                verdict = answer
            if verdict >> VERDICT_SHIFT == at + 1:
                return plugin.rejection(verdict, state.shape)
        return None

    def run_filter_plugins_with_nominated_pods(
        self, state: CycleState, pod: Pod, node_info: NodeInfo | NodeInfoClone
    ) -> Status | None:
        """Run Filter on one node with, then without the nominated pods of at least the pod's priority.

        The second pass is skipped where there are no such pods, or where the first pass fails.

        Returns
        -------
        Status or None
            The result of `run_filter_plugins`, or an Error of a PreFilter extension.
        """
        nominated = going_before(pod, self.handle.nominator.nominated_pods_for_node(node_info.name))
        if nominated:
            with_them, changed = node_info.clone(), state.clone()
            for other in nominated:
                with_them.add_pod(other)
                status = self.run_pre_filter_extension_add_pod(changed, pod, other, with_them)
                if status is not None:
                    return status
            status = self.run_filter_plugins(changed, pod, with_them)
            if status is not None:
                return status
        return self.run_filter_plugins(state, pod, node_info)

    def run_post_filter_plugins(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[interface.PostFilterResult | None, Status | None]:
        """Run PostFilter until a plugin succeeds, fails or returns UnschedulableAndUnresolvable.

        Parameters
        ----------
        statuses : mapping of str to Status
            Rejection by node.

        Returns
        -------
        PostFilterResult or None
            The change of the pod's nomination.
        Status or None
            The status that ended the run; else Unschedulable with the reasons of all plugins.
        """
        if state.skip_all_post_filter_plugins:
            return None, Status(Code.UNSCHEDULABLE, ("All PostFilter plugins are skipped",))
        reasons: list[str] = []
        rejector, last = "", None
        for plugin in self.profile.at(interface.PostFilterPlugin):
            result, status = ask_post_filter(plugin, state, pod, statuses)
            if status is None or status.is_success:
                return result, status
            if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result, status.with_plugin(plugin.name)
            if not status.is_rejected:
                err = status.as_error()
                failed = as_status(err) or Status(Code.ERROR, status.reasons or (str(status.code),))
                return None, failed.with_plugin(plugin.name)
            if result is not None and not result.noop:
                last = result
            reasons.extend(status.reasons)
            rejector = rejector or plugin.name
        return last, Status(Code.UNSCHEDULABLE, tuple(reasons), rejector)

    def run_pre_score_plugins(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        """Run PreScore in profile order; fills `CycleState.skip_score_plugins`.

        Parameters
        ----------
        nodes : NodesView
            The feasible nodes.

        Returns
        -------
        Status or None
            An Error where a plugin returns neither Success nor Skip, or a Score plugin lacks the state that
            its PreScore, which is not enabled, would have written.
        """
        plugins = self.profile_for(state, pod)
        is_native = plugins.pre_scores_are_native and hasattr(state, "terms")
        key = "pre_score", is_native and state.terms.affinity_scores
        if is_native and key in state.terms.answers:
            state.skip_score_plugins = set(state.terms.answers[key])
            return plugins.missing_state
        state.skip_score_plugins = skipped = set(plugins.not_scoring)
        for plugin in plugins.pre_scores:
            status = ask_status(plugin, pod, plugin.pre_score, state, pod, nodes)
            if status is None or status.code == Code.SUCCESS:
                continue
            if status.code != Code.SKIP:
                return error_status(f'running PreScore plugin "{plugin.name}"', status)
            skipped.add(plugin.name)
        if is_native:
            state.terms.answers[key] = frozenset(skipped)
        return plugins.missing_state

    def run_score_plugins(
        self, state: CycleState, pod: Pod, nodes: NodesView
    ) -> tuple[list[NodePluginScores], Status | None]:
        """Run Score and NormalizeScore.

        Parameters
        ----------
        nodes : NodesView
            The nodes that `run_pre_score_plugins` was called with.

        Returns
        -------
        list of NodePluginScores
            One for each node, with weighted scores; empty with an Error.
        Status or None
            The Error of the first plugin that fails.
        """
        try:
            normalized = self._normalized_scores(state, pod, nodes)
        except StatusError as error:
            return [], error.status
        weighted = [
            (plugin.name, (normalized[plugin.name] * weight).tolist())
            for plugin, weight in self.profile_for(state, pod).scorers
            if plugin.name in normalized
        ]
        node_scores = []
        for at, name in enumerate(nodes.names):
            scores = tuple((plugin, column[at]) for plugin, column in weighted)
            node_scores.append(NodePluginScores(name, scores, sum(score for _, score in scores)))
        return node_scores, None

    def _normalized_scores(self, state: CycleState, pod: Pod, nodes: NodesView) -> dict[str, Scores]:
        """The normalized scores by plugin; all Python plugins score before the first one normalizes."""
        scorers = self.profile_for(state, pod).scorers
        plugins = [plugin for plugin, _ in scorers if plugin.name not in state.skip_score_plugins]
        are_rows = bool((nodes.rows >= 0).all())
        raw = {
            plugin.name: raw_scores(plugin, state, pod, nodes)
            for plugin in plugins
            if not (are_rows and isinstance(plugin, NativePlugin))
        }
        columns: dict[str, Scores] = {}
        for plugin in plugins:
            if plugin.name in raw:
                columns[plugin.name] = normalized_scores(plugin, state, pod, nodes, raw[plugin.name])
            elif isinstance(plugin, NativePlugin):
                columns[plugin.name] = plugin.normalized_scores(state, nodes.rows)
        check_range(columns)
        return columns

    def run_reserve_plugins_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run Reserve until a plugin fails: a rejection with the plugin's name, or an Error."""
        state.reserved = False
        for plugin in self.profile_for(state, pod).active(interface.ReservePlugin):
            status = ask_status(plugin, pod, plugin.reserve, state, pod, node_name)
            if status is not None and not status.is_success:
                return passed_on("running Reserve plugin", plugin.name, status)
        state.reserved = True
        return None

    def run_reserve_plugins_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run Unreserve of all Reserve plugins in reverse order, those with `unreserves_in_order` last."""
        plugins = self.profile_for(state, pod).active(interface.ReservePlugin)
        in_order = [plugin for plugin in plugins if getattr(plugin, "unreserves_in_order", False)]
        others = [plugin for plugin in plugins if plugin not in in_order]
        with ExitStack() as stack:  # all plugins are called, even if one raises
            for plugin in (*reversed(in_order), *others):  # the stack calls the last one first
                stack.callback(ask_status, plugin, pod, plugin.unreserve, state, pod, node_name)

    def run_permit_plugins(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[Status | None, dict[str, float]]:
        """Run Permit until a plugin rejects the pod or fails.

        Returns
        -------
        Status or None
            The rejection or Error; else Wait if a plugin waits.
        dict of str to float
            Timeout of each waiting plugin in seconds; empty with a rejection or an Error.
        """
        timeouts: dict[str, float] = {}
        last: Status | None = None
        for plugin in self.profile_for(state, pod).active(interface.PermitPlugin):
            status, seconds = ask_permit(plugin, state, pod, node_name)
            if status is None or status.is_success:
                continue
            if not status.is_wait:
                failed = passed_on("running Permit plugin", plugin.name, status)
                return failed.with_plugin(plugin.name), {}
            timeouts[plugin.name] = min(seconds, MAX_TIMEOUT)
            last = status
        return (None if last is None else last.append_reason(WAITING)), timeouts

    def add_waiting_pod(self, pod: Pod, timeouts: Mapping[str, float], now: float) -> WaitingPod:
        """Add a pod to the waiting pods.

        Parameters
        ----------
        timeouts : mapping of str to float
            Seconds by plugin.
        now : float
            The time in seconds.
        """
        waiting = WaitingPod(pod, timeouts, now)
        self.handle.waiting_pods.add(waiting)
        return waiting

    def run_pre_bind_pre_flights(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run PreBindPreFlight: Success if some plugin has work in PreBind, else Skip.

        Fills `CycleState.skip_pre_bind_plugins` and `CycleState.parallel_pre_bind_plugins`.
        """
        overall: Status | None = SKIP
        for plugin in self.profile_for(state, pod).active(interface.PreBindPlugin):
            result, status = ask_pre_flight(plugin, state, pod, node_name)
            if status is None or status.is_success:
                overall = None
            elif status.is_skip:
                state.skip_pre_bind_plugins.add(plugin.name)
            elif status.code == Code.ERROR:
                return error_status(f'running PreBindPreFlight "{plugin.name}"', status)
            else:
                text = f'PreBindPreFlight {plugin.name} returned "{status.code}", which is unsupported. '
                return Status(Code.ERROR, (text + PRE_FLIGHT,))
            if result is not None and result.allow_parallel:
                state.parallel_pre_bind_plugins.add(plugin.name)
        return overall

    def run_pre_bind_plugins(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run PreBind to its end, with `FrameworkHandle.wait` between the steps."""
        return take_all(self.pre_bind_steps(state, pod, node_name), self.handle.wait)

    def pre_bind_steps(
        self, state: CycleState, pod: Pod, node_name: str, in_pre_bind: PodInPreBind | None = None
    ) -> StatusSteps:
        """Run PreBind group by group until a plugin fails.

        Parameters
        ----------
        in_pre_bind : PodInPreBind, optional
            Entry of the pod in the map of pods in PreBind; PreBind fails at the next step after its
            cancellation.

        Returns
        -------
        Status or None
            The first failure.

        Yields
        ------
        float
            Seconds until the next step.
        """
        active = self.profile_for(state, pod).active(interface.PreBindPlugin)
        for plugins in pre_bind_groups(active, state):
            group = PreBindGroup(plugins, state, pod, node_name)
            self.handle.parallelizer.until(len(plugins), group.begin)
            yield from group.steps(in_pre_bind)
            if group.failures:
                return group.failures[0]
        return None

    def run_bind_plugins(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run Bind until a plugin returns anything but Skip; Skip if all do."""
        status: Status | None = Status(Code.SKIP, ("",))
        for plugin in self.profile.at(interface.BindPlugin):
            status = ask_status(plugin, pod, plugin.bind, state, pod, node_name)
            if status is not None and status.is_skip:
                continue
            if status is None or status.is_success:
                return status
            return passed_on("running Bind plugin", plugin.name, status)
        return status

    def run_post_bind_plugins(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run PostBind of all plugins; exceptions are logged."""
        for plugin in self.profile_for(state, pod).active(interface.PostBindPlugin):
            ask_status(plugin, pod, plugin.post_bind, state, pod, node_name)

    def close(self) -> None:
        """Close all plugins.

        Raises
        ------
        MoorageError
            Some fail; it has their messages. The others are closed.
        """
        failures = []
        for plugin in self.profile.plugins:
            try:
                plugin.close()
            except Exception as error:  # the other plugins are closed, too
                failures.append(f"{plugin.name} failed to close: {error}")
        if failures:
            raise MoorageError("\n".join(failures))
