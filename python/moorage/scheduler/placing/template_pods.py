"""Pods of a template: placed in one go, without an object each for the caller to make."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage.objects.model.pod import Pod
from moorage.scheduler.cycle.results import Failure

if TYPE_CHECKING:
    from moorage.scheduler.scheduler import Scheduler

MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TemplateRun:
    """What became of the pods of a template.

    Attributes
    ----------
    rows : (m,) int32 array
        Rows of the node table that the first m pods are on, in order.
    failure : Failure or None
        Why the next pod was not placed; those after it were not tried. None where all were placed.
    """

    rows: npt.NDArray[np.int32]
    failure: Failure | None = None


def pod_of(template: Pod, index: int) -> Pod:
    """Pod number `index` of a template, as the cache names it (`ClusterState.assume_template`)."""
    meta = template.metadata
    base = meta.generate_name or f"{meta.name}-"
    uid = f"{meta.namespace}/{base}#{index}"
    return replace(template, metadata=replace(meta, name=f"{base}{index}", uid=uid))


def schedule_by_template(
    scheduler: Scheduler, template: Pod, n: int, first: int, marks: npt.NDArray[np.int64] | None = None
) -> TemplateRun:
    """See `Scheduler.schedule_by_template`."""
    if not 0 <= n <= MOST:
        raise ValueError(f"n {n}: 0 to {MOST}")
    engine, indices = scheduler._engine(template), range(first, first + n)
    if not n or not engine.is_in_core_for(template):
        return _one_by_one(scheduler, map(partial(pod_of, template), indices))
    target = scheduler.classify(template)
    state = scheduler.cache.state
    enter = partial(state.assume_template, target[0], template, first)
    with ExitStack() as stack:
        with scheduler.cache.lock:
            state.check_template(template, first, n)
            # From here on, pods of these names are those of this call.
            stack.enter_context(scheduler.taken_back_on_error(pod_of(template, index) for index in indices))
            rows, failure = scheduler.batches.place_template(engine, target, template, n, enter, marks)
        if failure is not None or len(rows) == n:
            return TemplateRun(rows, failure)
        others = _one_by_one(scheduler, map(partial(pod_of, template), indices[len(rows) :]))
        return TemplateRun(np.concatenate((rows, others.rows)), others.failure)


def _one_by_one(scheduler: Scheduler, pods: Iterable[Pod]) -> TemplateRun:
    """Profiles with plugins outside the core, which bind in the store; nominations; a plugin that fails."""
    rows: list[int] = []
    for pod in pods:
        if (
            not scheduler.engine_of(pod).is_in_core_for(pod)
            and scheduler.informers.informer(Pod).indexer.get(pod.key) is None
        ):
            scheduler.client.create(pod)
            scheduler.sync()
        decision = scheduler.schedule_one(pod)
        if decision.node is None:
            return TemplateRun(np.array(rows, dtype=np.int32), Failure.of(decision))
        rows.append(cast(int, scheduler.table.find_row(decision.node)))
    return TemplateRun(np.array(rows, dtype=np.int32))
