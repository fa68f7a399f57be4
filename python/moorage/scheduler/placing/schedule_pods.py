"""The verbs that place pods given by a caller: in order, or as replicas of a template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec.structs import replace

from moorage._core.decide.pod_batch import TemplateSink
from moorage.framework.plugin.nominator import PodNominator
from moorage.objects.model.pod import Pod
from moorage.scheduler.cycle.results import Failure, ScheduleResult
from moorage.store import ObjectClient

from .place import ALONE, Placing
from .single_cycle import schedule_one, whole_cycle

if TYPE_CHECKING:
    from moorage.scheduler.scheduling_context import SchedulingContext

MOST = 2**31 - 1


def schedule_pods(context: SchedulingContext, pods: Sequence[Pod]) -> ScheduleResult:
    """See `Scheduler.schedule_pods`."""
    context.check_new(pods)
    context.enlist_if_possible()
    with context.taken_back_on_error(pods):
        result = _place_all(context, pods)
        context.sync()
    context.handle.plugin_errors.summarize()
    return result.named()


def _place_all(context: SchedulingContext, pods: Sequence[Pod]) -> ScheduleResult:
    """Place pods by the segments of their batch."""
    batch, result = context.batch_of(pods), ScheduleResult.nowhere(context.cache.state, len(pods))
    for segment in context.segments(batch):
        if not (segment.whole_cycle or segment.waits):
            Placing(context, segment.engine, batch, result).place(segment.first, segment.end)
            continue
        for at in range(segment.first, segment.end):
            decision = whole_cycle(context, segment.engine, pods[at], batch.target(at))
            if decision.node is None:
                result.failures[at] = Failure.of(decision)
            else:
                result.rows[at] = segment.engine.row_in_view(decision.node)
    if context.bindings.running:
        failures = context.finish_binding(pods)
        for at, pod in enumerate(pods):
            if pod.key in failures and result.rows[at] >= 0:
                result.rows[at], result.failures[at] = -1, failures[pod.key]
    return result


def replica(template: Pod, index: int) -> Pod:
    """Replica `index` of a template, as the cache names it (`ClusterState.assume_template`)."""
    meta = template.metadata
    base = meta.generate_name or f"{meta.name}-"
    uid = f"{meta.namespace}/{base}#{index}"
    return replace(template, metadata=replace(meta, name=f"{base}{index}", uid=uid))


def schedule_by_template(context: SchedulingContext, template: Pod, n: int, first: int) -> ScheduleResult:
    """See `Scheduler.schedule_by_template`."""
    if not 0 <= n <= MOST:
        raise ValueError(f"n {n}: 0 to {MOST}")
    state, indices = context.cache.state, range(first, first + n)
    tries = context.engine_for(template).placer.tries(n)
    batch = context.template_batch_of(template, tries)
    segment = next(iter(context.segments(batch)), None)
    if segment is None or segment.whole_cycle:  # replicas do not wait for one another
        return _one_by_one(context, map(partial(replica, template), indices))
    engine, result, done = segment.engine, ScheduleResult.nowhere(state, tries), 0
    with ExitStack() as stack:
        with context.cache.lock:
            state.check_template(template, first, n)
            # From here on, pods of these names are those of this call.
            stack.enter_context(context.taken_back_on_error(replica(template, index) for index in indices))
            if not (batch.route(0) & ALONE or _are_nominated(context.nominator, template, indices)):
                sink = TemplateSink(template, first)
                done = Placing(context, engine, batch, result, sink).place_together(0, tries)
        if result.failures:
            placed, failure = next(iter(result.failures.items()))
            engine.placer.skip(n - tries)
            return ScheduleResult(state, result.rows[:placed], {placed: failure}).named()
        if done == n:
            return result.named()
        others = _one_by_one(context, map(partial(replica, template), indices[done:]))
        failures = {done + at: failure for at, failure in others.failures.items()}
        rows = np.concatenate((result.rows[:done], others.rows))
        return ScheduleResult(state, rows, failures).named()


def _are_nominated(nominator: PodNominator, template: Pod, indices: range) -> bool:
    """Whether any of these replicas of a template is nominated to a node."""
    uids, start = nominator.nodes if nominator else {}, replica(template, 0).metadata.uid[:-1]
    if len(indices) <= len(uids):
        return any(f"{start}{index}" in uids for index in indices)
    ends = (uid[len(start) :] for uid in uids if uid.startswith(start))
    return any(end.isdecimal() and int(end) in indices for end in ends)


def _one_by_one(context: SchedulingContext, pods: Iterable[Pod]) -> ScheduleResult:
    """Profiles with plugins outside the core, which bind in the store; nominations; a plugin that fails."""
    rows: list[int] = []
    failures = dict[int, Failure]()
    for pod in pods:
        if not context.engine_of(pod).is_in_core_for(pod) and context.current(pod) is None:
            cast(ObjectClient, context.handle.client).create(pod)
            context.sync()
        decision = schedule_one(context, pod)
        if decision.node is None:
            failures[len(rows)] = Failure.of(decision)
            break
        rows.append(cast(int, context.cache.state.table.find_row(decision.node)))
    return ScheduleResult(context.cache.state, np.array(rows, dtype=np.int32), failures).named()
