"""Attempts to place the pods of a composite pod group: its groups in order, the oldest first.

kube-scheduler v1.37, algorithm_podgroup.go compositePodGroupSchedulingDefaultAlgorithm: a group that does
not succeed is passed over, until too few are left. Groups that have succeeded are undone with the composite
group. A group that is bound to a topology chooses among the nodes of the placement that the group above it is
tried in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby
from typing import cast

import numpy as np
import numpy.typing as npt

from moorage.framework import NominatingInfo, Placement
from moorage.framework.plugin.group_index import GroupTree, is_composite
from moorage.framework.plugin.lazy_attribute import lazy_attribute
from moorage.framework.runtime.placements import make_placements
from moorage.objects import AnyGroup, Pod, PodGroup, UnitKey, group_of
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Failure
from moorage.scheduler.placing.binding_cycle import Started
from moorage.scheduler.scheduling_context import SchedulingContext

from .choose_placement import CANNOT_BE_SATISFIED, AnyMembers, decide_among
from .group_attempt import (
    GroupAttempt,
    GroupResult,
    Members,
    all_or_nothing,
    counts_members,
    decide,
    in_cycle,
)
from .placement_memory import PlacementMemory

NO_PODS = "no pods were schedulable"
OF_COMPOSITE = "composite pod group {} is unschedulable: {}"
CHILD_FAILED = "composite pod group evaluation failed due to child error: {}"

ByLeaf = dict[UnitKey, list[int]]
"""Pods of a tree by pod group, as indexes."""


leaf_of = cast("Callable[[Pod], UnitKey]", group_of)
"""Returns the pod group of a pod that has one."""


def by_leaf(pods: Sequence[Pod]) -> ByLeaf:
    """Return the pods of each pod group, as indexes in order.

    Parameters
    ----------
    pods : sequence of Pod
        All have a group.

    Returns
    -------
    dict of UnitKey to list of int
    """
    found: ByLeaf = {}
    for at, leaf in enumerate(map(leaf_of, pods)):
        found.setdefault(leaf, []).append(at)
    return found


def in_order(leaves: Sequence[UnitKey], pods: Sequence[Pod]) -> list[int]:
    """Return the indexes of pods, pod group by pod group.

    Parameters
    ----------
    leaves : sequence of UnitKey
        The pod groups; those of other pods come last.
    pods : sequence of Pod
        All have a group.

    Returns
    -------
    list of int
    """
    if [leaf for leaf, _ in groupby(map(leaf_of, pods))] == list(leaves):
        return list(range(len(pods)))
    found = by_leaf(pods)
    ordered = [at for leaf in leaves for at in found.pop(leaf, ())]
    return ordered + sorted(at for others in found.values() for at in others)


class CompositeMembers:
    """The pods of a composite pod group that are to be placed, group by group.

    Parameters
    ----------
    context : SchedulingContext
    engine : Engine
        Of the profile of the pods.
    tree : GroupTree
    pods, scheduled : sequence of Pod
        Pending members, and those that have a node.

    Attributes
    ----------
    minimum : int
        Number of groups that have to succeed.
    children : list of Members or CompositeMembers
    indexes : list of list of int
        By child, the indexes of its pods in `pods`.
    """

    def __init__(
        self,
        context: SchedulingContext,
        engine: Engine,
        tree: GroupTree,
        pods: Sequence[Pod],
        scheduled: Sequence[Pod],
    ) -> None:
        self.context, self.engine, self.group = context, engine, tree.group
        self.pods, self.scheduled = pods, scheduled
        self.minimum = tree.minimum if counts_members(engine) else 1
        pending, placed = by_leaf(pods), by_leaf(scheduled)
        self.children: list[Members | CompositeMembers] = []
        self.indexes: list[list[int]] = []
        for child in tree.children:
            at = [index for leaf in child.leaves for index in pending.get(leaf, ())]
            before = [scheduled[index] for leaf in child.leaves for index in placed.get(leaf, ())]
            self.indexes.append(at)
            self.children.append(_members(context, engine, child, [pods[index] for index in at], before))

    @lazy_attribute
    def engines(self) -> list[Engine]:
        """The engines that schedule the members."""
        found = {self.engine: None}
        for child in self.children:
            found |= dict.fromkeys(child.engines)
        return list(found)

    @property
    def carry_terms(self) -> bool:
        """Whether affinity terms of members placed first may concern the other members."""
        shape_of = self.context.cache.state.classes.shape_of
        leaves = [child for child in self.leaves() if child.pods]
        carried = any(shape_of(one).carried for leaf in leaves for one in leaf.batch.classes())
        return len(self.pods) > 1 and carried

    def leaves(self) -> Iterator[Members]:
        """Yield the members of each pod group."""
        for child in self.children:
            if isinstance(child, CompositeMembers):
                yield from child.leaves()
            else:
                yield child

    def read_terms(self) -> None:
        """Read the counters of all terms of the members."""
        for leaf in self.leaves():
            leaf.read_terms()

    def engines_in_cycle(self, evicts: bool) -> AbstractContextManager[None]:
        """Configure the engines for a block: no remembered failures, and no PostFilter.

        Parameters
        ----------
        evicts : bool
            Without effect: no pod of a composite group evicts others by itself.

        Returns
        -------
        context manager
        """
        return in_cycle(self.engines, False)


def _members(
    context: SchedulingContext, engine: Engine, tree: GroupTree, pods: Sequence[Pod], scheduled: Sequence[Pod]
) -> Members | CompositeMembers:
    if is_composite(tree.key):
        return CompositeMembers(context, engine, tree, pods, scheduled)
    assert tree.group is None or isinstance(tree.group, PodGroup)
    return Members(context, engine, tree.group, pods, scheduled, in_tree=True)


def succeeds_whole(tree: GroupTree, pending: Mapping[UnitKey, int], placed: Mapping[UnitKey, int]) -> bool:
    """Whether all groups of a tree that have pods to place would succeed if each of these pods were placed.

    Parameters
    ----------
    tree : GroupTree
    pending, placed : mapping of UnitKey to int
        Number of pods by pod group.

    Returns
    -------
    bool
    """
    if not is_composite(tree.key):
        return pending.get(tree.key, 0) + placed.get(tree.key, 0) >= tree.minimum
    succeed = 0
    for child in tree.children:
        if succeeds_whole(child, pending, placed):
            succeed += 1
        elif any(pending.get(leaf) for leaf in child.leaves):
            return False
    return succeed >= tree.minimum


def members_of(
    context: SchedulingContext,
    engine: Engine,
    group: AnyGroup | None,
    pods: Sequence[Pod],
    scheduled: Sequence[Pod],
) -> Members | CompositeMembers:
    """Return the pods of a group, or of a tree of groups.

    Parameters
    ----------
    context : SchedulingContext
    engine : Engine
        Of the profile of the pods.
    group : PodGroup or CompositePodGroup or None
        None is a group without a minimum.
    pods, scheduled : sequence of Pod
        Pending members, and those that have a node.

    Returns
    -------
    Members or CompositeMembers
    """
    if group is None or isinstance(group, PodGroup):
        return Members(context, engine, group, pods, scheduled)
    return CompositeMembers(context, engine, context.groups.tree(group.unit), pods, scheduled)


class CompositeAttempt:
    """One attempt to place the pods of a composite pod group, inside a transaction of the caller.

    Parameters
    ----------
    members : CompositeMembers

    Attributes
    ----------
    children : list of GroupAttempt or CompositeAttempt
        Of the groups that were tried, in order.
    satisfied : int
        Number of groups that have what they need.
    error : str
        The error that ended the attempt; "" for none.
    reason : str
        Why the group failed, where its placements or preemption give a more specific reason; else "".
    nominates : bool
        Whether pods are evicted for the group, and its placed pods are nominated to their nodes.
    """

    waits = False

    def __init__(self, members: CompositeMembers) -> None:
        self.members = members
        self.context = members.context
        self.children: list[GroupAttempt | CompositeAttempt] = []
        self.satisfied = 0
        self.error = self.reason = ""
        self.nominates = False

    def place(self, parent: Placement) -> None:
        """Place the groups in order, until too few are left.

        Parameters
        ----------
        parent : Placement
            The nodes to choose from.
        """
        for child in self.members.children:
            if not self.may_succeed:
                break
            attempt = decide_tree(child, True, parent)
            self.children.append(attempt)
            self.satisfied += attempt.counts
            if attempt.error:
                self.error = CHILD_FAILED.format(attempt.error)
                break

    @property
    def error_of_group(self) -> str:
        """The error of the group, and of its pods that have none of their own; "" for none."""
        return self.error

    @property
    def remaining(self) -> int:
        """Number of groups that were not tried."""
        return len(self.members.children) - len(self.children)

    @property
    def may_succeed(self) -> bool:
        """Whether enough groups have what they need, or may have after further ones were tried."""
        return self.satisfied + self.remaining >= self.members.minimum

    @property
    def counts(self) -> bool:
        """Whether the group has what it needs, with the pods placed before."""
        return not self.error and self.satisfied >= self.members.minimum

    @property
    def succeeded(self) -> bool:
        """Whether the group can be bound now: it has what it needs, and a pod was placed."""
        return self.counts and self.has_placed

    @property
    def has_placed(self) -> bool:
        """Whether a pod of groups that have succeeded has a node."""
        return any(child.succeeded and child.has_placed for child in self.children)

    @property
    def is_feasible(self) -> bool:
        """Whether the group has succeeded."""
        return self.succeeded

    @property
    def message(self) -> str:
        """Why the group has failed."""
        missing = CANNOT_BE_SATISFIED.format(self.members.minimum, self.satisfied, self.remaining)
        return self.reason or (NO_PODS if self.counts else missing)

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """The row of each pod of groups that have succeeded; -1 for the others."""
        rows = np.full(len(self.members.pods), -1, dtype=np.int32)
        for at, child in zip(self.members.indexes, self.children, strict=False):
            if child.succeeded:
                rows[at] = child.rows
        return rows

    # ---- the result ----------------------------------------------------------------------------------------

    def start(self) -> dict[int, Started]:
        """Begin the binding cycles of a group that succeeded; see `GroupAttempt.start`.

        Returns
        -------
        dict of int to Started
        """
        started: dict[int, Started] = {}
        for at, child in zip(self.members.indexes, self.children, strict=False):
            if child.succeeded:
                started |= {at[index]: one for index, one in child.start().items()}
        return started

    def failed(self, above: str = "") -> dict[int, Failure]:
        """Return the failures of the pods that are not placed for good.

        Parameters
        ----------
        above : str, optional
            Why a group above this one failed; "" where none has.

        Returns
        -------
        dict of int to Failure
            By index.
        """
        if not self.counts and self.members.group is not None:
            above = OF_COMPOSITE.format(self.members.group.key, self.message)
        failures = dict.fromkeys(range(len(self.members.pods)), Failure(group_failure=above)) if above else {}
        for at, child in zip(self.members.indexes, self.children, strict=False):
            child.nominates = self.nominates
            found = child.failed(above) if isinstance(child, CompositeAttempt) else _failures(child, above)
            failures |= {at[index]: failure for index, failure in found.items()}
        return failures

    def outcomes(self, above: str = "") -> list[tuple[AnyGroup, str]]:
        """Return the groups, and why each failed; "" where it succeeded.

        Parameters
        ----------
        above : str, optional
            Why a group above this one failed; "" where none has.

        Returns
        -------
        list of (PodGroup or CompositePodGroup, str)
            Each group before those in it.
        """
        assert self.members.group is not None
        own = above if self.counts else self.message
        found: list[tuple[AnyGroup, str]] = [(self.members.group, own)]
        for child in self.children:
            if isinstance(child, CompositeAttempt):
                found += child.outcomes(own)
            elif child.members.group is not None:
                found.append((child.members.group, own if child.counts else child.message))
        for untried in self.members.children[len(self.children) :]:
            found += [(group, own) for group in groups_of(untried)]
        return found


def groups_of(members: Members | CompositeMembers) -> list[AnyGroup]:
    """Return a group, and those below it.

    Parameters
    ----------
    members : Members or CompositeMembers

    Returns
    -------
    list of PodGroup or CompositePodGroup
    """
    found = [] if members.group is None else [members.group]
    for child in members.children if isinstance(members, CompositeMembers) else ():
        found += groups_of(child)
    return found


def _failures(attempt: GroupAttempt, above: str) -> dict[int, Failure]:
    """The failures of the pods of a pod group that are not placed for good; `above`: why the tree failed."""
    if not attempt.succeeded:
        return attempt.failed()
    if not above:
        return dict(attempt.failures)
    table = attempt.context.cache.state.table
    failures = dict(attempt.failures)
    for at in attempt.result.placed(0, len(attempt.rows)):
        node = table.row_name(attempt.rows[at]) if attempt.nominates else ""
        failures[at] = Failure(group_failure=above, nominating=NominatingInfo(node))
    return failures


# ---- the algorithm -----------------------------------------------------------------------------------------


def decide_tree(
    members: Members | CompositeMembers, commit: bool = True, parent: Placement | None = None
) -> GroupAttempt | CompositeAttempt:
    """Place the pods of a group or of a tree of groups; in the best placement, if bound to a topology.

    Parameters
    ----------
    members : Members or CompositeMembers
    commit : bool, optional
        Whether the placed pods stay if the group succeeds. Otherwise all is undone. The rotation advances in
        any case.
    parent : Placement, optional
        The nodes to choose from; by default all.

    Returns
    -------
    GroupAttempt or CompositeAttempt

    Raises
    ------
    StatusError
        A plugin for placements fails.
    """
    if isinstance(members, Members):
        return decide(members, commit, parent)
    assert members.group is not None
    if parent is None:
        parent = members.engine.handle.derived(PlacementMemory).all_nodes()
    placements = make_placements(members.engine.profile, members.group, members.scheduled, parent)
    nothing = CompositeAttempt(members)
    return decide_among(members, placements, commit, partial(_try_groups, members), nothing)


def _try_groups(members: CompositeMembers, placement: Placement, commit: bool) -> CompositeAttempt:
    """Place the groups of a composite group on the nodes of one placement. The rotation advances in any
    case."""
    attempt = CompositeAttempt(members)
    with all_or_nothing(members.context) as transaction:
        attempt.place(placement)
        if attempt.succeeded and commit:
            transaction.commit()
    return attempt


def result_of(members: AnyMembers, attempt: GroupAttempt | CompositeAttempt) -> GroupResult:
    """Return the result that an attempt has filled, or an empty one of a tree.

    Parameters
    ----------
    members : Members or CompositeMembers
    attempt : GroupAttempt or CompositeAttempt

    Returns
    -------
    GroupResult
    """
    if isinstance(attempt, GroupAttempt):
        return attempt.result
    context = members.context
    result = GroupResult(context.cache.state, len(members.pods), context.batch_of(members.pods))
    result.rows[:] = attempt.rows
    return result
