"""Examination of a pod: the verdict of the filters and the scores of every node, and the check of a chosen
node, by the kernels of scheduling.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage._core.decide.decider import count_verdicts
from moorage.engine.framework.extension_points import PreFilterRun, StatusError, check_range
from moorage.engine.framework.in_tree_plugins import NativePlugin
from moorage.engine.framework.interface import ScorePlugin
from moorage.engine.framework.status import Code, CycleState, Status
from moorage.engine.scheduler.cycle.diagnosis import NO_NODES, Diagnosis, explain_verdicts
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.kube.model.pod import Pod
from moorage.table import Table, Tabular


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """The effect of PreFilter on the search: a rejection, or (code Success) the nodes it narrowed the search
    to.

    Attributes
    ----------
    plugin : str
        Name of the plugin that rejected the pod; "" for none.
    node_names : list of str or None
        Sorted names of the nodes left to the search, some of which may not exist; None for all.
    plugins : list of str
        Names of the plugins that narrowed the search.
    """

    plugin: str = ""
    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    node_names: list[str] | None = None
    plugins: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, repr=False)
class Examination(Tabular):
    """The verdict of every node and the scores of all feasible nodes, however many there are. Nothing is
    placed.

    Attributes
    ----------
    order : list of str
        Node names in list order.
    pre_filter : PreFilterOutcome or None
        None where PreFilter neither rejected the pod nor narrowed the search.
    skipped_filter, skipped_score : list of str
        Sorted names of the plugins that returned Skip at PreFilter or PreScore.
    rejected : dict of str to Status
        Node to the status of the first filter that rejected it, in list order.
    feasible : list of str
        Feasible nodes in list order; `raw`, `normalized` and `total` are aligned with it.
    raw, normalized : dict of str to (n,) int64 array
        Plugin to its scores of the feasible nodes: as returned, and 0 to 100 before weighting.
    total : (n,) int64 array
        Weighted sums.
    best : list of str
        Feasible nodes with the highest total.
    fit_error : str
        FitError text where no node is feasible.
    error : str
        The error with which the cycle fails. After a score out of range (0 to 100) the verdicts of the
        filters are given all the same.
    """

    order: list[str]
    pre_filter: PreFilterOutcome | None = None
    skipped_filter: list[str] = field(default_factory=list)
    skipped_score: list[str] = field(default_factory=list)
    rejected: dict[str, Status] = field(default_factory=dict)
    feasible: list[str] = field(default_factory=list)
    raw: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    normalized: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    total: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    best: list[str] = field(default_factory=list)
    fit_error: str = ""
    error: str = ""

    def headline(self) -> str:
        """Return on how many nodes the pod fits, and why on no more, in one line."""
        why = self.error or self.fit_error
        return f"fits {len(self.feasible)} of {len(self.order)} nodes" + (f"; {why}" if why else "")

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each node in list order.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns node, total (0 where it is not feasible or there are no scores), reasons (missing where no
            filter rejects the pod).
        """
        totals = dict(zip(self.feasible, self.total.tolist(), strict=False))
        nodes = self.order[:limit]
        reasons = [
            ", ".join(self.rejected[node].reasons) if node in self.rejected else None for node in nodes
        ]
        total = np.array([totals.get(node, 0) for node in nodes], dtype=np.int64)
        return Table({"node": nodes, "total": total, "reasons": reasons})

    def to_dict(self) -> dict[str, Any]:
        """Return the table with fit error and error as a JSON value."""
        return self.table().to_dict() | {"fitError": self.fit_error, "error": self.error}


@dataclass(frozen=True, slots=True, repr=False)
class Feasibility(Tabular):
    """The nodes on which a pod fits; true where there is one and the cycle has no error.

    Attributes
    ----------
    nodes : tuple of str
        Names of the feasible nodes in list order.
    message : str
        FitError text or the error of the cycle, where the pod fits nowhere.
    """

    nodes: tuple[str, ...]
    message: str = ""

    def __bool__(self) -> bool:
        return bool(self.nodes) and not self.message

    def headline(self) -> str:
        """Return the number of feasible nodes, or why there are none, in one line."""
        return self.message or f"fits {len(self.nodes)} nodes"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each feasible node.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Column node.
        """
        return Table({"node": list(self.nodes[:limit])})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON value."""
        return {"nodes": list(self.nodes), "message": self.message}


