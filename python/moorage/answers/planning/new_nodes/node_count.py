"""Lower bounds of the number of new nodes that pods need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moorage.cluster import PodScheduler
from moorage.engine.framework.plugin.amounts import compared
from moorage.errors import number_of

from ..bounds.linear_program import Rows, is_installed, solve
from ..bounds.relaxation import Relaxation, constrain

TOLERANCE = 1e-6
PROGRAM = "linear program"
LACKS = "{} is in none of the templates: {} requested, {} free"
KIND = "{} like {}: the existing nodes have room for {}, and no template takes any"
TOGETHER = "the existing nodes have too little room for all pods that no template takes"


class NodeBound(NamedTuple):
    """A lower bound of the number of new nodes.

    Attributes
    ----------
    nodes : int or None
        None where no number of them is enough.
    source : str
        What it follows from: "linear program", or the name of a resource; "" for no new node.
    lacking : str
        What no number of nodes is enough for; "" unless `nodes` is None.
    """

    nodes: int | None
    source: str
    lacking: str = ""


def bound_of_nodes(scheduler: PodScheduler, relaxation: Relaxation, new: Sequence[int]) -> NodeBound:
    """Return how many new nodes pods need at least: by a linear program if HiGHS is installed, otherwise by
    each resource.

    Parameters
    ----------
    scheduler : Scheduler
        With one new node of each template.
    relaxation : Relaxation
        Of the pods.
    new : sequence of int
        The places of the new nodes in the relaxation.
    """
    if is_installed():
        return _by_program(relaxation, new)
    return _by_resource(scheduler, relaxation, new)


def _by_resource(scheduler: PodScheduler, relaxation: Relaxation, new: Sequence[int]) -> NodeBound:
    """Return the largest of the bounds that follow from one resource."""
    needs: Counter[str] = Counter()
    for kind in relaxation.kinds:
        needs.update({name: need * kind.count for name, need in kind.needs.items()})
    best = NodeBound(0, "")
    for name, need in needs.items():
        free = int(np.delete(relaxation.free[name], new).sum())
        allocatable = scheduler.table.column("allocatable", name)[relaxation.rows[new]]
        largest = int(allocatable.max(initial=0))
        if need > free and largest == 0:
            return NodeBound(None, name, LACKS.format(name, *compared(name, need, free)))
        if need > free and ceil((need - free) / largest) > (best.nodes or 0):
            best = NodeBound(ceil((need - free) / largest), name)
    return best


def _by_program(relaxation: Relaxation, new: Sequence[int]) -> NodeBound:
    """Return the bound of a linear program: pods in parts, on the pools of nodes there are, and on new nodes
    in parts."""
    old = np.ones(len(relaxation.rows), dtype=bool)
    old[list(new)] = False
    constraints = constrain(relaxation.restricted(old))
    base = constraints.rows
    entries = list(zip(base.row.tolist(), base.column.tolist(), base.value.tolist(), strict=True))
    bounds = list(base.upper)
    costs, upper = [0.0] * len(constraints.upper), list(constraints.upper)
    for place in new:
        _add_template(relaxation, place, entries, bounds, costs, upper)
    counts = [float(kind.count) for kind in relaxation.kinds]
    lower = counts + [-np.inf] * (len(bounds) - len(counts))
    best = solve(np.array(costs), np.array(upper), Rows.of(lower, bounds, entries), maximize=False)
    if best is None:
        return NodeBound(None, PROGRAM, _lacking(relaxation, old))
    nodes = ceil(best.objective - TOLERANCE)
    return NodeBound(nodes, PROGRAM if nodes else "")


def _lacking(relaxation: Relaxation, old: npt.NDArray[np.bool_]) -> str:
    """Return what no number of nodes is enough for."""
    for kind in relaxation.kinds:
        room = int(kind.room[old].sum())
        if room < kind.count and not kind.room[~old].any():
            pods = number_of(kind.count, "pod", "pods")
            return KIND.format(pods, kind.pods[0].key, room)
    return TOGETHER


def _add_template(
    relaxation: Relaxation,
    place: int,
    entries: list[tuple[int, int, float]],
    bounds: list[float],
    costs: list[float],
    upper: list[float],
) -> None:
    """Add the variables and rows of one template: how many nodes of it, and how many pods of each kind are on
    them."""
    nodes = len(costs)
    costs.append(1.0)
    upper.append(np.inf)
    users = [(k, kind) for k, kind in enumerate(relaxation.kinds) if kind.room[place] > 0]
    variables = {k: nodes + 1 + at for at, (k, _) in enumerate(users)}
    for k, kind in users:
        costs.append(0.0)
        upper.append(float(kind.count))
        entries.append((k, variables[k], 1.0))
        entries += [(len(bounds), variables[k], 1.0), (len(bounds), nodes, -float(kind.room[place]))]
        bounds.append(0.0)
    for name, free in relaxation.free.items():
        needs = [(k, kind.needs[name]) for k, kind in users if name in kind.needs]
        if needs:
            largest = float(max(need for _, need in needs))
            entries += [(len(bounds), variables[k], need / largest) for k, need in needs]
            entries.append((len(bounds), nodes, -float(free[place]) / largest))
            bounds.append(0.0)
