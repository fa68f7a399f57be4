"""Changes of a pod or of the cluster that place the pod, single ones and pairs. Each is confirmed by a search
of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from msgspec import Struct

from moorage.cluster.helpful_changes import HelpfulChange, cost, sensible
from moorage.cluster.requirements import (
    Constraint,
    finer_constraints,
    request_constraints,
    runtime_class_constraints,
    term_constraints,
)

from .more_nodes import added_nodes, as_played
from .probe import Probe
from .rules import devices, selection, volumes
from .rules.all_rules import remedies

# ---- single changes ----------------------------------------------------------------------------------------


def find_changes(probe: Probe) -> list[HelpfulChange]:
    """Find the single changes that place the pod, those that ask for the least first."""
    pod = probe.pod
    changes = [*volumes.changes(probe), *selection.loosened(probe), *selection.untainted(probe)]
    listed = (request_constraints(probe.resources), term_constraints(pod), finer_constraints(pod))
    for constraint in chain(*listed, runtime_class_constraints(probe.runtime_class)):
        changes += remedies(probe, constraint)
    changes += [*selection.near_labels(probe), *selection.uncordons(probe), *selection.labels(probe)]
    changes += [*added_nodes(probe), *devices.changes(probe)]
    changes = sensible([each for change in changes for each in as_played(probe, change)], _amount)
    return sorted(changes, key=partial(cost, waiting=len(probe.waiting)))


def _amount(change: HelpfulChange) -> float:
    return change.amount


# ---- labels ------------------------------------------------------------------------------------------------


# ---- pairs of changes, where no single one places the pod --------------------------------------------------

MOST_FIRST = 12
"""Maximum number of constraints that are tried as the first of two."""
MOST_PAIRS = 5
"""Maximum number of pairs that are kept."""


class ChangePair(Struct, frozen=True):
    """Two changes that together place the pod.

    Attributes
    ----------
    first, second : Change
        In the order of `Kind`.
    feasible_nodes : int
        Number of feasible nodes after both.
    """

    first: HelpfulChange
    second: HelpfulChange
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
            first, second = sorted((pair.first, pair.second), key=lambda each: (each.kind.rank, each.text))
            ordered = ChangePair(first, second, pair.feasible_nodes)
            pairs.setdefault(ordered.text, ordered)
    listed = sensible(list(pairs.values()), lambda pair: max(pair.first.amount, pair.second.amount))
    return sorted(listed, key=_cost)[:MOST_PAIRS]


def _cost(pair: ChangePair) -> tuple[object, ...]:
    ranks = sorted((pair.first.rank, pair.second.rank), reverse=True)
    return (*ranks, pair.first.amount + pair.second.amount, -pair.feasible_nodes, pair.text)


def _pairs(probe: Probe, constraint: Constraint) -> Iterator[ChangePair]:
    """Yield the pairs whose first change loosens a constraint."""
    loose = Probe(probe.engine, constraint.drop(probe.pod), probe.kinds)
    for second in find_changes(loose):
        with probe.changed(second.edits) as pod:
            for first in remedies(Probe(probe.engine, pod, probe.kinds), constraint):
                yield ChangePair(first, second, first.feasible_nodes)
