"""How few new nodes could do: packings, lower bounds, and what to know where pods still lack a place."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage.cluster import PodScheduler
from moorage.cluster.amounts import compared
from moorage.cluster.requirements import POD_TERMS, hard_spreads, pod_terms
from moorage.engine.plugins.node_resources import INSUFFICIENT
from moorage.errors import examples, first_of, number_of
from moorage.kube import Node, Pod
from moorage.kube.model.node import HOSTNAME, ZONE
from moorage.kube.model.pod import PodSpec
from moorage.lazy import NamedTuple

from .asked_pods import Counts, number_that_fits
from .bounds.linear_program import Rows, is_installed, solve
from .bounds.placement_bound import PodKind, Relaxation, constrain

# ---- lower bounds ------------------------------------------------------------------------------------------

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


# ---- packings, first fit in the order of an autoscaler -----------------------------------------------------


class Packing(Struct, frozen=True):
    """Pods on nodes, as far as resources and lasting filters go.

    Attributes
    ----------
    new : list of int
        The places of the templates in the relaxation.
    counts : list of int
        New nodes of each template.
    origin : (nodes,) int array
        Of each node: its place in the relaxation, or that of the template of a new one.
    loads : list of (PodKind, (nodes,) int64 array)
        How many pods of a kind each node gets.
    """

    new: list[int]
    counts: list[int]
    origin: npt.NDArray[np.intp]
    loads: list[tuple[PodKind, Counts]]


def pack(relaxation: Relaxation, new: Sequence[int], least: int) -> Packing | None:
    """Return the packing with the fewest new nodes of those that some orders of the kinds lead to.

    Parameters
    ----------
    new : sequence of int
        The places of the templates: of one new node of each.
    least : int
        No fewer new nodes are enough, so that a packing with as many ends the search.

    Returns
    -------
    Packing or None
        None where a pod has no place in any of them.
    """
    best: Packing | None = None
    for order in _orders(relaxation, new):
        packing = _first_fit(relaxation, new, order)
        if packing is not None and (best is None or sum(packing.counts) < sum(best.counts)):
            best = packing
        if best is not None and sum(best.counts) <= least:
            break
    return best


def _orders(relaxation: Relaxation, new: Sequence[int]) -> Iterator[list[PodKind]]:
    """Yield orders of the kinds, the largest first, by shares of what is free on the largest new nodes: first
    by cpu and memory together, as cluster-autoscaler v1.36 sorts them (decreasing_pod_orderer.go), then by
    the largest share, and by each resource. Kinds that no new node takes come first."""
    size = {name: int(free[new].max(initial=0)) for name, free in relaxation.free.items()}

    def share(kind: PodKind, name: str) -> float:
        return kind.needs.get(name, 0) / size[name] if size[name] else 0.0

    def both(kind: PodKind) -> float:
        return sum(share(kind, name) for name in ("cpu", "memory") if name in size)

    def largest(kind: PodKind) -> float:
        return max((share(kind, name) for name in size), default=0.0)

    scores: list[Callable[[PodKind], float]] = [both, largest, *(partial(share, name=name) for name in size)]
    for score in scores:
        yield sorted(relaxation.kinds, key=lambda kind: (bool(kind.room[new].any()), -score(kind)))


def _first_fit(relaxation: Relaxation, new: Sequence[int], order: Sequence[PodKind]) -> Packing | None:
    """Put the pods of one kind after the other on the first nodes with room, and on as many new ones as the
    rest needs, of the template that takes the most of them."""
    origin = np.setdiff1d(np.arange(len(relaxation.rows)), new)
    free = {name: values[origin] for name, values in relaxation.free.items()}
    counts, loads = [0] * len(new), list[tuple[PodKind, Counts]]()
    for kind in order:
        room = number_that_fits(free, kind.needs, kind.room[origin])
        load = np.clip(kind.count - (np.cumsum(room) - room), 0, room)
        left = kind.count - int(load.sum())
        if left:
            rooms = np.minimum(kind.room[new], left)
            if not rooms.any():
                return None
            best = int(np.argmax(rooms))
            more = np.full(-(-left // int(rooms[best])), rooms[best])
            more[-1] -= more.sum() - left
            counts[best] += len(more)
            origin = np.append(origin, np.full(len(more), new[best]))
            load = np.append(load, more)
            free = {
                name: np.append(free[name], values[origin[-len(more) :]])
                for name, values in relaxation.free.items()
            }
        for name, need in kind.needs.items():
            free[name] -= load * need
        loads.append((kind, load))
    return Packing(list(new), counts, origin, loads)


# ---- why pods still lack a place ---------------------------------------------------------------------------

MOST = 5
"""Maximum number of domains that are named."""


def missing_domains(pods: Iterable[Pod], templates: Iterable[Node], nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the topologies of pods without a place that have domains which no template is in.

    Parameters
    ----------
    templates : iterable of Node
        New nodes, one of each template.

    Yields
    ------
    str
        A sentence for each topology.
    """
    keys = dict.fromkeys(key for pod in pods for key in _hard_topologies(pod.spec) if key != HOSTNAME)
    present = [node.metadata.labels for node in nodes]
    labels_of_new = [node.metadata.labels for node in templates]
    for key in keys:
        domains = {labels[key] for labels in present if key in labels}
        if missing := sorted(domains - {labels.get(key, "") for labels in labels_of_new}):
            where = f"{'zone' if key == ZONE else key}={missing[0]}"
            of = f"No template is in {key} {examples(missing, MOST)}, on which pods without a place depend"
            yield f"{of}; --like NODE,{where} adds one."


def _hard_topologies(spec: PodSpec) -> Iterator[str]:
    yield from (spread.topology_key for spread in hard_spreads(spec))
    for path in POD_TERMS.values():
        yield from (term.topology_key for term in pod_terms(spec, path))


def share_of_daemons(
    scheduler: PodScheduler, new_nodes: Mapping[str, Node], reasons: Iterable[str]
) -> Iterator[str]:
    """Yield how much of new nodes DaemonSets take, of the resources that pods without a place lack.

    Parameters
    ----------
    scheduler : Scheduler
        With the new nodes, and on them the pods of DaemonSets alone.
    new_nodes : mapping of str to Node
        A new node by the name of its template.
    reasons : iterable of str
        Why pods have no place.

    Yields
    ------
    str
        A sentence for each resource, and for the nodes that are alike in it.
    """
    table, texts, alike = scheduler.table, list(reasons), defaultdict[str, list[str]](list)
    for name, node in new_nodes.items():
        row = table.find_row(node.name)
        for resource in ("cpu", "memory", *sorted(table.allocatable.keys() - {"cpu", "memory", "pods"})):
            taken = int(table.column("requested", resource)[row])
            lacks = re.compile(rf"{INSUFFICIENT}{re.escape(resource)}(?![\w./-]*\w)")  # no longer name
            if taken and any(map(lacks.search, texts)):
                room = int(table.column("allocatable", resource)[row])
                share, whole = compared(resource, taken, room)
                alike[f"DaemonSets take {share} of the {whole} {resource} of a new node like"].append(name)
    yield from (f"{text} {first_of(names, 3)}." for text, names in alike.items())
