"""How much can be placed at most: the relaxation of a placement, by classes of pods and pools of nodes, and
its linear program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage._core.state.pod_spec import pinned_node
from moorage._core.state.pod_terms import TermKind, read_terms
from moorage.cluster import PodScheduler
from moorage.document import Count, Document
from moorage.errors import InputError
from moorage.grouped import grouped
from moorage.kube.model.pod import NodeSelector, Pod
from moorage.table import Table, TabularDocument

from ..asked_pods import (
    FITS,
    LASTING,
    Counts,
    checked_needs,
    free_amounts,
    node_verdicts,
    number_that_fits,
    pending_pods,
    store_with_claims,
    without_evictions,
)
from .linear_program import Floats, Rows, solve

# ---- the relaxation ----------------------------------------------------------------------------------------

ANTI_AFFINITY = "InterPodAffinity"
MOST = FIRST = 2**31 - 1
"""More pods than there are; and the highest priority."""
POOLED = "nodes of a pool share their free resources"
FRACTIONS = "parts of pods are placed"
ASSUMPTIONS = (POOLED, FRACTIONS)


@dataclass(frozen=True, slots=True)
class PodKind:
    """Pods that are alike for the relaxation, but for the nodes that they are pinned to.

    Attributes
    ----------
    needs : dict of str to int
        Requests by resource, with 1 for ``pods``.
    room : (nodes,) int64 array
        How many of them fit on each node at most; 0 where none does. Where they are pinned to nodes, as pods
        of DaemonSets are, no more than are pinned to the node.
    """

    pods: list[Pod]
    weight: float
    needs: dict[str, int]
    room: Counts

    @property
    def count(self) -> int:
        """Number of pods."""
        return len(self.pods)


class Relaxation(Struct, frozen=True):
    """Pods and nodes in few kinds.

    Attributes
    ----------
    rows : (nodes,) int32 array
        Rows of the nodes.
    pool : (nodes,) int array
        Pool of each node: those of one pool take the same kinds.
    free : dict of str to (nodes,) int64 array
        What each node has free of each resource that a kind needs; never negative.
    relaxed : tuple of str
        What is left out: the assumptions, and the filters whose rejections are not counted.
    """

    rows: npt.NDArray[np.int32]
    kinds: list[PodKind]
    pool: npt.NDArray[np.intp]
    free: dict[str, Counts]
    relaxed: tuple[str, ...]

    def pools(self) -> int:
        """Return the number of pools."""
        return int(self.pool.max(initial=-1)) + 1

    def restricted(self, which: npt.NDArray[np.bool_]) -> Relaxation:
        """Return the relaxation over some of the nodes.

        Parameters
        ----------
        which : (nodes,) bool array
        """
        kinds = [replace(kind, room=kind.room[which]) for kind in self.kinds]
        free = {name: values[which] for name, values in self.free.items()}
        return Relaxation(self.rows[which], kinds, self.pool[which], free, self.relaxed)

    def pooled(self, values: Counts) -> Counts:
        """Return the sum of values of nodes for each pool."""
        out = np.zeros(self.pools(), dtype=np.int64)
        np.add.at(out, self.pool, values)
        return out


def relax(scheduler: PodScheduler, pods: Sequence[Pod], weights: Sequence[float]) -> Relaxation:
    """Return the relaxation of the placement of pods on the nodes of a scheduler, as they are now. No pod is
    evicted.
    """
    classes = scheduler.cache.state.classes
    with scheduler.cache.lock:
        rows = np.sort(scheduler.context.view_rows())
        pods_of_kind = grouped(
            ((classes.intern(pod), float(weight), pod.spec.scheduler_name), pod)
            for pod, weight in zip(pods, weights, strict=True)
        )
        needs = {key: checked_needs(scheduler, members[0]) for key, members in pods_of_kind.items()}
        free = {
            name: free_amounts(scheduler, name)[rows]
            for name in dict.fromkeys(name for each in needs.values() for name in each)
        }
        relaxed: set[str] = set()
        kinds = []
        for key, members in pods_of_kind.items():
            room = np.minimum(_room(scheduler, members[0], rows, relaxed), _pinned(scheduler, members, rows))
            kinds.append(PodKind(members, key[1], needs[key], number_that_fits(free, needs[key], room)))
    fits = np.array([kind.room > 0 for kind in kinds]).reshape(len(kinds), len(rows))
    _, pool = np.unique(fits, axis=1, return_inverse=True)
    texts = [f"{plugin}: its rejections are not counted" for plugin in sorted(relaxed)]
    return Relaxation(rows, kinds, pool.reshape(-1), free, (*ASSUMPTIONS, *texts))


def _room(scheduler: PodScheduler, pod: Pod, rows: npt.NDArray[np.int32], relaxed: set[str]) -> Counts:
    """Return a bound for the pods of a kind on each node without regard to resources and pins; note the
    filters whose rejections may begin or end while pods are placed."""
    classes, engine = scheduler.cache.state.classes, scheduler.context.engine_of(pod)
    verdicts = node_verdicts(scheduler, _freed(pod))
    relaxed.update(verdicts.filters - LASTING)
    has_ports = "NodePorts" in engine.profile.filter_names and classes.shape_of(classes.intern(pod)).ports
    out = np.full(len(rows), 1 if has_ports else MOST, dtype=np.int64)
    if ANTI_AFFINITY in verdicts.filters:
        # required anti-affinity keeps a second pod like this one away
        terms, _ = read_terms(pod)
        required = terms[TermKind.ANTI_AFFINITY]
        labels, namespace = pod.metadata.labels, pod.namespace
        own = [term for term in required if namespace in term.namespaces and term.selector.matches(labels)]
        for term in own:
            np.minimum(out, 1, out=out, where=scheduler.table.label_column(term.topology_key)[rows] != 0)
    for kind in np.unique(verdicts.kinds[verdicts.kinds != FITS]).tolist():
        plugins = verdicts.statuses[kind].plugin.split()
        if plugins and LASTING.issuperset(plugins):
            out[np.searchsorted(rows, verdicts.rows[verdicts.kinds == kind])] = 0
        else:
            relaxed.update(plugins or ["PreFilter"])
    return out


def _pinned(scheduler: PodScheduler, pods: Sequence[Pod], rows: npt.NDArray[np.int32]) -> Counts:
    """Return how many pods of a kind are pinned to each node; `MOST` where they are not pinned."""
    if pinned_node(pods[0].spec) is None:
        return np.full(len(rows), MOST, dtype=np.int64)
    find_row, out = scheduler.cache.state.find_row, np.zeros(len(rows), dtype=np.int64)
    for name, count in Counter(pinned_node(pod.spec) for pod in pods).items():
        row = find_row(str(name))
        if row is not None:
            out[rows == row] = count
    return out


def _freed(pod: Pod) -> Pod:
    """Return a pod that asks for the same, but is pinned to no node, so that the filters judge it on every
    node, and goes before all nominated pods, whose nominations may end."""
    change, spec = msgspec.structs.replace, pod.spec
    if pinned_node(spec) is not None:
        affinity: Any = spec.affinity
        (term,) = affinity.node_affinity.required.node_selector_terms
        others = (change(term, match_fields=()),) if term.match_expressions else ()
        required = NodeSelector(node_selector_terms=others) if others else None
        of_nodes = change(affinity.node_affinity, required=required)
        spec = change(spec, affinity=change(affinity, node_affinity=of_nodes))
    return change(pod, spec=change(spec, priority=FIRST))


# ---- constraints -------------------------------------------------------------------------------------------


class Constraints(Struct, frozen=True):
    """The constraints of a relaxation, with one variable for each kind of pods and pool where they fit.

    Attributes
    ----------
    kind, pool : (variables,) int arrays
        Of each variable: how many pods of the kind are in the pool.
    upper : (variables,) float64 array
    rows : Rows
        First the number of pods of each kind, then one row for each of `limits`.
    scale : (limits,) float64 array
        What the amounts of a limit are divided by.
    scarce : list of str
        Of each variable: the resource that limits it by itself, because whole pods go to nodes; "" for none.
    """

    kind: npt.NDArray[np.intp]
    pool: npt.NDArray[np.intp]
    upper: Floats
    scarce: list[str]
    rows: Rows
    limits: list[tuple[int, str]]
    scale: Floats


def constrain(relaxation: Relaxation) -> Constraints:
    """Return the constraints of a relaxation."""
    kinds = relaxation.kinds
    rooms = [relaxation.pooled(kind.room) for kind in kinds]
    pairs = [(k, int(pool)) for k, room in enumerate(rooms) for pool in np.flatnonzero(room)]
    entries = [(k, at, 1.0) for at, (k, _) in enumerate(pairs)]
    bounds = [float(kind.count) for kind in kinds]
    limits: list[tuple[int, str]] = []
    scale: list[float] = []
    for name, free in relaxation.free.items():
        pooled = relaxation.pooled(free)
        for pool in range(relaxation.pools()):
            users = [(at, kinds[k].needs.get(name, 0)) for at, (k, g) in enumerate(pairs) if g == pool]
            largest = max((need for _, need in users), default=0)
            if largest:
                entries += [(len(bounds), at, need / largest) for at, need in users if need]
                bounds.append(float(pooled[pool]) / largest)
                limits.append((pool, name))
                scale.append(float(largest))
    rows = Rows.of([-np.inf] * len(bounds), bounds, entries)
    upper = np.array([min(kinds[k].count, rooms[k][pool]) for k, pool in pairs], dtype=np.float64)
    k_of, g_of = (np.array([pair[at] for pair in pairs], dtype=np.intp) for at in range(2))
    scarce = [_scarce(relaxation, kinds[k], pool, int(rooms[k][pool])) for k, pool in pairs]
    return Constraints(k_of, g_of, upper, scarce, rows, limits, np.array(scale))


def _scarce(relaxation: Relaxation, kind: PodKind, pool: int, room: int) -> str:
    """Return the resource of which the nodes of a pool have room for the fewest pods of a kind; "" where the
    pods are fewer, or something else leaves less room."""
    members = (relaxation.pool == pool) & (kind.room > 0)
    wholes = {name: int((relaxation.free[name][members] // need).sum()) for name, need in kind.needs.items()}
    name = min(wholes, key=wholes.__getitem__, default="")
    return name if name and room == wholes[name] < kind.count else ""


# ---- the bound ---------------------------------------------------------------------------------------------

TOLERANCE = 1e-6


class Price(Document, frozen=True):
    """What one more unit of a resource in a pool would add to the bound."""

    resource: str
    price: float
    """Added weight per unit (millicore, byte, or one), as long as nothing else binds. Where a node has no
    room for one more whole pod, the weight of the pod over what it requests."""
    nodes: tuple[str, ...]
    """The nodes of the pool: those that take the same kinds of pods."""


class Bound(TabularDocument, frozen=True, kw_only=True):
    """An upper bound of what can be placed, beside what the scheduler places: the answer of ``moorage plan
    bound``."""

    api_version: Literal["plan.moorage.dev/v1"] = "plan.moorage.dev/v1"
    kind: Literal["Bound"] = "Bound"
    pods: Count
    """Number of pods in question."""
    bound: float
    """Upper bound of the weight that can be placed without evictions; their number if each has weight 1."""
    placed: float
    """The weight that the scheduler places."""
    gap: float
    """How much more than the scheduler places could be placed at most, as a part of the bound."""
    prices: tuple[Price, ...]
    """The resources that bind, by pool, the highest price for all free units first."""
    relaxed: tuple[str, ...]
    """What the bound does not take into account."""
    skipped: dict[str, Count]
    """Number of pending pods that were left out, as the scheduler does not schedule them now, by reason."""

    def headline(self) -> str:
        """Return bound, placed weight and gap in one line."""
        return f"at most {self.bound:g} of {self.pods} pods; placed: {self.placed:g}, gap: {self.gap:.1%}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each resource that binds in a pool.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns resource, nodes (number), example (name of a node), price.
        """
        prices = self.prices[:limit]
        return Table(
            {
                "resource": [each.resource for each in prices],
                "nodes": np.array([len(each.nodes) for each in prices], dtype=np.int64),
                "example": [each.nodes[0] for each in prices],
                "price": np.array([each.price for each in prices], dtype=np.float64),
            }
        )


