"""Pairs of changes that place a pod which no single change places. Each is confirmed by a search of the
engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from moorage.engine.requirements.constraint import Constraint

from .changes import as_stored, find_changes
from .constraints.offered_change import KINDS, Change
from .constraints.remedies import remedies
from .probe import Probe

MOST_FIRST = 12
"""Maximum number of constraints that are tried as the first of two."""
MOST_PAIRS = 5
"""Maximum number of pairs that are kept."""


@dataclass(frozen=True, slots=True)
class ChangePair:
    """Two changes that together place the pod.

    Attributes
    ----------
    first, second : Change
        In the order of `KINDS`.
    feasible_nodes : int
        Number of feasible nodes after both.
    """

    first: Change
    second: Change
    feasible_nodes: int

    @property
    def text(self) -> str:
        """Both changes in words."""
        return f"{self.first.text}, and {self.second.text}"


def find_pairs(probe: Probe, conflicts: list[list[Constraint]]) -> list[ChangePair]:
    """Find pairs of changes that place the pod.

    The first change loosens a constraint of a conflict, as every remedy has to; the second one is a single
    change of the loosened pod. Where the first one lowers a request, it lowers it no further than needed.

    Parameters
    ----------
    probe : Probe
        Of a pod that no single change places.

    Returns
    -------
    list of ChangePair
        Those that lower or add before those that drop a constraint, at most `MOST_PAIRS`.
    """
    if len(conflicts) > 2:  # each has to be resolved
        return []
    firsts = [constraint for conflict in conflicts for constraint in conflict][:MOST_FIRST]
    pairs: dict[str, ChangePair] = {}
    for constraint in firsts:
        for pair in _pairs(probe, constraint):
            first, second = sorted((pair.first, pair.second), key=lambda each: (KINDS[each.kind], each.text))
            ordered = ChangePair(first, second, pair.feasible_nodes)
            pairs.setdefault(ordered.text, ordered)
    return sorted(pairs.values(), key=_cost)[:MOST_PAIRS]


def _cost(pair: ChangePair) -> tuple[object, ...]:
    kinds = sorted((KINDS[pair.first.kind], KINDS[pair.second.kind]), reverse=True)
    return (*kinds, pair.first.amount + pair.second.amount, -pair.feasible_nodes, pair.text)


def _pairs(probe: Probe, constraint: Constraint) -> Iterator[ChangePair]:
    """Yield the pairs whose first change loosens a constraint."""
    loose = Probe(probe.engine, constraint.drop(probe.pod))
    for second in find_changes(loose):
        with _made(probe, second) as changed:
            for made in remedies(changed, constraint):
                first = as_stored(probe, made)
                if first is not None:
                    yield ChangePair(first, second, first.feasible_nodes)


@contextmanager
def _made(probe: Probe, change: Change) -> Iterator[Probe]:
    """Make a change to the original pod or to the cluster, inside the context."""
    pod = probe.pod if change.edit is None else change.edit(probe.pod)
    if change.node is None:
        made = probe.assuming(change.claims, change.slices)
    else:
        made = probe.changed(change.node, change.claims, change.slices)
    with made:
        yield Probe(probe.engine, pod)
