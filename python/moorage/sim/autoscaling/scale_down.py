"""Scale-down by utilization (cluster-autoscaler): which nodes are unneeded, and which of them leave now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from moorage.facade import Scheduler
from moorage.planning.pod_moves import pods_to_move
from moorage.sim.timeline.autoscaler_spec import ScaleDown

from .autoscaler_state import AutoscalerState
from .eviction_rules import Budgets, reason_to_keep
from .expanders import GPUS
from .forked_dry_run import DryRun

DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


def utilization(scheduler: Scheduler, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """Return the greater of the requested parts of cpu and memory; of the GPUs of nodes with some.

    Parameters
    ----------
    rows : (n,) int32 array
        Rows of nodes.

    Returns
    -------
    (n,) float64 array
    """
    table = scheduler.table

    def most(names: Iterable[str]) -> npt.NDArray[np.float64]:
        """The greatest part of some resources; negative without any."""
        out = np.full(len(rows), -1.0)
        for name in names:
            if name in table.allocatable:
                has, used = table.allocatable[name][rows], table.requested[name][rows]
                np.maximum(out, np.divide(used, has, out=np.full(len(rows), -1.0), where=has > 0), out=out)
        return out

    gpus = most(GPUS)
    return np.maximum(np.where(gpus >= 0, gpus, most(("cpu", "memory"))), 0.0)


def find_candidates(scheduler: Scheduler, nodes: Sequence[str], rules: ScaleDown) -> list[str]:
    """Return the nodes of which little is used, and whose pods may be moved.

    Parameters
    ----------
    nodes : sequence of str
        Of node groups.
    """
    state = scheduler.cache.state
    rows = np.array([state.find_row(name) for name in nodes], np.int32)
    budgets = Budgets(scheduler)
    return [
        nodes[at]
        for at in np.flatnonzero(utilization(scheduler, rows) < rules.utilization_threshold).tolist()
        if _annotation(scheduler, int(rows[at]), DISABLED) != "true"
        and not any(reason_to_keep(pod, rules, budgets) for pod in pods_to_move(scheduler, nodes[at]))
    ]


def _annotation(scheduler: Scheduler, row: int, name: str) -> str | None:
    node = scheduler.table.objects[row]
    return None if node is None else node.metadata.annotations.get(name)


def find_unneeded(dry_run: DryRun, candidates: Sequence[str], known: Mapping[str, float]) -> dict[str, int]:
    """Return the candidates that are unneeded: all pods on them have another place.

    Nodes are tried one after the other: empty ones, then those that have been unneeded the longest. A node
    that is unneeded takes no pods of the nodes after it.

    Parameters
    ----------
    candidates : sequence of str
        Of `find_candidates`.
    known : mapping of str to float
        Since when nodes have been unneeded.

    Returns
    -------
    dict of str to int
        Number of the pods to move, by node.
    """
    scheduler, out = dry_run.scheduler, dict[str, int]()
    budgets = Budgets(scheduler)
    pods = {name: pods_to_move(scheduler, name) for name in candidates}
    for name in sorted(candidates, key=lambda one: (bool(pods[one]), known.get(one, math.inf))):
        if budgets.reason(pods_to_move(scheduler, name)):  # pods of nodes before may have come
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
