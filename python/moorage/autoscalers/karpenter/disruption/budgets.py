"""How many nodes of a pool may go at once.

Rules: Karpenter v1.15.0, pkg/apis/v1/nodepool.go and pkg/controllers/disruption/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from math import inf

from moorage.autoscalers.instance_types.labels import POOL
from moorage.kube import NodePool
from moorage.kube.go_texts import parse_duration
from moorage.kube.model.meta import share

from ..nodes.state_nodes import StateNode, is_true
from .cron_times import next_hit

UNLIMITED = 2**31 - 1
_YEAR = 366 * 86400.0


def allowed_by_budgets(pool: NodePool, nodes: int, reason: str, now: float) -> int:
    """The fewest nodes that an active budget about a reason allows; none if a schedule is malformed."""
    allowed = UNLIMITED
    for budget in pool.spec.disruption.budgets or ():
        if budget.schedule is not None or budget.duration is not None:
            began = now - parse_duration(budget.duration or "0") / 1e9
            try:
                active = next_hit(budget.schedule or "", began, now) < inf
            except ValueError:
                return 0
            if not active:
                continue
        if budget.reasons is None or reason in budget.reasons:
            limit = budget.nodes if budget.nodes.endswith("%") else int(budget.nodes)
            allowed = min(allowed, share(limit, nodes))
    return allowed


def next_change(pool: NodePool, now: float) -> float:
    """When a budget with a schedule may begin or cease to hold, within a year; infinite without any."""
    times = [inf]
    for budget in pool.spec.disruption.budgets or ():
        if budget.schedule is not None and budget.duration is not None:
            lasts = parse_duration(budget.duration) / 1e9
            with suppress(ValueError):
                times += [
                    next_hit(budget.schedule, now, now + _YEAR),
                    next_hit(budget.schedule, now - lasts, now) + lasts,
                ]
    return min(times)


def count_nodes(states: Iterable[StateNode]) -> tuple[dict[str, int], dict[str, int]]:
    """By pool, how many nodes are initialized, and how many of these are going or not ready."""
    there: dict[str, int] = {}
    going: dict[str, int] = {}
    for state in states:
        claim, node = state.claim, state.node
        if claim is None or node is None or not (state.is_initialized or is_true(claim, "Rebooting")):
            continue
        if is_true(claim, "InstanceTerminating"):
            continue
        pool = state.labels.get(POOL, "")
        there[pool] = there.get(pool, 0) + 1
        if state.is_leaving or is_true(claim, "Rebooting") or not is_true(node, "Ready"):
            going[pool] = going.get(pool, 0) + 1
    return there, going
