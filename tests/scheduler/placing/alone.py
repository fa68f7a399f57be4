"""Every pod in a cycle of its own, as if a signature could bring each a hint."""

from __future__ import annotations

from collections.abc import Sequence

from moorage._core.decide.pod_batch import PodBatch, Route
from moorage.objects.model.pod import Pod
from moorage.scheduler import Scheduler


def place_alone(scheduler: Scheduler) -> None:
    """Have a scheduler place no pods together from now on."""
    context, together = scheduler.context, scheduler.context.batch_of

    def batch_of(pods: Sequence[Pod]) -> PodBatch:
        batch = together(pods)
        batch.route_by(lambda at: Route.SIGNED)
        return batch

    context.batch_of = batch_of  # type: ignore[method-assign]
