"""Writes the resource claims of pods that the core has placed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moorage._core.decide.pod_batch import PodBatch
from moorage.framework.plugin.interface import NominatingInfo
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Failure, ScheduleResult

if TYPE_CHECKING:
    from moorage.scheduler.scheduling_context import SchedulingContext


def bind_claims(context: SchedulingContext, engine: Engine, result: ScheduleResult, tried: range) -> None:
    """Write the claims of placed pods. A pod whose claims cannot be written is forgotten, and fails.

    Parameters
    ----------
    context : SchedulingContext
    engine : Engine
        That placed the pods.
    result : ScheduleResult
        Of their batch; receives failures.
    tried : range
        The indexes of the pods that were tried.
    """
    batch, claiming = cast(PodBatch, result.batch), context.volume_classes.claiming
    few = tried if len(tried) < len(claiming) else claiming
    placed = [at for at in few if at in claiming and at in tried and at not in result.failures]
    nodes = result.nodes_of(placed)
    pods = {at: (batch.pod(at), node) for at, node in zip(placed, nodes, strict=True)}
    refused = engine.profile.claims_plugin.bind_claims(pods, claiming)
    for at, status in refused.items():
        result.failures[at] = Failure(error=status.message(), nominating=NominatingInfo())
        result.rows[at] = -1
        assumed = context.cache.get_pod(pods[at][0])
        context.cache.forget_pod(assumed)
        context.bindings.freed.append(assumed)
