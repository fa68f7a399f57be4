"""Preemption for a pod that the core alone decides about: all steps before the eviction are the core's.

Answers what `evaluator` answers, which is for all other pods: those with extenders, plugins outside the core,
or pod groups that are only evicted whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from moorage._core.preempt.preemptor import Preemptor
from moorage.errors import MoorageError
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.extender import Victims
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.interface import NominatingInfo
from moorage.framework.plugin.status import Code, NodeToStatus, Status, as_status
from moorage.framework.runtime.preempt_handle import PreemptHandle
from moorage.objects.model.pod import Pod

from .actuation import prepare_candidate
from .eligibility import NO_VICTIM
from .evaluator import joined, no_candidates
from .eviction_units import Units
from .native import status_of
from .pick import Candidate


def preemptor_of(given: PreemptHandle, pod: Pod, statuses: Mapping[str, Status]) -> Preemptor | None:
    """The preemptor of a pod that these nodes rejected; None where that is not for the core alone."""
    handle, framework = given.handle, given.handle.framework
    if not isinstance(statuses, NodeToStatus) or not statuses.from_search or framework is None:
        return None
    extenders = handle.extenders
    has_extenders = extenders and any(one.supports_preemption and one.is_interested(pod) for one in extenders)
    if type(given) is not PreemptHandle or has_extenders or Units(handle):
        return None
    in_core = framework.profile.pre_filters_in_core
    return framework.preemptor if in_core and framework.preemptor.suits else None


def preempt_in_core(
    preemptor: Preemptor,
    handle: PreemptHandle,
    state: CycleState,
    pod: Pod,
    nodes: int,
    arguments: Mapping[str, int],
    plugin_name: str,
) -> tuple[NominatingInfo | None, Status | None]:
    """What `evaluator.preempt` answers for a pod that may preempt others, and that so many nodes rejected."""
    pod_class, node_name, pinned = state.target
    table = handle.handle.cache.state.table
    with handle.handle.cache.lock:
        potential = preemptor.begin(pod_class, handle.pod_disruption_budgets(), node_name, pinned)
        choice = potential and preemptor.choose(
            handle.handle.preemption_offset(pod, potential),
            arguments["minCandidateNodesPercentage"],
            arguments["minCandidateNodesAbsolute"],
        )
        if not choice:
            return _no_candidate(preemptor, handle.handle, state, nodes)
    row, violations, victims = choice
    candidate = Candidate(table.row_name(row), Victims(tuple(victims), violations))
    failed = prepare_candidate(handle, candidate, pod, plugin_name)
    return (NominatingInfo(candidate.name), None) if failed is None else (None, failed)


def _no_candidate(
    preemptor: Preemptor, handle: FrameworkHandle, state: CycleState, nodes: int
) -> tuple[NominatingInfo | None, Status | None]:
    verdicts, fitting = preemptor.rejections()
    if fitting:
        name = handle.cache.state.table.row_name
        return None, as_status(MoorageError(joined(NO_VICTIM.format(name(row)) for row in fitting)))
    framework, reasons = handle.framework, Counter[str]()
    assert framework is not None
    for verdict, count in verdicts.items():
        for reason in status_of(framework, state, verdict).reasons:
            reasons[reason] += count
    text = no_candidates(nodes, reasons, nodes - sum(verdicts.values()))
    return NominatingInfo(), Status(Code.UNSCHEDULABLE, (text,))
