"""Whether a group fits, by the number of its pods that the nodes have room for.

Where all pods of a group are equal and the filters read the row of the node alone, each node takes a number
of them that does not depend on the order of placements. Then the sum over all nodes tells which groups of a
tree succeed; `LowerUnits` counts it while pods come and go.
"""

from __future__ import annotations

from typing import NamedTuple

from .composite_attempt import CompositeMembers
from .group_attempt import Members
from .group_placement import places_by_topology


class Taken(NamedTuple):
    """What becomes of a group that finds room for a number of pods.

    Attributes
    ----------
    succeeds : bool
        Whether it can be bound; see `GroupAttempt.succeeded`.
    counts : bool
        Whether it has what it needs, with the pods placed before.
    pods : int
        Number of pods that are placed for good.
    """

    succeeds: bool
    counts: bool
    pods: int


def taken_by(members: Members | CompositeMembers, room: int) -> Taken:
    """Return what becomes of a group, as `decide_tree` decides.

    Parameters
    ----------
    members : Members or CompositeMembers
        Of equal pods.
    room : int
        Number of such pods that the nodes have room for.

    Returns
    -------
    Taken
    """
    if isinstance(members, Members):
        there, placed = len(members.scheduled), min(len(members.pods), room)
        succeeds = placed > 0 and there + placed >= members.minimum
        return Taken(succeeds, succeeds or there >= max(1, members.minimum), placed if succeeds else 0)
    satisfied, pods, remaining = 0, 0, len(members.children)
    for child in members.children:
        if satisfied + remaining < members.minimum:
            break
        taken = taken_by(child, room - pods)
        satisfied, pods, remaining = satisfied + taken.counts, pods + taken.pods, remaining - 1
    counts = satisfied >= members.minimum
    return Taken(counts and pods > 0, counts, pods if counts else 0)


def decides_by_room(members: Members | CompositeMembers) -> bool:
    """Return whether the room on the nodes tells if a group fits, now and after pods have left.

    Parameters
    ----------
    members : Members or CompositeMembers

    Returns
    -------
    bool
        False where pods differ, filters read other rows, pods are nominated, or plugins outside the core take
        part.
    """
    engine = members.engine
    if members.context.nominator or members.engines != [engine] or not places_by_topology(engine):
        return False
    batches = [leaf.batch for leaf in leaves_of(members)]
    kinds = {target for batch in batches for target in batch.targets()}
    return len(kinds) == 1 and all(engine.placer.reads_rows_alone(batch, 0, len(batch)) for batch in batches)


def leaves_of(members: Members | CompositeMembers) -> list[Members]:
    """Return the pod groups of a tree that have pods to place."""
    return [one for one in ([members] if isinstance(members, Members) else members.leaves()) if one.pods]