def begin_cycle(engine: Engine, pod: Pod) -> tuple[CycleState, PreFilterRun]:
    """Begin a cycle for a pod, up to PreFilter; `Engine.begin_search` comes next."""
    state = engine.framework.new_state(pod)
    engine.begin_cycle(state.target)
    return state, engine.framework.run_pre_filter_plugins(state, pod)


def examine_nodes(engine: Engine, pod: Pod, order: list[str]) -> Examination:
    """Run the cycle of a pod over all nodes, without sampling and without placing the pod.

    Parameters
    ----------
    order : list of str
        Node names in list order.
    """
    if not order:
        return Examination(order=order, error=NO_NODES)
    state, ran = begin_cycle(engine, pod)
    examination = Examination(
        order=order,
        pre_filter=_outcome(ran),
        skipped_filter=sorted(ran.skipped),
    )
    if ran.error:
        return replace(examination, pre_filter=None, error=ran.error)
    if ran.rejection is not None:
        profile = engine.framework.profile_of(state.target)
        diagnosis = Diagnosis(len(order), profile, state.shape, pre_filter=ran.rejection)
        return replace(examination, fit_error=diagnosis.message())
    engine.begin_search(state, pod, ran)
    try:
        return _search(engine, state, ran, examination)
    except StatusError as failed:
        return replace(examination, error=failed.status.message())


def first_feasible(engine: Engine, pod: Pod, limit: int) -> tuple[str, ...]:
    """The first nodes in list order on which a pod fits, at most `limit`, without scores; () where none is
    found, or a plugin fails."""
    state, ran = begin_cycle(engine, pod)
    if ran.error or ran.rejection is not None or not engine.nodes_in_view():
        return ()
    engine.begin_search(state, pod, ran)
    view, decider, start = engine.cache.state.view, engine.decider, engine.decider.start
    decider.start = 0
    try:
        _, _, positions = decider.find(*state.target, wanted=min(limit, engine.nodes_in_view()))
    except StatusError:
        engine.bridge.forget_failures()
        return ()
    finally:
        decider.start = start
    return tuple(view.names_of(view.rows()[positions]))


def _search(engine: Engine, state: CycleState, ran: PreFilterRun, examination: Examination) -> Examination:
    """Return the examination with the verdict of every node, and the scores of the feasible ones."""
    profile, view = engine.framework.profile_of(state.target), engine.cache.state.view
    error = ""
    try:
        rows, verdicts = engine.search.verdicts(*state.target)
    except StatusError as failed:
        error = failed.status.message()
        rows, verdicts = _before_failure(engine, state, ran)
    statuses = engine.number_statuses(state.target, rows, verdicts)
    fits = verdicts == 0
    diagnosis = Diagnosis(
        len(examination.order),
        profile,
        state.shape,
        verdicts=count_verdicts(verdicts),
        absent=ran.absent,
        statuses=statuses,
    )
    rejected, feasible = view.names_of(rows[~fits]), view.names_of(rows[fits])
    if error:
        seen = explain_verdicts(profile, state.shape, rejected, verdicts[~fits], statuses)
        return replace(examination, rejected=seen, error=error)
    filtered = replace(
        examination,
        rejected=explain_verdicts(profile, state.shape, rejected, verdicts[~fits], statuses),
        feasible=feasible,
        fit_error="" if feasible else diagnosis.message(),
    )
    return _score(engine, state, filtered, rows[fits]) if feasible else filtered


