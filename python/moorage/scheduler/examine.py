"""Examining a pod: every filter's verdict and every score, per node, through the kernels of scheduling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage.framework.interface import SCORE, Code, NativePlugin
from moorage.framework.profile import Profile
from moorage.objects.pod import Pod

from .diagnosis import NO_NODES, Diagnosis, count_verdicts, explain_verdict
from .points import PreFilterRun, run_pre_filters, run_pre_scores
from .results import Examination, PreFilterOutcome

Target = tuple[int, int, int]

if TYPE_CHECKING:
    from .scheduler import Scheduler


def examine(scheduler: Scheduler, pod: Pod) -> Examination:
    """The whole of one cycle for `pod`, unsampled and without placing it."""
    profile, cycle = scheduler.profile, scheduler.cycle
    order = scheduler.view_order()
    if not order:
        return Examination(order=order, error=NO_NODES)
    target = scheduler.classify(pod)
    shape = scheduler.cache.state.classes.shape_of(target[0])
    ran = run_pre_filters(profile, pod, shape, scheduler.cycle.terms_of(target[0], target[2]))
    skipped_filter = sorted(ran.skipped.intersection(profile.filter_plugins))
    if ran.rejection is not None:
        diagnosis = Diagnosis(len(order), profile, shape, pre_filter=ran.rejection)
        return Examination(
            order=order,
            pre_filter=_outcome(ran),
            skipped_filter=skipped_filter,
            fit_error=diagnosis.message(),
        )
    rows, verdicts = cycle.verdicts(*target)
    names = [scheduler.table.row_name(row) for row in rows]
    counts = count_verdicts(verdicts)
    diagnosis = Diagnosis(len(order), profile, shape, verdicts=counts, absent=ran.absent)
    statuses = {verdict: explain_verdict(profile, shape, verdict) for verdict in counts}
    examination = Examination(
        order=order,
        pre_filter=_outcome(ran),
        skipped_filter=skipped_filter,
        rejected={
            name: statuses[verdict] for name, verdict in zip(names, verdicts.tolist(), strict=True) if verdict
        },
        feasible=[name for name, verdict in zip(names, verdicts, strict=True) if not verdict],
        fit_error="" if (verdicts == 0).any() else diagnosis.message(),
    )
    return (
        _score(scheduler, pod, examination, rows[verdicts == 0], target)
        if examination.feasible
        else examination
    )


def _outcome(ran: PreFilterRun) -> PreFilterOutcome | None:
    if ran.rejection is not None:
        return PreFilterOutcome(ran.rejection.plugin, ran.rejection.code, ran.rejection.reasons)
    if ran.node_names is None:
        return None
    return PreFilterOutcome("", Code.SUCCESS, (), sorted(ran.node_names), list(ran.plugins))


def _score(
    scheduler: Scheduler, pod: Pod, examination: Examination, rows: npt.NDArray[np.int32], target: Target
) -> Examination:
    """The examination with scores over its feasible nodes."""
    profile: Profile = scheduler.profile
    shape = scheduler.cache.state.classes.shape_of(target[0])
    skipped, error = run_pre_scores(profile, pod, shape, scheduler.cycle.terms_of(target[0], target[2]))
    if error and len(rows) > 1:
        return Examination(order=examination.order, error=error)
    raw, normalized = {}, {}
    total = np.zeros(len(rows), dtype=np.int64)
    for plugin in profile.at(SCORE):
        if plugin.name in skipped:
            continue
        if isinstance(plugin, NativePlugin):
            raw[plugin.name], normalized[plugin.name] = scheduler.cycle.scores(plugin.name, rows, *target)
        else:
            raw[plugin.name] = normalized[plugin.name] = np.zeros(len(rows), dtype=np.int64)
        total += profile.weight(plugin) * normalized[plugin.name]
    return replace(
        examination,
        skipped_score=sorted(skipped.intersection(profile.score_plugins)),
        raw=raw,
        normalized=normalized,
        total=total,
        best=[name for name, score in zip(examination.feasible, total, strict=True) if score == total.max()],
    )
