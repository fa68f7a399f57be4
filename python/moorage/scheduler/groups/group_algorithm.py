"""The algorithm of pod group cycles: schedules the pods of a group in order, in one placement or several.

kube-scheduler v1.36, schedule_one_podgroup.go: a member that fits nowhere is passed over, and the group
succeeds if Permit lets any of its pods go on. A group bound to a topology is tried in each of its placements,
and goes to the one with the best score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moorage.cache import Transaction
from moorage.framework.plugin.interface import Assignments, Placement, PlacementGeneratePlugin
from moorage.framework.runtime.placements import make_placements, placements_to_find, score_placements
from moorage.objects.model.pod_group import PodGroup

from .group_attempt import Attempt, Members

if TYPE_CHECKING:
    from moorage.scheduler.scheduling_context import SchedulingContext

NO_PLACEMENTS = "no feasible placements found"
NONE_AVAILABLE = "0/{} placements are available, first placement status: {}"


def decide(members: Members, keep: bool = True) -> Attempt:
    """Place the pods of a group; undo that unless the group succeeds and `keep` is true. The rotation
    advances in any case. Raises StatusError if a plugin for placements fails."""
    group, profile = members.group, members.engine.profile
    if group is None or not (
        members.engine.handle.places_groups or (group.topology_keys and profile.at(PlacementGeneratePlugin))
    ):
        return try_members(members, keep=keep)
    parent = Placement("", members.context.view_rows())
    placements = make_placements(profile, group, members.scheduled, parent)
    if not placements:
        attempt = Attempt(members)
        attempt.message = NO_PLACEMENTS
        return attempt
    if len(placements) == 1:
        attempt = try_members(members, placements[0], keep)
        if not attempt.is_feasible:
            attempt.message = NONE_AVAILABLE.format(1, attempt.message)
        return attempt
    return _decide_in_best(members, group, placements, keep)


def try_members(members: Members, placement: Placement | None = None, keep: bool = True) -> Attempt:
    """Place the pods of a group on the nodes of one placement, or on all nodes; otherwise as `decide`."""
    is_part = placement is not None and len(placement.rows) < members.context.cache.state.view.size
    for engine in members.engines:
        engine.search.search_in(placement.rows if placement is not None and is_part else None)
        if is_part:
            engine.search.states.open_scope()  # failures known are about other nodes
    attempt = Attempt(members)
    with _all_or_nothing(members.context) as transaction:
        try:
            attempt.place()
            if attempt.succeeded and keep:
                transaction.commit()
        finally:
            attempt.unreserve()
    if transaction.committed:
        attempt.enter()
    members.context.rotation.start = attempt.next_start
    return attempt


@contextmanager
def _all_or_nothing(context: SchedulingContext) -> Iterator[Transaction]:
    """A transaction of the cache that includes nominations."""
    nominator = context.handle.nominator
    saved = nominator.save()
    with context.cache.transaction() as transaction:
        try:
            yield transaction
        finally:
            if not transaction.committed:
                nominator.undo(saved)


def _decide_in_best(
    members: Members, group: PodGroup, placements: Sequence[Placement], keep: bool
) -> Attempt:
    """Try the placements, and place the group in the feasible one with the best score."""
    rotation = members.context.rotation
    nodes = sum(len(placement.rows) for placement in placements)
    wanted = placements_to_find(members.context.percentage_of_placements, len(placements), nodes)
    first: Attempt | None = None
    found: list[tuple[Placement, Attempt, int]] = []
    for placement in placements:
        start = rotation.start
        attempt = try_members(members, placement, keep=False)
        if attempt.error:
            return attempt
        first = first or attempt
        if attempt.is_feasible:
            found.append((placement, attempt, start))
            if len(found) == wanted:
                break
    if not found:
        attempt = first or Attempt(members)
        attempt.message = NONE_AVAILABLE.format(len(placements), attempt.message)
        return attempt
    placement, attempt, start = found[_best(members, group, found)]
    if not keep or attempt.waits:
        return attempt
    after, rotation.start = rotation.start, start
    attempt = try_members(members, placement)
    rotation.start = after
    return attempt


def _best(members: Members, group: PodGroup, found: Sequence[tuple[Placement, Attempt, int]]) -> int:
    """Index of the placement with the highest score; ties as among nodes."""
    if len(found) == 1:
        return 0
    each = [
        Assignments(placement, members.pods, attempt.rows, len(members.scheduled))
        for placement, attempt, _ in found
    ]
    totals = score_placements(members.engine.profile, group, each)
    with members.context.cache.transaction():  # draws no lots from the pods that are placed again
        return members.engine.decider.pick(totals)
