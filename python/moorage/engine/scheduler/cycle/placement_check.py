"""Check of a chosen node: the filters of a profile for one pod on one node."""

from __future__ import annotations

import numpy as np

from moorage.engine.framework.plugin.cycle_state import CycleState
from moorage.engine.framework.plugin.status import Code, Status
from moorage.engine.framework.runtime.call import StatusError
from moorage.engine.framework.runtime.filtering import PreFilterRun
from moorage.kube.model.pod import Pod

from .diagnosis import explain_verdict
from .engine import Engine


def check(engine: Engine, pod: Pod, node: str) -> Status | CycleState | None:
    """Run the PreFilter and Filter plugins of a profile for a pod on a node.

    Parameters
    ----------
    engine : Engine
        Of the pod's profile.

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
    profile = engine.profile_of(target)
    if profile.is_in_core and engine.passes(target, pod):
        verdict = engine.search.verdict(row, *target)
        return explain_verdict(profile, framework.shape_of(target), verdict) if verdict else None
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
    return explain_verdict(engine.profile_of(state.target), state.shape, int(verdicts[0]), statuses)
