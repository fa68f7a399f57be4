"""Whether a pod fits the node that was chosen for it: the filters of a profile, asked about one node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.status import Code, Status
from moorage.framework.runtime.call import StatusError
from moorage.framework.runtime.filtering import PreFilterRun
from moorage.framework.runtime.runtime import target_of
from moorage.objects.model.pod import Pod

from .diagnosis import explain_verdict
from .engine import Engine


def check(engine: Engine, pod: Pod, node: str, victims: Sequence[Pod]) -> Status | CycleState | None:
    """What the profile's PreFilter and Filter plugins say of a pod on a node without some of its pods.

    Returns
    -------
    Status, CycleState or None
        Why it does not fit. Where it fits the state as PreFilter leaves it; None if no plugin writes one.
        Nothing changes.
    """
    if not victims:
        return _check(engine, pod, node)
    with engine.cache.transaction():
        for victim in victims:
            engine.cache.state.remove_pod(victim)
        return _check(engine, pod, node)


def _check(engine: Engine, pod: Pod, node: str) -> Status | CycleState | None:
    engine.nodes_in_view()
    row = engine.row_in_view(node)
    if row < 0:
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"node {node} is not found",))
    framework, target = engine.framework, target_of(engine.cache, pod)
    if engine.profile.is_in_core and engine.passes(target, pod):
        verdict = engine.search.verdict(row, *target)
        return explain_verdict(engine.profile, framework.shape_of(target), verdict) if verdict else None
    state = framework.state_of(target)
    engine.begin_cycle()
    ran = framework.run_pre_filter_plugins(state, pod)
    if ran.rejection is not None:
        return ran.rejection
    if ran.node_names is not None and node not in ran.node_names:
        return ran.absent
    return _ask_all(engine, state, pod, ran, row) or state


def _ask_all(engine: Engine, state: CycleState, pod: Pod, ran: PreFilterRun, row: int) -> Status | None:
    """The filters of a profile with plugins outside the core."""
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
    statuses = engine.heard(rows, verdicts)
    return explain_verdict(engine.profile, state.shape, int(verdicts[0]), statuses)
