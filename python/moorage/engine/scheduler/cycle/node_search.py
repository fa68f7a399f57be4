"""The search for a node of one profile over the cache, and why nodes are rejected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from moorage._core.decide.decider import TieBreak, count_verdicts
from moorage._core.decide.placer import Placer
from moorage._core.state.pod_class import Shape
from moorage.engine.framework.plugin.cycle_state import CycleState
from moorage.engine.framework.plugin.extender import Extender
from moorage.engine.framework.plugin.handle import FrameworkHandle
from moorage.engine.framework.plugin.interface import PreFilterPlugin
from moorage.engine.framework.plugin.status import Status
from moorage.engine.framework.profiles.profile import Profile
from moorage.engine.framework.runtime.bridge import Bridge
from moorage.engine.framework.runtime.call import StatusError
from moorage.engine.framework.runtime.filtering import PreFilterRun
from moorage.engine.framework.runtime.runtime import Framework, Target
from moorage.engine.framework.runtime.scoring import out_of_range
from moorage.kube.model.pod import Pod

from .diagnosis import Diagnosis, explain_verdict, explain_verdicts
from .results import Decision

NO_ROWS = np.zeros(0, dtype=np.int32)
Verdicts = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64], tuple[Status, ...]]


class NodeSearch:
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
        self.bridge = Bridge(self.framework)
        self.plan = profile.compile(self.cache.state, self.bridge)
        self.placer = Placer(self.cache.state, self.plan, tie_break, percentage, seed & 0xFFFFFFFFFFFFFFFF)
        self.search, self.decider = self.placer.search, self.placer.decider
        self.decider.has_extenders = any(
            extender.is_filter or extender.is_prioritizer for extender in handle.extenders
        )
        self.search.invalid_score, self.search.nominator = out_of_range, handle.nominator
        self.framework.attach(self.decider)
        self.search.on_nominated = self.bridge.set_nominated_pods

    def profile_of(self, target: Target) -> Profile:
        """Return the profile with the plugins that are called for the pods of a target.

        Parameters
        ----------
        target : (int, int, int)
            Of the pods (`Framework.target_of`).
        """
        return self.framework.plugins_of(target).profile

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
        self._narrow(ran, self.profile_of(state.target))
        if self.handle.plugin_errors.untold:  # the core, which knows no pod, has just asked about this one
            self.handle.plugin_errors.tell(f"pod {pod.key}")
        self.bridge.begin(state, pod)
        self._nominate(pod)

    def _nominate(self, pod: Pod) -> None:
        """Have the next search count the nominated pods that go before `pod` on their nodes."""
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

    def _narrow(self, ran: PreFilterRun, profile: Profile) -> None:
        """Restrict the search to the nodes that out-of-tree PreFilter plugins named. The search derives those
        that plugins in the core name."""
        outside = bool(ran.plugins) and any(
            plugin.name in ran.plugins and profile.calls(plugin) for plugin in profile.at(PreFilterPlugin)
        )
        self.search.node_names = ran.node_names if outside else None

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

    def on_tried_node(self, row: int, order: Callable[[], list[str]]) -> Decision:
        """Return the decision for the node that was tried first. No other node is searched, and the rotation
        stays.

        Parameters
        ----------
        row : int
            Row of the node in the node table.
        order : callable
            Returns the node names in list order.
        """
        start = self.decider.start
        at = self.cache.state.view.position_of(row)
        positions = np.array([at], dtype=np.int32) if at >= 0 else NO_ROWS
        return Decision(self.cache.state.table.row_name(row), start, start, 1, positions, None, order)

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
    ) -> tuple[Diagnosis, Callable[[], dict[str, Status]]]:
        """Count the reasons why no node is feasible.

        Parameters
        ----------
        target : (int, int, int)
            Class of the pod, symbol of spec.nodeName, symbol of the node it is pinned to; 0 for none.
        shape : Shape
            Of the pod.
        ran : PreFilterRun
            The result of PreFilter for the pod.
        tried : int, optional
            Row of the node that was tried first; -1 for none.

        Returns
        -------
        by_node : callable
            Returns the status of each rejecting node by name. To be called before the next change of the
            cluster.
        """
        known, profile = None, self.profile_of(target)
        if tried < 0 and profile.filters_in_core:
            statuses: tuple[Status, ...] = ()
            counts = self.decider.rejections(*target)
        else:
            known = self._verdicts(target, tried)
            _, verdicts, statuses = known
            counts = count_verdicts(verdicts)
            ran = self.after_trial(ran, target, tried, known)
        diagnosis = Diagnosis(
            self.nodes_in_view(),
            profile,
            shape,
            verdicts=counts,
            absent=ran.absent,
            narrowing=ran.plugins,
            statuses=statuses,
        )

        def by_node() -> dict[str, Status]:
            rows, verdicts, statuses = known or self._verdicts(target, tried)
            names = self.cache.state.view.names_of(rows)
            by_name = {} if ran.absent is None else self.rejected_by_all(ran.absent)()
            return by_name | explain_verdicts(profile, shape, names, verdicts, statuses)

        return diagnosis, by_node

    def _verdicts(self, target: Target, tried: int) -> Verdicts:
        """Return rows, verdicts with numbered statuses, and those statuses; see `Search.verdicts` and
        `number_statuses`."""
        rows, verdicts = self.search.verdicts(*target)
        if tried >= 0 and tried not in rows:
            rows = np.append(rows, np.int32(tried))
            verdicts = np.append(verdicts, np.uint64(self.search.verdict(tried, *target)))
        return rows, verdicts, self.number_statuses(target, rows, verdicts)

    def after_trial(self, ran: PreFilterRun, target: Target, tried: int, verdicts: Verdicts) -> PreFilterRun:
        """Return the result of PreFilter after the node that was tried before all others was rejected.

        Parameters
        ----------
        target : (int, int, int)
            Of the pod.
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
        profile, shape = self.profile_of(target), self.framework.shape_of(target)
        return ran.after_trial(explain_verdict(profile, shape, verdict, statuses))

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
        if self.profile_of(target).filters_in_core:
            return ()
        return self.bridge.number_statuses(rows, verdicts)

    def rejected_by_all(self, status: Status) -> Callable[[], dict[str, Status]]:
        """Return a callable that gives every node the same status."""
        return lambda: dict.fromkeys(self.cache.state.view.node_names(), status)
