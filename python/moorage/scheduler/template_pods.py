"""Pods of a template: placed in one go, without an object each for the caller to make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage.objects.naming import stable_uid
from moorage.objects.pod import Pod

from .engine import NO_ROWS
from .results import Failure

if TYPE_CHECKING:
    from .scheduler import Scheduler


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
    """Pod number `index` of a template: its name and UID follow from the template's and the number."""
    meta = template.metadata
    name = f"{meta.generate_name or meta.name + '-'}{index}"
    return replace(template, metadata=replace(meta, name=name, uid=stable_uid("Pod", meta.namespace, name)))


def schedule_by_template(scheduler: Scheduler, template: Pod, n: int, first: int) -> TemplateRun:
    """See `Scheduler.schedule_by_template`."""
    pods = [pod_of(template, index) for index in range(first, first + n)]
    if not pods:
        return TemplateRun(NO_ROWS)
    engine = scheduler._engine(template)
    if not engine.profile.is_in_core or scheduler.handle.nominator:
        return _one_by_one(scheduler, pods)
    target = scheduler.classify(pods[0])
    scheduler.unbuilt.note(pods[0], target[0])
    with scheduler.cache.lock:
        state = engine.framework.state_of(target)
        error = engine.framework.run_pre_score_plugins(state, pods[0], engine.framework.all_nodes())
        rows, failure = NO_ROWS, None
        if error is None:
            rows, failure = scheduler._decide_run(engine, pods, target, state)
    if len(rows) == n:
        return TemplateRun(rows)
    if failure is not None:
        return TemplateRun(rows, failure)
    rest = _one_by_one(scheduler, pods[len(rows) :])
    return TemplateRun(np.concatenate((rows, rest.rows)), rest.failure)


def _one_by_one(scheduler: Scheduler, pods: list[Pod]) -> TemplateRun:
    """Profiles with plugins outside the core, which bind in the store; nominations; a plugin that fails."""
    rows: list[int] = []
    for pod in pods:
        if not scheduler._engine_of(pod).profile.is_in_core and pod.key not in scheduler.pods.pending:
            scheduler.client.create(pod)
            scheduler.sync()
        decision = scheduler.schedule_one(pod)
        if decision.node is None:
            return TemplateRun(np.array(rows, dtype=np.int32), Failure(decision.diagnosis, decision.error))
        rows.append(cast(int, scheduler.table.find_row(decision.node)))
    return TemplateRun(np.array(rows, dtype=np.int32))
