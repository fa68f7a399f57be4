"""Packings: pods of few kinds on nodes there are and on new ones, first fit in the order of an autoscaler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from ..bounds.relaxation import Counts, PodKind, Relaxation


@dataclass(frozen=True, slots=True)
class Packing:
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
        found = _first_fit(relaxation, new, order)
        if found is not None and (best is None or sum(found.counts) < sum(best.counts)):
            best = found
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
        room = kind.room[origin]
        for name, need in kind.needs.items():
            np.minimum(room, free[name] // need, out=room)
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
