"""Explaining a pod: every filter on every node, the scores, and what would make the pod fit."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import structs

from moorage._core.plan import REASONS, UNRESOLVABLE
from moorage._core.table_columns import row_ports
from moorage.cache import SchedulerCache
from moorage.framework.interface import FILTER, Code, NativePlugin, Status
from moorage.objects.pod import Pod, PodStatus

from .changes import find_changes
from .conflicts import find_conflicts
from .examine import Target, examine
from .explanation import Explanation, FilterVerdicts, NodeTableFacts, group_nodes
from .needs import NodeFacts, PodNeeds
from .points import PreFilterRun, run_pre_filters
from .probe import Probe

if TYPE_CHECKING:
    from moorage._core.pod_class import Shape

    from .scheduler import Scheduler

PRE_FILTER_COLUMN = "PreFilter"


def explain(scheduler: Scheduler, pod: Pod, skipped: str) -> Explanation:
    """See `Scheduler.explain`; `skipped` says why the scheduler leaves the pod alone."""
    twin = _twin(scheduler)
    waiting, bound_to = _as_if_pending(twin.cache, pod)
    return _explain(twin, waiting, bound_to, skipped)


def _twin(scheduler: Scheduler) -> Scheduler:
    """The scheduler over a copy of its cluster: what is tried out there leaves no trace, neither nodes and
    pods nor the counters that the terms of a changed pod ask for."""
    twin = copy(scheduler)
    twin.cache = SchedulerCache(scheduler.cache.ttl, scheduler.cache.clock)
    with scheduler.cache.lock:
        twin.cache.state = scheduler.cache.state.fork()
        twin.cycle = scheduler.cycle.clone(twin.cache.state)
    return twin


def _as_if_pending(cache: SchedulerCache, pod: Pod) -> tuple[Pod, str]:
    """The pod as it would wait, and the node that it is on, off which it is taken."""
    if not pod.metadata.uid or not cache.state.has_pod(pod):
        return pod, ""
    held = cache.get_pod(pod)
    (cache.forget_pod if cache.is_assumed_pod(held) else cache.remove_pod)(held)
    spec = structs.replace(held.spec, node_name="")
    return structs.replace(held, spec=spec, status=PodStatus()), held.spec.node_name


def _explain(scheduler: Scheduler, pod: Pod, bound_to: str, skipped: str) -> Explanation:
    seen = examine(scheduler, pod)
    target = scheduler.classify(pod)
    shape = scheduler.cache.state.classes.shape_of(target[0])
    terms = scheduler.cycle.terms_of(target[0], target[2])
    ran = run_pre_filters(scheduler.profile, pod, shape, terms)
    rows = scheduler.view_rows()
    facts = _facts(scheduler, pod, shape, rows)
    filters = _filters(scheduler, target, shape, ran, rows)
    explanation = Explanation(
        pod=pod,
        bound_to=bound_to,
        skipped=skipped,
        weights=scheduler.profile.weights,
        examination=seen,
        filters=filters,
        groups=group_nodes(seen.order, filters, facts),
        facts=facts,
    )
    if seen.feasible or seen.error:
        return explanation
    probe = Probe(scheduler, pod)
    changes = find_changes(probe, facts.pod)
    conflicts, blocked = ([], "") if changes else find_conflicts(probe, facts.pod)
    return replace(explanation, changes=changes, conflicts=conflicts, blocked=blocked)


# ---- verdicts ----------------------------------------------------------------------------------------------


def _filters(
    scheduler: Scheduler, target: Target, shape: Shape, ran: PreFilterRun, rows: npt.NDArray[np.int32]
) -> list[FilterVerdicts]:
    """Every filter's own verdicts; of a pod that PreFilter rejects, only that."""
    if ran.rejection is not None:
        status = replace(ran.rejection, plugin=ran.rejection.plugin or " ".join(ran.plugins))
        return [FilterVerdicts(PRE_FILTER_COLUMN, np.ones(len(rows), dtype=np.intp), [None, status])]
    place = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.intp)
    place[rows] = np.arange(len(rows))
    found = []
    searched = np.zeros(len(rows), dtype=bool)
    for plugin in scheduler.profile.native(FILTER):
        asked, bits = scheduler.cycle.filter_verdicts(plugin.name, *target)
        searched[place[asked]] = True
        values, inverse = np.unique(np.append(bits, np.uint64(0)), return_inverse=True)
        codes = np.zeros(len(rows), dtype=np.intp)
        codes[place[asked]] = inverse[:-1]
        found.append(
            FilterVerdicts(plugin.name, codes, [_status(plugin, int(value), shape) for value in values])
        )
    if ran.absent is not None:
        absent = replace(ran.absent, plugin=" ".join(ran.plugins))
        found.insert(0, FilterVerdicts(PRE_FILTER_COLUMN, (~searched).astype(np.intp), [None, absent]))
    return found


def _status(plugin: NativePlugin, bits: int, shape: Shape) -> Status | None:
    if not bits:
        return None
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if bits & UNRESOLVABLE else Code.UNSCHEDULABLE
    return Status(code, plugin.reasons(bits & REASONS, shape), plugin.name)


# ---- nodes -------------------------------------------------------------------------------------------------


def _facts(scheduler: Scheduler, pod: Pod, shape: Shape, rows: npt.NDArray[np.int32]) -> NodeTableFacts:
    """The nodes as they are now; NodeFacts are made when they are asked for."""
    table, names = scheduler.table, scheduler.cache.state.symbols.names
    requests = {"pods": 1, "cpu": shape.requests[0], "memory": shape.requests[1]} | shape.other_requests
    requests = {resource: request for resource, request in requests.items() if request}
    free = {name: table.allocatable[name][rows] - table.requested[name][rows] for name in requests}
    nodes = [table.objects[row] for row in rows]
    used = [row_ports(table, int(row)) for row in rows] if shape.ports else []
    ports = tuple((names[ip] or "", names[protocol] or "", port) for ip, protocol, port in shape.ports)

    def at(place: int) -> NodeFacts:
        node = nodes[place]
        if node is None:
            raise RuntimeError(f"row {rows[place]} is listed without a node")
        amounts = {name: int(column[place]) for name, column in free.items()}
        return NodeFacts(node, amounts, used[place] if used else frozenset())

    return NodeTableFacts(PodNeeds(pod, requests, ports), at)
