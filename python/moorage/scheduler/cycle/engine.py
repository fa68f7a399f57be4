"""Engine: one profile at work over the cache, from PreFilter to the choice of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage._core.decide.decider import TieBreak, count_verdicts
from moorage._core.decide.placer import Placer
from moorage._core.state.pod_class import Shape
from moorage._core.state.pod_spec import uses_volumes
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.extender import Extender
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.interface import NominatingInfo, PostFilterPlugin, PreFilterPlugin
from moorage.framework.plugin.status import NodeToStatus, Status, message_of
from moorage.framework.profiles.in_core import CorePostFilter, VolumePlugin
from moorage.framework.profiles.profile import Profile
from moorage.framework.runtime.bridge import Bridge
from moorage.framework.runtime.call import StatusError
from moorage.framework.runtime.filtering import PreFilterRun
from moorage.framework.runtime.runtime import Framework, Target
from moorage.framework.runtime.scoring import out_of_range
from moorage.objects.model.pod import Pod
from moorage.scheduler.extenders.extended_search import ExtendedSearch

from .diagnosis import Diagnosis, explain_verdict
from .opportunistic_batching import (
    Batching,
    ScoredNodes,
    find_hint,
    leave_nodes,
)
from .results import Decision

NO_ROWS = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class FailedSearch:
    """What the placing loop found about a pod that fits nowhere, and about which PostFilter is to be asked.

    Attributes
    ----------
    state : CycleState
        After PreFilter.
    ran : PreFilterRun
    diagnosis : Diagnosis
        Without what PostFilter says.
    by_node : callable
        The status of each node.
    """

    state: CycleState
    ran: PreFilterRun
    diagnosis: Diagnosis
    by_node: Callable[[], dict[str, Status]]


class Engine:
    """Decides for the pods of one profile.

    Attributes
    ----------
    search, decider, placer
        The core's, from reading to accounting; see `moorage._core.decide`.
    number : int
        Of its profile.
    runs_post_filter : bool
        Whether PostFilter is run for pods that fit nowhere; without, nobody is evicted.
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
        if profile.percentage_of_nodes_to_score is not None:
            percentage = profile.percentage_of_nodes_to_score
        if not 0 <= percentage <= 100:
            raise ValueError(f"percentage_of_nodes_to_score {percentage}: 0 (adaptive) to 100")
        self.profile = profile
        self._setting = tie_break, percentage, seed
        self._divides = profile.reads_volumes
        self._without_volumes: Engine | None = None
        self.handle = handle
        self.cache = handle.cache
        self.framework = Framework(profile, handle)
        self.bridge = Bridge(self.framework)
        self.plan = profile.compile(self.cache.state, self.bridge)
        self.placer = Placer(self.cache.state, self.plan, tie_break, percentage, seed & 0xFFFFFFFFFFFFFFFF)
        self.search, self.decider = self.placer.search, self.placer.decider
        self.decider.has_extenders = any(one.is_filter or one.is_prioritizer for one in handle.extenders)
        self.search.invalid_score, self.search.nominator = out_of_range, handle.nominator
        self.framework.attach(self.decider)
        if not profile.is_in_core:
            self.search.on_nominated = self.bridge.set_nominated_pods
        self.runs_post_filter = True
        self.number = 0
        self.batching = batching or Batching(False, self.cache.clock)

    # ---- pods that use volumes -----------------------------------------------------------------------------

    def deciding(self, uses_volumes: bool) -> Engine:
        """The engine of this profile that decides about pods that use volumes, or about others."""
        return self.for_volumes if uses_volumes and self._divides else self

    def for_pod(self, pod: Pod) -> Engine:
        """The engine of this profile that decides about a pod."""
        return self.deciding(uses_volumes(pod))

    @cached_property
    def for_volumes(self) -> Engine:
        """The engine of this profile for pods that use volumes, made when the first one comes. Both have one
        handle, whose framework is that of the engine whose turn it is."""
        out = Engine(self.profile.with_volumes(), self.handle, *self._setting, self.batching)
        out.runs_post_filter, out.number = self.runs_post_filter, self.number
        out.framework.without_volumes = self.framework
        out._without_volumes = self
        out.search.threads, out.search.parallel_from = self.search.threads, self.search.parallel_from
        self.take_turn()
        return out

    def _volumes_fit_everywhere(self, state: CycleState, pod: Pod, ran: PreFilterRun) -> bool:
        """Whether no plugin about volumes that is at work rejects or scores a node for the pod, whoever is
        there: then the search is that for a pod without volumes. Random choices have a state of their own."""
        plain = self._without_volumes
        if plain is None or not plain.profile.is_in_core or self.decider.tie_break == TieBreak.RANDOM:
            return False
        if not self.decides_alone(pod):
            return False
        volumes = [plugin for plugin in self.profile.plugins if isinstance(plugin, VolumePlugin)]
        if any(one.name in ran.plugins or not one.skips("pre_score") for one in volumes):
            return False
        asked = [p for p in self.framework.filters if isinstance(p, VolumePlugin)]
        nodes, skipped = self.framework.all_nodes(), state.skip_filter_plugins
        return all(one.fits_everywhere(state, pod, nodes) for one in asked if one.name not in skipped)

    def _search_without_volumes(
        self,
        state: CycleState,
        pod: Pod,
        ran: PreFilterRun,
        scored: ScoredNodes | None,
        order: Callable[[], list[str]],
    ) -> Decision:
        """Have the engine for pods without volumes search and preempt, from where this one would begin."""
        plain = self._without_volumes
        assert plain is not None
        runs_post_filter = plain.runs_post_filter
        plain.decider.start, plain.runs_post_filter = self.decider.start, self.runs_post_filter
        plain.take_turn()
        try:
            plain.begin_search(state, pod, ran)
            return plain._search(state, pod, ran, scored, order)
        finally:
            self.decider.start, plain.runs_post_filter = plain.decider.start, runs_post_filter
            self.take_turn()

    def take_turn(self) -> None:
        """What plugins ask of their handle from now on is about this engine."""
        self.handle.framework = self.framework

    # ---- one cycle -----------------------------------------------------------------------------------------

    def begin_cycle(self) -> None:
        """A cycle begins: plugins from outside may look at the snapshot."""
        if self.profile.has_out_of_tree_plugins:
            self.handle.begin_cycle()

    def nodes_in_view(self) -> int:
        """The number of nodes that a cycle sees which begins now."""
        self.cache.state.view.refresh()
        return self.search.nodes

    def schedule(
        self, pod: Pod, target: Target, order: Callable[[], list[str]]
    ) -> tuple[Decision, CycleState]:
        """Search and choose, without placing the pod; the state is that of its cycle.

        Parameters
        ----------
        pod : Pod
        target : (int, int, int)
            Class, symbol of the named node, symbol of the node it is pinned to; 0 for none.
        order : callable
            Returns the node names in list order.

        Returns
        -------
        decision : Decision
        state : CycleState
            As the plugins left it.
        """
        scored = self.batching.take()
        state = self.framework.state_of(target)
        self.begin_cycle()
        nodes = self.nodes_in_view()
        if nodes == 0:
            return self._no_search(Diagnosis(0, self.profile, state.shape), order), state
        ran = self.framework.run_pre_filter_plugins(state, pod)
        if ran.error:
            return replace(self._no_search(None, order), error=ran.error), state
        if ran.rejection is not None:
            diagnosis = Diagnosis(
                nodes, self.profile, state.shape, pre_filter=ran.rejection, narrowing=ran.plugins
            )
            decision = self._no_search(diagnosis, order)
            statuses = NodeToStatus(nodes, self._rejected_by_all(ran.rejection))
            return self._post_filter(state, pod, decision, statuses), state
        if self._volumes_fit_everywhere(state, pod, ran):
            return self._search_without_volumes(state, pod, ran, scored, order), state
        self.begin_search(state, pod, ran)
        if self.decides_alone(pod):
            return self._search(state, pod, ran, scored, order), state
        search = ExtendedSearch(self, state, pod, ran, order)
        decision = search.run()
        statuses = NodeToStatus(nodes, lambda: search.statuses())
        return self._post_filter(state, pod, decision, statuses), state

    def interested(self, pod: Pod) -> list[Extender]:
        """The extenders that want to hear of a pod, in their order.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        list of Extender
        """
        return [extender for extender in self.handle.extenders if extender.is_interested(pod)]

    def decides_alone(self, pod: Pod) -> bool:
        """Whether no extender has a say in a pod."""
        return not (self.handle.extenders and self.interested(pod))

    def is_in_core_for(self, pod: Pod) -> bool:
        """Whether the core alone decides about a pod, and nobody has anything to do before it is bound."""
        return self.for_pod(pod).profile.is_in_core and self.decides_alone(pod)

    def passes(self, target: Target, pod: Pod) -> bool:
        """Whether no PreFilter or PreScore plugin of a profile in the core rejects pods of a target. They
        reject malformed selectors and terms of the pod alone, whatever else is there.

        Parameters
        ----------
        target : (int, int, int)
            As for `schedule`.
        pod : Pod
            Any pod of the target.

        Returns
        -------
        bool
        """
        known = self.search.states.state_of(*target)
        if known.passes is None:
            state, framework = self.framework.state_of(target), self.framework
            ran = framework.run_pre_filter_plugins(state, pod)
            scored = framework.run_pre_score_plugins(state, pod, framework.all_nodes())
            known.passes = not ran.error and ran.rejection is None and scored is None
        return known.passes

    @cached_property
    def signs(self) -> bool:
        """Whether batching may know a pod of this profile by its signature."""
        return self.batching.is_on and bool(self.framework.signer.plugins)

    def sign(self, pod: Pod) -> bytes | None:
        """The signature by which batching knows equal pods; None where it leaves this one alone."""
        return self.framework.sign_pod(pod) if self.signs else None

    def begin_search(self, state: CycleState, pod: Pod, ran: PreFilterRun) -> None:
        """What the search is asked next is about this pod, whose PreFilter ran with this state.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        ran : PreFilterRun
            The result of PreFilter for the pod.
        """
        self._narrow(ran)
        self.bridge.begin(state, pod)
        self._nominate(pod)

    def _nominate(self, pod: Pod) -> None:
        """Tell the next search which nominated pods go before `pod`, and where."""
        self.search.follow_nominator(self.handle.nominator, pod)

    def row_in_view(self, name: str) -> int:
        """Row of a node that a cycle sees, or -1.

        Parameters
        ----------
        name : str

        Returns
        -------
        int
            -1 for a node that is not known, or only as a ghost.
        """
        row = self.cache.state.table.find_row(name)
        return -1 if row is None or not self.cache.state.table.is_present(row) else row

    def _narrow(self, ran: PreFilterRun) -> None:
        """Tell the search of the nodes that PreFilter plugins outside the core have named; what those inside
        name, it knows itself."""
        outside = bool(ran.plugins) and any(
            plugin.name in ran.plugins and not plugin.in_core for plugin in self.profile.at(PreFilterPlugin)
        )
        self.search.node_names = ran.node_names if outside else None

    def _search(
        self,
        state: CycleState,
        pod: Pod,
        ran: PreFilterRun,
        scored: ScoredNodes | None,
        order: Callable[[], list[str]],
    ) -> Decision:
        start = self.decider.start
        node, error, diagnosis = None, "", None
        try:
            self.framework.searching(True)
            hint = find_hint(self, scored, state, pod)
            tried, fits = self.try_first(state, pod, hint.node)
            if fits:
                return leave_nodes(self, hint, self.on_tried_node(tried, order))
            row, start, evaluated, positions, totals = self.decider.decide(*state.target, tried)
        except StatusError as failed:
            text = failed.status.message()
            return Decision(None, start, self.decider.start, 0, NO_ROWS, None, order, error=text)
        finally:
            self.framework.searching(False)
        if row < 0:
            diagnosis, by_node = self.diagnose(state.target, state.shape, ran, tried)
            is_listed = tried < 0 or ran.node_names is None
            statuses = NodeToStatus(diagnosis.nodes, by_node, is_listed and self.profile.filters_in_core)
        elif len(positions) == 1 or not (error := self.pre_score(positions)):
            node = self.cache.state.table.row_name(row)
        decision = Decision(
            node, start, self.decider.start, evaluated, positions, totals, order, diagnosis, error
        )
        if node is not None:
            return leave_nodes(self, hint, decision)
        return decision if diagnosis is None else self._post_filter(state, pod, decision, statuses)

    def try_first(self, state: CycleState, pod: Pod, hint: str) -> tuple[int, bool]:
        """The node that is tried before all others: the one that the pod is nominated to, else the hint. Its
        row, -1 where there is none that counts, and whether the pod fits. One about which a plugin fails is
        passed over (kube-scheduler v1.36, evaluateNominatedNode).

        Parameters
        ----------
        state : CycleState
        pod : Pod
        hint : str
            Name of the node that batching proposes; "" for none.

        Returns
        -------
        row : int
        fits : bool
        """
        name = pod.status.nominated_node_name or hint
        row = self.row_in_view(name) if name else -1
        try:
            return row, row >= 0 and not self.search.verdict(row, *state.target)
        except StatusError:
            return -1, False

    def on_tried_node(self, row: int, order: Callable[[], list[str]]) -> Decision:
        """The pod fits the node that was tried first: no other is looked at, and the rotation stays."""
        start = self.decider.start
        at = self.cache.state.view.position_of(row)
        positions = np.array([at], dtype=np.int32) if at >= 0 else NO_ROWS
        return Decision(self.cache.state.table.row_name(row), start, start, 1, positions, None, order)

    def pre_score(self, positions: npt.NDArray[np.int32]) -> str:
        """PreScore over the feasible nodes, unless a Score plugin had it run; the error of the cycle."""
        try:
            self.bridge.pre_score(lambda: self.cache.state.view.rows()[positions])
        except StatusError as failed:
            return failed.status.message()
        return ""

    def _no_search(self, diagnosis: Diagnosis | None, order: Callable[[], list[str]]) -> Decision:
        start = self.decider.start
        error = diagnosis.message() if diagnosis is not None and diagnosis.nodes == 0 else ""
        return Decision(None, start, start, 0, NO_ROWS, None, order, diagnosis, error)

    # ---- why not -------------------------------------------------------------------------------------------

    def diagnose(
        self, target: Target, shape: Shape, ran: PreFilterRun, tried: int = -1
    ) -> tuple[Diagnosis, Callable[[], dict[str, Status]]]:
        """Why no node fits, counted, and the same by node for those who ask before a change; `tried` as
        in `Placer.decide`.

        Parameters
        ----------
        target : (int, int, int)
            As for `schedule`.
        shape : Shape
        ran : PreFilterRun
        tried : int
            Row of the node that was tried first, -1 for none.

        Returns
        -------
        diagnosis : Diagnosis
        by_node : callable
            Returns the status of each rejecting node by name; valid before the next change of the cluster.
        """
        known = None
        if tried < 0 and self.profile.filters_in_core:
            statuses: tuple[Status, ...] = ()
            counts = self.decider.rejections(*target)
        else:
            known = self._verdicts(target, tried)
            _, verdicts, statuses = known
            counts = count_verdicts(verdicts)
        diagnosis = Diagnosis(
            self.nodes_in_view(),
            self.profile,
            shape,
            verdicts=counts,
            absent=ran.absent,
            narrowing=ran.plugins,
            statuses=statuses,
        )

        def by_node() -> dict[str, Status]:
            rows, verdicts, statuses = known or self._verdicts(target, tried)
            table = self.cache.state.table
            found = {} if ran.absent is None else self._rejected_by_all(ran.absent)()
            said = {
                verdict: explain_verdict(self.profile, shape, verdict, statuses)
                for verdict in set(verdicts.tolist())
            }
            for row, verdict in zip(rows.tolist(), verdicts.tolist(), strict=True):
                found[table.row_name(row)] = said[verdict]
            return found

        return diagnosis, by_node

    def _verdicts(
        self, target: Target, tried: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64], tuple[Status, ...]]:
        """Rows, what they say, and what plugins outside the core mean by it."""
        rows, verdicts = self.search.verdicts(*target)
        if tried >= 0 and tried not in rows:
            rows = np.append(rows, np.int32(tried))
            verdicts = np.append(verdicts, np.uint64(self.search.verdict(tried, *target)))
        return rows, verdicts, self.heard(rows, verdicts)

    def heard(self, rows: npt.NDArray[np.int32], verdicts: npt.NDArray[np.uint64]) -> tuple[Status, ...]:
        """Number the statuses of plugins outside the core: a verdict's reason bits become the number of what
        the plugin said. Changes `verdicts`.

        Parameters
        ----------
        rows : (n,) int32 array
        verdicts : (n,) uint64 array
            See `Search.verdicts`; changed in place.

        Returns
        -------
        tuple of Status
            Index is the reason bits of a changed verdict.
        """
        if self.profile.filters_in_core:
            return ()
        return self.bridge.number_statuses(rows, verdicts)

    def _rejected_by_all(self, status: Status) -> Callable[[], dict[str, Status]]:
        return lambda: dict.fromkeys(self.cache.state.view.node_names(), status)

    def _post_filter(
        self, state: CycleState, pod: Pod, decision: Decision, statuses: Mapping[str, Status]
    ) -> Decision:
        """The decision with what PostFilter made of it."""
        if not (self.runs_post_filter and self.profile.at(PostFilterPlugin)) or decision.diagnosis is None:
            return decision
        if not pod.status.nominated_node_name and self.preemption_is_futile(decision.diagnosis):
            failed = self._post_filter_failure(state)
            if failed is not None:
                return replace(decision, diagnosis=replace(decision.diagnosis, post_filter=failed.message()))
            diagnosis, result = self.with_futile_messages(decision.diagnosis)
            return replace(decision, diagnosis=diagnosis, nominating=result)
        result, status = self.framework.run_post_filter_plugins(state, pod, statuses)
        diagnosis = replace(decision.diagnosis, post_filter=message_of(status))
        return replace(decision, diagnosis=diagnosis, nominating=result)

    def preempt(self, pod: Pod, searched: FailedSearch, order: Callable[[], list[str]]) -> Decision:
        """What PostFilter makes of a pod that the placing loop has just looked for a node for in vain; the
        rotation moves as that search would have moved it.

        Parameters
        ----------
        pod : Pod
            Of a profile whose filters are in the core.
        searched : FailedSearch
        order : callable
            Names of the nodes in list order.

        Returns
        -------
        Decision
        """
        state, start = searched.state, self.decider.start
        self.placer.skip(1)
        self.begin_search(state, pod, searched.ran)
        statuses = NodeToStatus(searched.diagnosis.nodes, searched.by_node, True)
        result, status = self.framework.run_post_filter_plugins(state, pod, statuses)
        diagnosis, message = searched.diagnosis, message_of(status)
        if message:
            diagnosis = replace(diagnosis, post_filter=message)
        evaluated = sum(diagnosis.verdicts.values())
        return Decision(
            None, start, self.decider.start, evaluated, NO_ROWS, None, order, diagnosis, nominating=result
        )

    def _post_filter_failure(self, state: CycleState) -> Status | None:
        """The Error of a PostFilter plugin that cannot do without what it would have written in PreFilter."""
        failures = (plugin.failure(state) for plugin in self.core_post_filters or ())
        return next((status for status in failures if status is not None), None)

    @property
    def core_post_filters(self) -> tuple[CorePostFilter, ...] | None:
        """The PostFilter plugins, where all of them tell when they cannot help."""
        return self.profile.core_post_filters if self.runs_post_filter else ()

    def may_preempt(self, shape: Shape, potential: int = 1) -> bool:
        """Whether PostFilter could make room for pods of a shape; so many nodes were rejected, but not for
        good.

        Parameters
        ----------
        shape : Shape
            Of the pod.
        potential : int
            Nodes that were rejected, but not for good (code Unschedulable).

        Returns
        -------
        bool
        """
        plugins = self.core_post_filters
        return plugins is None or any(plugin.may_preempt(shape, potential) for plugin in plugins)

    def preemption_is_futile(self, diagnosis: Diagnosis) -> bool:
        """Whether it certainly makes none for a pod that is nominated nowhere."""
        return not self.may_preempt(diagnosis.shape, diagnosis.potential)

    def with_futile_messages(self, diagnosis: Diagnosis) -> tuple[Diagnosis, NominatingInfo | None]:
        """What comes of PostFilter then, without asking it."""
        plugins = self.core_post_filters or ()
        answers = [plugin.futile_message(diagnosis.shape, diagnosis.nodes, 0) for plugin in plugins]
        result = NominatingInfo() if any(ends for _, ends in answers) else None
        if any(plugin.reason_against for plugin in plugins):  # only in this cycle
            said = ", ".join(text for text, _ in answers)
            return replace(diagnosis, post_filter=said), result
        return replace(diagnosis, futile_plugins=plugins), result