def bound(scheduler: PodScheduler, pods: Sequence[Pod] | None, weights: Sequence[float] | None) -> Bound:
    """Return an upper bound of what can be placed; see `Questions.bound`.

    Parameters
    ----------
    pods : sequence of Pod or None
        None for the pending pods.
    weights : sequence of float or None
        None for 1 each.
    """
    scheduler.sync()
    pods, skipped = pending_pods(scheduler) if pods is None else (pods, {})
    values = [1.0] * len(pods) if weights is None else [float(weight) for weight in weights]
    if len(values) != len(pods) or any(not 0 <= value < float("inf") for value in values):
        raise InputError("weights must be a number of at least 0 for each pod")
    with scheduler.transaction():
        pods = store_with_claims(scheduler, pods)
        relaxation = relax(scheduler, pods, values)
        constraints = constrain(relaxation)
        costs = np.array([relaxation.kinds[k].weight for k in constraints.kind], dtype=np.float64)
        solution = solve(costs, constraints.upper, constraints.rows)
        assert solution is not None  # nothing placed satisfies all rows
        top = min(solution.objective + TOLERANCE, sum(values))
        result = scheduler.schedule_pods(without_evictions(pods))
        placed = float(np.delete(np.array(values), [*result.failures]).sum())
    if all(value == int(value) for value in values):
        top = float(np.floor(top))
    prices = _prices(scheduler, relaxation, _prices_by_limit(relaxation, constraints, costs, solution.prices))
    return Bound(
        pods=len(pods),
        bound=top,
        placed=placed,
        gap=(top - placed) / top if top else 0.0,
        prices=prices,
        relaxed=relaxation.relaxed,
        skipped=skipped,
    )


