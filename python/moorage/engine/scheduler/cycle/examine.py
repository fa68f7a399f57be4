"""Examination of a pod: the verdict of the filters and the scores of every node, by the kernels of
scheduling."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage._core.decide.decider import count_verdicts
from moorage.engine.framework.plugin.cycle_state import CycleState
from moorage.engine.framework.plugin.interface import Code, ScorePlugin
from moorage.engine.framework.profiles.in_core import NativePlugin
from moorage.engine.framework.runtime.call import StatusError
from moorage.engine.framework.runtime.filtering import PreFilterRun
from moorage.engine.framework.runtime.scoring import check_range
from moorage.kube.model.pod import Pod

from .diagnosis import NO_NODES, Diagnosis, explain_verdicts
from .results import Examination, PreFilterOutcome

if TYPE_CHECKING:
    from .engine import Engine


def examine(engine: Engine, pod: Pod, order: list[str]) -> Examination:
    """Run the cycle of a pod over all nodes, without sampling and without placing the pod.

    Parameters
    ----------
    engine : Engine
        Of the pod's profile.
    order : list of str
        Node names in list order.
    """
    if not order:
        return Examination(order=order, error=NO_NODES)
    state = engine.framework.new_state(pod)
    engine.begin_cycle(state.target)
    profile = engine.profile_of(state.target)
    ran = engine.framework.run_pre_filter_plugins(state, pod)
    examination = Examination(
        order=order,
        pre_filter=_outcome(ran),
        skipped_filter=sorted(ran.skipped),
    )
    if ran.error:
        return replace(examination, pre_filter=None, error=ran.error)
    if ran.rejection is not None:
        diagnosis = Diagnosis(len(order), profile, state.shape, pre_filter=ran.rejection)
        return replace(examination, fit_error=diagnosis.message())
    engine.begin_search(state, pod, ran)
    try:
        return _search(engine, state, ran, examination)
    except StatusError as failed:
        return replace(examination, error=failed.status.message())


def _search(engine: Engine, state: CycleState, ran: PreFilterRun, examination: Examination) -> Examination:
    """Return the examination with the verdict of every node, and the scores of the feasible ones."""
    profile, view = engine.profile_of(state.target), engine.cache.state.view
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
    profile = engine.profile_of(state.target)
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
