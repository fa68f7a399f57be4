"""The search for a node of one profile over the cache, why nodes are rejected, and the scored nodes that a
search leaves for equal pods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.decide.decider import Decider, TieBreak, count_verdicts
from moorage._core.decide.placer import Placer
from moorage._core.decide.scored_nodes import ScoredNodes
from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.engine.cache import Participant
from moorage.engine.framework.extension_points import PreFilterRun, StatusError, out_of_range
from moorage.engine.framework.handle import Extender, FrameworkHandle
from moorage.engine.framework.interface import PreFilterPlugin
from moorage.engine.framework.profile import Profile
from moorage.engine.framework.run_plugins import Framework, Target
from moorage.engine.framework.status import CycleState, NodeToStatus, Status
from moorage.kube.model.pod import Pod
from moorage.lazy import lazy_attribute
from moorage.saved_fields import SavedFields
from moorage.short_repr import ShortRepr

from .. import cycle as room
from .results import NO_ROWS, Decision

if TYPE_CHECKING:
    from moorage.engine.framework.search_calls import SearchCalls

    from .diagnosis import Diagnosis

Verdicts = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64], tuple[Status, ...]]


class NodeSearch(ShortRepr):
    """Finds nodes for pods of one profile, and says why others are rejected.

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

    Attributes
    ----------
    framework : Framework
        Runs the plugins of the profile.
    plan : Plan
        The filters and scores of the profile, for the core.
    search : Search
        The filters and scores of the core; see `moorage._core.decide`.
    decider : Decider
        Chooses a node by means of `search`.
    placer : Placer
        Places and accounts for pods by means of `decider`.

    Raises
    ------
    ValueError
        The percentage is not between 0 and 100.
    """

    shows = "{0.profile}"

    def __init__(
        self, profile: Profile, handle: FrameworkHandle, tie_break: TieBreak, percentage: int, seed: int
    ) -> None:
        if profile.percentage_of_nodes_to_score is not None:
            percentage = profile.percentage_of_nodes_to_score
        if not 0 <= percentage <= 100:
            raise ValueError(
                f"percentage_of_nodes_to_score must be from 0 (adaptive) to 100, not {percentage}"
            )
        self.profile = profile
        self.handle = handle
        self.cache = handle.cache
        self.framework = Framework(profile, handle)
        self.plan = profile.compile(self.cache.state, lambda: self.bridge)
        self.placer = Placer(self.cache.state, self.plan, tie_break, percentage, seed & 0xFFFFFFFFFFFFFFFF)
        self.search, self.decider = self.placer.search, self.placer.decider
        self.decider.has_extenders = any(
            extender.is_filter or extender.is_prioritizer for extender in handle.extenders
        )
        self.search.invalid_score, self.search.nominator = out_of_range, handle.nominator
        self.framework.attach(self.decider)
        self.search.on_nominated = lambda row, pods: self.bridge.set_nominated_pods(row, pods)

    @lazy_attribute
    def bridge(self) -> SearchCalls:
        """Calls the plugins outside the core."""
        return fwk.search_calls.SearchCalls(self.framework)

    def nodes_in_view(self) -> int:
        """Return the number of nodes in the snapshot of a cycle that begins now."""
        self.cache.state.view.refresh()
        return self.search.nodes

    def interested(self, pod: Pod) -> list[Extender]:
        """Return the extenders that are interested in a pod, in the order of the configuration."""
        return [extender for extender in self.handle.extenders if extender.is_interested(pod)]

    def decides_alone(self, pod: Pod) -> bool:
        """Whether no extender is interested in a pod."""
        return not (self.handle.extenders and self.interested(pod))

    def begin_search(self, state: CycleState, pod: Pod, ran: PreFilterRun) -> None:
        """Prepare the search for a pod: nodes named by PreFilter, cycle state for plugins, nominated pods.

        Parameters
        ----------
        state : CycleState
            State of the cycle after PreFilter.
        ran : PreFilterRun
            The result of PreFilter for the pod.
        """
        # The search derives the nodes that plugins in the core name.
        profile = self.framework.profile_of(state.target)
        outside = bool(ran.plugins) and any(
            plugin.name in ran.plugins and profile.calls(plugin) for plugin in profile.at(PreFilterPlugin)
        )
        self.search.node_names = ran.node_names if outside else None
        if self.handle.plugin_errors.untold:  # the core, which knows no pod, has just asked about this one
            self.handle.plugin_errors.tell(f"pod {pod.key}")
        self.bridge.begin(state, pod)
        if self.handle.nominator.nodes or self.search.has_nominated:
            self.search.follow_nominator(self.handle.nominator, pod)

    def row_in_view(self, name: str) -> int:
        """Return the row of a node in the node table.

        Returns
        -------
        int
            -1 for an unknown node, and for one that is kept only because pods name it.
        """
        row = self.cache.state.table.find_row(name)
        return -1 if row is None or not self.cache.state.table.is_present(row) else row

    def row_to_try(self, name: str) -> int:
        """Return the row of a node that is tried before all others.

        Returns
        -------
        int
            -1 as by `row_in_view`, and for a node that is not in the placement which is searched
            (kube-scheduler v1.37, GetNodeInPlacement).
        """
        row = self.row_in_view(name)
        return row if row >= 0 and self.search.is_in_placement(row) else -1

    def row_of(self, decision: Decision) -> int:
        """Return the row of the chosen node; -1 without one."""
        return -1 if decision.node is None else self.row_in_view(decision.node)

    def evaluate_nominated_node(self, state: CycleState, pod: Pod, hint: str) -> tuple[int, bool]:
        """Filter the node that is tried before all others: the pod's nominated node, else the hint of
        batching. A node for which a plugin fails with an error is passed over (kube-scheduler v1.36,
        schedule_one.go evaluateNominatedNode).

        Parameters
        ----------
        hint : str
            Name of the node that batching proposes; "" for none.

        Returns
        -------
        row : int
            Row of the node; -1 for none.
        fits : bool
            Whether the pod fits there.
        """
        name = pod.status.nominated_node_name or hint
        row = self.row_to_try(name) if name else -1
        try:
            return row, row >= 0 and not self.search.verdict(row, *state.target)
        except StatusError:
            self.bridge.forget_failures()  # the search asks again
            return -1, False

    def on_tried_node(self, row: int) -> Decision:
        """Return the decision for the node that was tried first. No other node is searched, and the rotation
        stays.

        Parameters
        ----------
        row : int
            Row of the node in the node table.
        """
        start, name = self.decider.start, self.cache.state.table.row_name(row)
        at = self.cache.state.view.position_of(row)
        positions = np.array([at], dtype=np.int32) if at >= 0 else NO_ROWS
        decision = Decision(name, start, start, 1, positions, None)
        return replace(decision, symbols=np.zeros(len(positions), dtype=np.int32), names=(name,))

    def pre_score(self, positions: npt.NDArray[np.int32]) -> str:
        """Run PreScore over the feasible nodes, unless a Score plugin has had it run already.

        Parameters
        ----------
        positions : (n,) int32 array
            Positions of the feasible nodes in list order.

        Returns
        -------
        str
            The error of the cycle; "" for none.
        """
        try:
            self.bridge.pre_score(lambda: self.cache.state.view.rows()[positions])
        except StatusError as failed:
            return failed.status.message()
        return ""

    def diagnose(
        self, target: Target, shape: Shape, ran: PreFilterRun, tried: int = -1
    ) -> tuple[Diagnosis, NodeToStatus]:
        """Count the reasons why no node is feasible.

        Parameters
        ----------
        target : (int, int, int)
            Class of the pod, symbol of spec.nodeName, symbol of the node it is pinned to; 0 for none.
        ran : PreFilterRun
            The result of PreFilter for the pod.
        tried : int, optional
            Row of the node that was tried first; -1 for none.

        Returns
        -------
        statuses : NodeToStatus
            Of each rejecting node by name. To be read before the next change of the cluster.
        """
        known, profile = None, self.framework.profile_of(target)
        is_listed = profile.filters_in_core and (tried < 0 or ran.node_names is None)
        if tried < 0 and profile.filters_in_core:
            statuses: tuple[Status, ...] = ()
            counts = self.decider.rejections(*target)
        else:
            known = self.verdicts(target, tried)
            _, verdicts, statuses = known
            counts = count_verdicts(verdicts)
            ran = self.after_trial(ran, target, tried, known)
        diagnosis = room.diagnosis.Diagnosis(
            self.nodes_in_view(),
            profile,
            shape,
            verdicts=counts,
            absent=ran.absent,
            narrowing=ran.plugins,
            statuses=statuses,
        )

        def by_node() -> dict[str, Status]:
            rows, verdicts, statuses = known or self.verdicts(target, tried)
            names = self.cache.state.view.names_of(rows)
            by_name = {} if ran.absent is None else self.rejected_by_all(ran.absent)()
            return by_name | room.diagnosis.explain_verdicts(profile, shape, names, verdicts, statuses)

        return diagnosis, NodeToStatus(diagnosis.nodes, by_node, is_listed)

    def verdicts(self, target: Target, tried: int = -1) -> Verdicts:
        """Return the rows that are searched, their verdicts with numbered statuses, and those statuses; see
        `Search.verdicts` and `number_statuses`.

        Parameters
        ----------
        target : (int, int, int)
            Of the pod (`target_of`).
        tried : int, optional
            Row of a node that was tried first, and is one of them; -1 for none.
        """
        rows, verdicts = self.search.verdicts(*target)
        if tried >= 0 and tried not in rows:
            rows = np.append(rows, np.int32(tried))
            verdicts = np.append(verdicts, np.uint64(self.search.verdict(tried, *target)))
        return rows, verdicts, self.number_statuses(target, rows, verdicts)

    def after_trial(self, ran: PreFilterRun, target: Target, tried: int, verdicts: Verdicts) -> PreFilterRun:
        """Return the result of PreFilter after the node that was tried before all others was rejected.

        Parameters
        ----------
        tried : int
            Row of the node; -1 for none.
        verdicts : (array, array, tuple of Status)
            Rows of rejecting nodes, that of the node among them, their verdicts with numbered statuses, and
            those statuses.
        """
        if tried < 0:
            return ran
        rows, of_rows, statuses = verdicts
        verdict = int(of_rows[rows == tried][0])
        profile, shape = self.framework.profile_of(target), self.framework.shape_of(target)
        return ran.after_trial(profile.rejection(verdict, shape, statuses))

    def number_statuses(
        self, target: Target, rows: npt.NDArray[np.int32], verdicts: npt.NDArray[np.uint64]
    ) -> tuple[Status, ...]:
        """Number the statuses of out-of-tree plugins: the reason bits of their verdicts become an index into
        the result.

        Parameters
        ----------
        target : (int, int, int)
            Of the pod that was searched for.
        rows : (n,) int32 array
            Rows of the nodes.
        verdicts : (n,) uint64 array
            See `Search.verdicts`; changed in place.

        Returns
        -------
        tuple of Status
            The distinct statuses; empty where all filters are in the core.
        """
        if self.framework.profile_of(target).filters_in_core:
            return ()
        return self.bridge.number_statuses(rows, verdicts)

    def rejected_by_all(self, status: Status) -> Callable[[], dict[str, Status]]:
        """Return a callable that gives every node the same status."""
        return lambda: dict.fromkeys(self.cache.state.view.node_names(), status)


# ---- opportunistic batching --------------------------------------------------------------------------------
# Opportunistic batching (KEP-5598): the scored nodes of one search serve equal pods in the cycles right
# after it.
#
# kube-scheduler v1.36 and v1.37, framework/runtime/batch.go. Upstream keeps a list per profile, with the
# number of the cycle that stored it. Only the very next cycle may use a list, so one list for all profiles is
# enough here.

MAX_AGE = 0.5  # seconds


class Hint(Struct, frozen=True):
    """The proposal of opportunistic batching for a cycle.

    Attributes
    ----------
    signature : bytes or None
        Signature of the pod; None for a pod that batching does not handle.
    scored : ScoredNodes or None
        The list from which the node was taken.
    node : str
        Name of the proposed node; "" for none.
    """

    signature: bytes | None = None
    scored: ScoredNodes | None = None
    node: str = ""


class Batching(SavedFields, Participant):
    """Holds the list of scored nodes that the last cycle left.

    Parameters
    ----------
    is_on : bool
        False without the feature gate OpportunisticBatching and with extenders; no pod is signed then.
    clock : callable
        Returns seconds; a list expires after 0.5 s.
    rescores : bool, optional
        `Release.last_node_is_rescored`.

    Attributes
    ----------
    scored : ScoredNodes or None
        The list of the last cycle.
    """

    fields = ("scored",)

    def __init__(self, is_on: bool, clock: Callable[[], float], rescores: bool = False) -> None:
        self.is_on = is_on
        self.clock = clock
        self.rescores = rescores
        self.scored: ScoredNodes | None = None

    def take(self) -> ScoredNodes | None:
        """Remove and return the list at the beginning of a cycle; a list that this cycle does not use
        expires."""
        scored, self.scored = self.scored, None
        return scored

    def clone(self) -> Batching:
        """Return the batching of a fork, without a list."""
        return Batching(self.is_on, self.clock, self.rescores)

    def is_fresh(self, scored: ScoredNodes, signature: bytes | None) -> bool:
        """Whether a list is of pods with a signature, and not older than `MAX_AGE`."""
        is_signed = signature is not None and scored.signature == signature
        return is_signed and self.clock() - scored.created <= MAX_AGE

    def find_hint(
        self, nodes: NodeSearch, scored: ScoredNodes | None, target: Target, pod: Pod, signature: bytes | None
    ) -> Hint:
        """Take a node from the list of the last cycle, if a pod may use the list.

        The conditions are: the pod has the signature of the list, and the list is at most 0.5 s old. Where
        the node of the last pod rejects this pod (nominated pods do not count), the other nodes compare as
        they did before. Where it does not, the list is of no use up to v1.36; since v1.37 that node is scored
        again, and pods with a nominated node do not use the list (batch.go, GetNodeHint).

        Parameters
        ----------
        scored : ScoredNodes or None
            The list of the last cycle.
        target : (int, int, int)
            Of the pod (`target_of`).

        Returns
        -------
        Hint
            Without a node, if the pod may not use the list.
        """
        if scored is None or not len(scored) or not self.is_fresh(scored, signature):
            return Hint(signature)
        if self.rescores and pod.status.nominated_node_name:
            return Hint(signature)
        try:
            offered = self._offered(nodes, scored, target)
        except StatusError:
            return Hint(signature)
        if offered is None:
            return Hint(signature)
        return Hint(signature, offered, nodes.search.state.symbols.names[offered.pop()] or "")

    def _offered(self, nodes: NodeSearch, scored: ScoredNodes, target: Target) -> ScoredNodes | None:
        """The nodes among which the next pod chooses, after the last one took its node; see `find_hint`."""
        search = nodes.search
        row = scored.last_row(search.state.table)
        if row < 0:
            return None
        if search.verdict(row, *target, nominated=False):
            return scored
        if not self.rescores:
            return None
        with nodes.bridge.scoring_again() as pre_score:
            return scored.rescored(search, target, pre_score)

    def leave_nodes(self, decider: Decider, hint: Hint, decision: Decision, target: Target) -> Decision:
        """Leave a list to the next cycle: the rest of the list that proposed the chosen node, or a new one.

        Parameters
        ----------
        hint : Hint
            The hint with which the cycle began.
        target : (int, int, int)
            Of the pod (`target_of`).

        Returns
        -------
        Decision
            With `hinted` set where the node is the hint.
        """
        totals, tie_break = decision.totals, decider.tie_break
        if hint.scored is not None and decision.node == hint.node:
            self.scored = hint.scored
            return replace(decision, hinted=True)
        # With random ties each pod is scored by itself, as before v1.35, which introduced batching.
        if hint.signature is not None and totals is not None and tie_break != TieBreak.RANDOM:
            now, by_heap, raw = self.clock(), tie_break == TieBreak.GO_HEAP, None
            if self.rescores:
                raw = decider.search.raw_scores(decider.state.view.rows_at(decision.feasible), *target)
            self.scored = ScoredNodes(hint.signature, now, decision.symbols, totals, by_heap, raw)
        return decision