def _prices_by_limit(
    relaxation: Relaxation, constraints: Constraints, costs: Floats, duals: Floats
) -> dict[tuple[int, str], float]:
    """Return the price of one unit by pool and resource: the dual price of its row, or what the number of
    whole pods that it limits costs, if that is more."""
    price_by_limit: dict[tuple[int, str], float] = {}
    of_limits = duals[len(relaxation.kinds) :]
    for limit, price, scale in zip(constraints.limits, of_limits, constraints.scale, strict=True):
        if price > TOLERANCE:
            price_by_limit[limit] = float(price / scale)
    rows, reduced = constraints.rows, costs.copy()
    np.subtract.at(reduced, rows.column, rows.value * duals[rows.row])
    for at in np.flatnonzero(reduced > TOLERANCE):
        resource, kind = constraints.scarce[at], relaxation.kinds[constraints.kind[at]]
        if resource:
            limit = int(constraints.pool[at]), resource
            price_by_limit[limit] = max(
                price_by_limit.get(limit, 0.0), float(reduced[at]) / kind.needs[resource]
            )
    return price_by_limit


def _prices(
    scheduler: PodScheduler, relaxation: Relaxation, by_limit: dict[tuple[int, str], float]
) -> tuple[Price, ...]:
    """Return the prices, the one for all free units first that is the highest."""
    priced: list[tuple[float, Price]] = []
    for (pool, resource), price in by_limit.items():
        members = np.flatnonzero(relaxation.pool == pool)
        names = tuple(scheduler.cache.state.view.names_of(relaxation.rows[members]))
        worth = price * float(relaxation.free[resource][members].sum())
        priced.append((worth, Price(resource, price, names)))
    priced.sort(key=lambda each: (-each[0], each[1].resource, each[1].nodes))
    return tuple([price for _, price in priced])