def _before_failure(
    engine: Engine, state: CycleState, ran: PreFilterRun
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """Return rows and verdicts of the nodes that one worker has tried when a filter fails with an error."""
    view, verdicts = engine.cache.state.view, []
    rows = np.roll(view.rows(), -engine.decider.start)
    if ran.node_names is not None:
        rows = rows[[name in ran.node_names for name in view.names_of(rows)]]
    engine.bridge.forget_failures()
    try:
        for row in rows.tolist():
            verdicts.append(engine.search.verdict(row, *state.target))
    except StatusError:
        engine.bridge.forget_failures()
    return rows[: len(verdicts)], np.array(verdicts, dtype=np.uint64)


def _outcome(ran: PreFilterRun) -> PreFilterOutcome | None:
    """Return the effect of PreFilter on the search; None without one."""
    if ran.rejection is not None:
        status = ran.rejection
        return PreFilterOutcome(status.plugin, status.code, status.reasons, plugins=list(ran.plugins))
    if ran.node_names is None:
        return None
    return PreFilterOutcome("", Code.SUCCESS, (), sorted(ran.node_names), list(ran.plugins))


def _score(
    engine: Engine, state: CycleState, examination: Examination, rows: npt.NDArray[np.int32]
) -> Examination:
    """Return the examination with the scores of its feasible nodes."""
    try:
        raw, normalized, total = score_rows(engine, state, rows)
    except StatusError as failed:
        return replace(examination, error=failed.status.message())
    return replace(
        examination,
        skipped_score=sorted(state.skip_score_plugins) if engine.profile.at(ScorePlugin) else [],
        raw=raw,
        normalized=normalized,
        total=total,
        best=list(compress(examination.feasible, (total == total.max()).tolist())),
    )


def score_rows(
    engine: Engine, state: CycleState, rows: npt.NDArray[np.int32]
) -> tuple[dict[str, npt.NDArray[np.int64]], dict[str, npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    """Score nodes that are feasible together, in a cycle whose search has begun.

    Parameters
    ----------
    rows : (n,) int32 array
        Rows of the node table.

    Returns
    -------
    raw, normalized : dict of str to (n,) int64 array
        By plugin.
    total : (n,) int64 array
        Weighted sums of the normalized scores.

    Raises
    ------
    StatusError
        A plugin failed, or its scores are out of range.
    """
    profile = engine.framework.profile_of(state.target)
    raw: dict[str, npt.NDArray[np.int64]] = {}
    normalized: dict[str, npt.NDArray[np.int64]] = {}
    if not profile.at(ScorePlugin):  # every node counts 1 (v1.36, schedule_one.go prioritizeNodes)
        return raw, normalized, np.ones(len(rows), dtype=np.int64)
    try:
        engine.bridge.pre_score(rows)
    except StatusError:
        if len(rows) > 1:  # a single node is not scored
            raise
    total = np.zeros(len(rows), dtype=np.int64)
    for plugin in profile.at(ScorePlugin):
        if plugin.name in state.skip_score_plugins:
            continue
        if isinstance(plugin, NativePlugin):
            scores = engine.search.scores(plugin.name, rows, *state.target)
        elif not profile.calls(plugin):
            scores = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        else:
            scores = engine.bridge.raw_and_normalized(plugin, rows)
        raw[plugin.name], normalized[plugin.name] = scores
        total += profile.weight(plugin) * normalized[plugin.name]
    check_range(normalized)
    return raw, normalized, total


# ---- examine preemption ------------------------------------------------------------------------------------
# Examination of a pod that fits nowhere: the victims of preemption on each node where eviction helps.


# ---- placement check ---------------------------------------------------------------------------------------
# Check of a chosen node: the filters of a profile for one pod on one node.


def check(engine: Engine, pod: Pod, node: str) -> Status | CycleState | None:
    """Run the PreFilter and Filter plugins of a profile for a pod on a node.

    Returns
    -------
    Status, CycleState or None
        The status that rejects the pod. If the pod fits: the state after PreFilter, or None where the core
        alone decides and no plugin writes one.
    """
    engine.nodes_in_view()
    row = engine.row_in_view(node)
    if row < 0:
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"node {node} is not found",))
    framework, target = engine.framework, engine.framework.target_of(pod)
    profile = engine.framework.profile_of(target)
    if profile.is_in_core and engine.passes(target, pod):
        verdict = engine.search.verdict(row, *target)
        return profile.rejection(verdict, framework.shape_of(target)) if verdict else None
    state = framework.state_of(target)
    engine.begin_cycle(target)
    ran = framework.run_pre_filter_plugins(state, pod)
    if ran.rejection is not None:
        return ran.rejection
    if ran.node_names is not None and node not in ran.node_names:
        return ran.absent
    return _ask_all(engine, state, pod, ran, row) or state


def _ask_all(engine: Engine, state: CycleState, pod: Pod, ran: PreFilterRun, row: int) -> Status | None:
    """Filter one node by a profile with out-of-tree plugins; None where the pod fits."""
    engine.begin_search(state, pod, ran)
    try:
        engine.framework.searching(True)
        verdict = engine.search.verdict(row, *state.target)
    except StatusError as failed:
        return failed.status
    finally:
        engine.framework.searching(False)
    if not verdict:
        return None
    rows, verdicts = np.array([row], dtype=np.int32), np.array([verdict], dtype=np.uint64)
    statuses = engine.number_statuses(state.target, rows, verdicts)
    return engine.framework.profile_of(state.target).rejection(int(verdicts[0]), state.shape, statuses)
