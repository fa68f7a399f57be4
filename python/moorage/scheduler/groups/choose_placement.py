"""The choice among the placements of a group: each is tried, and the best of those that suit is taken.

kube-scheduler v1.36, schedule_one_podgroup.go podGroupSchedulingPlacementAlgorithm; v1.37,
algorithm_podgroup.go compositePodGroupSchedulingPlacementAlgorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from moorage.framework import Assignments, Placement
from moorage.framework.runtime.placements import placements_to_find, score_placements
from moorage.objects import AnyGroup, Pod
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.scheduling_context import SchedulingContext

NO_PLACEMENTS = "no feasible placements found"
CANNOT_BE_SATISFIED = "minCount ({}) cannot be satisfied: {} scheduled, {} remaining"
NONE_AVAILABLE = "0/{} placements are available, first placement status: {}"


class AnyMembers(Protocol):
    """What `Members` and `CompositeMembers` have in common."""

    context: SchedulingContext
    engine: Engine
    pods: Sequence[Pod]
    scheduled: Sequence[Pod]

    @property
    def group(self) -> AnyGroup | None: ...

    @property
    def engines(self) -> list[Engine]: ...

    @property
    def carry_terms(self) -> bool: ...

    def read_terms(self) -> None: ...

    def engines_in_cycle(self, evicts: bool) -> AbstractContextManager[None]: ...


class AnyAttempt(Protocol):
    """What `GroupAttempt` and `CompositeAttempt` have in common."""

    error: str
    reason: str
    nominates: bool

    @property
    def rows(self) -> npt.NDArray[np.int32]: ...

    @property
    def waits(self) -> bool: ...

    @property
    def succeeded(self) -> bool: ...

    @property
    def is_feasible(self) -> bool: ...

    @property
    def message(self) -> str: ...


A = TypeVar("A", bound=AnyAttempt)


def decide_among(
    members: AnyMembers,
    placements: Sequence[Placement],
    commit: bool,
    try_in: Callable[[Placement, bool], A],
    nothing: A,
) -> A:
    """Place the pods of a group in the best of some placements.

    Parameters
    ----------
    members : Members or CompositeMembers
    placements : sequence of Placement
    commit : bool
        Whether the placed pods stay if the group succeeds.
    try_in : callable
        Places the pods in one placement; takes whether they stay.
    nothing : GroupAttempt or CompositeAttempt
        An attempt at nothing, returned where there are no placements.

    Returns
    -------
    GroupAttempt or CompositeAttempt
    """
    if not placements:
        nothing.reason = NO_PLACEMENTS
        return nothing
    if len(placements) == 1:
        attempt = try_in(placements[0], commit)
        if not attempt.is_feasible:
            attempt.reason = NONE_AVAILABLE.format(1, attempt.message)
        return attempt
    return _decide_in_best(members, placements, commit, try_in)


def _decide_in_best(
    members: AnyMembers,
    placements: Sequence[Placement],
    commit: bool,
    try_in: Callable[[Placement, bool], A],
) -> A:
    """Try the placements in order, and place the group in the feasible placement with the best score."""
    rotation = members.context.rotation
    nodes = sum(len(placement.rows) for placement in placements)
    wanted = placements_to_find(members.context.percentage_of_placements, len(placements), nodes)
    first: A | None = None
    feasible: list[tuple[Placement, int, A]] = []
    for placement in placements:
        start, attempt = rotation.start, try_in(placement, False)
        if attempt.error:
            return attempt
        first = first or attempt
        if attempt.is_feasible:
            feasible.append((placement, start, attempt))
            if len(feasible) == wanted:
                break
    if not feasible:
        assert first is not None
        first.reason = NONE_AVAILABLE.format(len(placements), first.message)
        return first
    placement, start, attempt = feasible[_best(members, feasible)]
    if not commit or attempt.waits:
        return attempt
    after, rotation.start = rotation.start, start
    done = try_in(placement, True)
    rotation.start = after
    return done


def _best(members: AnyMembers, feasible: Sequence[tuple[Placement, int, A]]) -> int:
    """Return the index of the placement with the highest score. Ties are broken as among nodes."""
    if len(feasible) == 1:
        return 0
    each = [
        Assignments(placement, members.pods, attempt.rows, len(members.scheduled))
        for placement, _, attempt in feasible
    ]
    assert members.group is not None
    totals = score_placements(members.engine.profile, members.group, each)
    with members.context.cache.transaction():  # restores the random state, for placing the pods again
        return members.engine.decider.pick(totals)
