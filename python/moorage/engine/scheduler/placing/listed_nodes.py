"""Opportunistic batching of the placing loop: pods take the nodes of a list that a cycle has left, without a
cycle of each (`tests/house/special_paths.toml`)."""

from __future__ import annotations

from moorage._core.decide.pod_batch import PodBatch
from moorage._core.decide.scored_nodes import ScoredNodes
from moorage.engine.framework.runtime.call import StatusError

from ..cycle.engine import Engine
from ..cycle.results import ScheduleResult


def place_listed(
    engine: Engine, scored: ScoredNodes, batch: PodBatch, result: ScheduleResult, first: int, end: int
) -> int:
    """Place equal pods of a batch on the nodes of the list of the last cycle, as far as each may use the list
    and fits there. No pod is nominated, and all plugins are in the core.

    Parameters
    ----------
    scored : ScoredNodes
        The list.
    result : ScheduleResult
        Receives the rows.
    first, end : int
        Index of the first pod, and index after the last; all belong to one run of the batch.

    Returns
    -------
    int
        Index of the first pod that needs a cycle of its own, or `end`.
    """
    if not engine.batching.is_fresh(scored, engine.sign(batch.pod(first))):
        return first
    try:
        return scored.place(engine.search, batch, result, first, end)
    except StatusError:  # the cycle of the pod tells of it
        return result.unplaced(first, end)[0]
