"""Scale-down by utilization (cluster-autoscaler): which nodes are unneeded, and which of them leave now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from moorage.scheduler import Scheduler
from moorage.sim.timeline.autoscaler_spec import ScaleDown

from .autoscaler_state import AutoscalerState
from .eviction_rules import Budgets, pods_to_move, reason_to_keep
from .expanders import GPUS
from .forked_dry_run import DryRun

DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


def utilization(scheduler: Scheduler, node: str) -> float:
    """Return the greater of the requested parts of cpu and memory of a node; of its GPUs where it has some.

    Parameters
    ----------
    scheduler : Scheduler
    node : str

    Returns
    -------
    float
    """
    table, row = scheduler.table, scheduler.cache.state.find_row(node)
    parts: dict[str, float] = {}
    for name in ("cpu", "memory", *GPUS):
        if row is not None and name in table.allocatable and (has := int(table.allocatable[name][row])):
            parts[name] = int(table.requested[name][row]) / has
    gpus = [part for name, part in parts.items() if name in GPUS]
    return max(gpus or parts.values(), default=0.0)


def find_unneeded(
    dry_run: DryRun, nodes: Iterable[str], rules: ScaleDown, known: Mapping[str, float]
) -> dict[str, int]:
    """Return the nodes that are unneeded: little of them is used, and all pods on them have another place.

    Nodes are tried one after the other: empty ones, then those that have been unneeded the longest. A node
    that is unneeded takes no pods of the nodes after it.

    Parameters
    ----------
    dry_run : DryRun
    nodes : iterable of str
        Of node groups.
    rules : ScaleDown
    known : mapping of str to float
        Since when nodes have been unneeded.

    Returns
    -------
    dict of str to int
        Number of the pods to move, by node.
    """
    scheduler, out = dry_run.scheduler, dict[str, int]()
    pods = {name: pods_to_move(scheduler, name) for name in nodes}
    budgets = Budgets(scheduler)
    candidates = [
        name
        for name in pods
        if utilization(scheduler, name) < rules.utilization_threshold
        and not any(reason_to_keep(pod, rules, budgets) for pod in pods[name])
    ]
    candidates.sort(key=lambda name: (bool(pods[name]), known.get(name, math.inf)))
    for name in candidates:
        here = pods_to_move(scheduler, name)  # pods of nodes before may have come
        if budgets.reason(here):
            continue
        with scheduler.transaction() as transaction:
            if not dry_run.empty([name]):
                transaction.commit()
                budgets.take(pods[name])
                out[name] = len(pods[name])
    return out


def leaving(
    unneeded: Mapping[str, int],
    state: AutoscalerState,
    rules: ScaleDown,
    now: float,
    spare: dict[str, int],
    group_of: Mapping[str, str],
) -> list[str]:
    """Return the unneeded nodes that leave now.

    Parameters
    ----------
    unneeded : mapping of str to int
        Of `find_unneeded`.
    state : AutoscalerState
    rules : ScaleDown
    now : float
    spare : dict of str to int
        Number of nodes that each group has above its minimum.
    group_of : mapping of str to str
        Group of each node.

    Returns
    -------
    list of str
        Empty nodes first; in all and with pods no more than the rules allow.
    """
    delay, after = state.added + float(rules.delay_after_add), state.removed + float(rules.delay_after_delete)
    out: list[str] = []
    drains = 0
    if delay > now or after > now:
        return out
    for name in sorted(unneeded, key=lambda one: bool(unneeded[one])):
        is_due = state.unneeded[name] + float(rules.unneeded_time) < now
        has_pods = bool(unneeded[name])
        if not is_due or spare[group_of[name]] <= 0 or len(out) >= rules.max_scale_down_parallelism:
            continue
        if has_pods and drains >= rules.max_drain_parallelism:
            continue
        drains += has_pods
        spare[group_of[name]] -= 1
        out.append(name)
    return out
