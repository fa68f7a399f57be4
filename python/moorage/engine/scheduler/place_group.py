"""Pod group cycles: the pods of a group are scheduled together on one snapshot; what is ignored of groups.

kube-scheduler v1.37, schedule_one_podgroup.go scheduleOnePodGroup, podGroupCycle and
submitPodGroupAlgorithmResult.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

from msgspec import Struct

from moorage._core.base.fields import unfinished_group_of
from moorage._core.decide.bulk_operations import not_assumed
from moorage._core.queue.in_flight import pods_of
from moorage.errors import nearest, number_of
from moorage.kube import AnyGroup, CompositePodGroup, Object, Pod, PodGroup
from moorage.kube.model.pod_group import COMPOSITE, unit_name
from moorage.kube.releases.feature_gates import releases_with

from ..framework import Code, FrameworkHandle, NominatingInfo, Status
from ..framework.group_index import PodGroups
from .cycle.engine import Engine
from .cycle.results import Failure
from .cycle.status_writes import ERROR, OF_GROUP, UNSCHEDULABLE
from .group_attempt import Attempt, GroupResult, beginning, decide_whole
from .group_members import Members, in_cycle
from .group_post_filter import run_post_filter
from .scheduler_state import SchedulerState
from .valid_groups import why_invalid

# ---- ignored groups ----------------------------------------------------------------------------------------
# What the scheduler ignores of pod groups, because feature gates are off; and groups that do not exist.

GROUPS = (
    f"scheduled one by one: pod groups need Kubernetes {' or '.join(releases_with('GenericWorkload'))} "
    "and the gate GenericWorkload=true"
)
TREES = "so groups that belong to one are scheduled one by one: the gate CompositePodGroup is off"
GROUP_KINDS = PodGroup, CompositePodGroup
TOPOLOGIES = "a topology that is ignored: the gate TopologyAwareWorkloadScheduling is off"


def group_warnings(context: SchedulerState) -> list[str]:
    """Return a sentence about each part of groups that is ignored while pods of groups wait, and each group
    that does not exist; none of a store that others write to as well.
    """
    handle, state, store = context.handle, context.cache.state, context.store
    pods = [*filter(unfinished_group_of, pods_of([*chain(*context.queue.pending_pods())]))]
    if store is None or not (pods or store.has(GROUP_KINDS)):
        return []
    waiting = [pods[at] for at in not_assumed(state, pods)]
    groups: list[PodGroup] = store.list(PodGroup)[0]
    every: list[AnyGroup] = [*groups, *store.list(CompositePodGroup)[0]]
    ignored = [f"{number} {text}." for text, number in ignored_groups(handle, every).items() if waiting]
    lost = groups_without_top(context.groups, every) if every else []
    return [*ignored, *lost, *pods_without_group(handle, groups, waiting)]


def ignored_groups(handle: FrameworkHandle, objects: Iterable[Object]) -> dict[str, int]:
    """Return what a scheduler ignores of the groups among some objects.

    Parameters
    ----------
    handle : FrameworkHandle
        Has the gates of the scheduler.
    objects : iterable of Object
        Others than groups do not matter.

    Returns
    -------
    dict of str to int
        What comes after the number in a sentence, to the number. One sentence at most is about pod groups:
        where they are ignored, so is all that they say.
    """
    listed = [obj for obj in objects if isinstance(obj, PodGroup | CompositePodGroup)]
    groups = sum(isinstance(group, PodGroup) for group in listed)
    trees = len(listed) - groups
    warnings: dict[str, int] = {}
    if not handle.groups_pods:
        if groups:
            whose = "its" if groups == 1 else "their"
            warnings[f"PodGroup{_are(groups)} ignored, so {whose} pods are {GROUPS}"] = groups
        return warnings
    if trees and not handle.has_trees:
        warnings[f"CompositePodGroup{_are(trees)} ignored, {TREES}"] = trees
    return warnings | ignored_topologies(handle, listed)


def ignored_topologies(handle: FrameworkHandle, groups: Iterable[AnyGroup]) -> dict[str, int]:
    """Return what a scheduler ignores of groups that it places as groups; see `ignored_groups`."""
    bound = 0 if handle.places_groups else sum(bool(group.topology_keys) for group in groups)
    return {f"group{' has' if bound == 1 else 's have'} {TOPOLOGIES}": bound} if bound else {}


def pods_without_group(handle: FrameworkHandle, groups: Iterable[PodGroup], pods: Iterable[Pod]) -> list[str]:
    """Return a sentence about each group that pending pods name and that does not exist.

    Parameters
    ----------
    handle : FrameworkHandle
        Has the gates of the scheduler.
    """
    known = {group.key for group in groups}
    named = Counter(key for pod in pods if not pod.spec.node_name for key in unfinished_group_of(pod))
    missing = {key: number for key, number in sorted(named.items()) if key not in known}
    if handle.groups_pods:
        return [_waiting(name, number, known) for name, number in missing.items()]
    if known or not missing:  # `ignored_groups` says it
        return []
    number = sum(missing.values())
    return [f"{number_of(number, 'pod of a pod group is', 'pods of pod groups are')} {GROUPS}."]


def groups_without_top(index: PodGroups, groups: Iterable[AnyGroup]) -> list[str]:
    """Return a sentence about each group that names a composite group which does not exist, or belongs to
    itself: pods of such a tree wait.

    Parameters
    ----------
    index : PodGroups
        Of the scheduler. Without the gate for composite groups there are no trees.
    """
    problems: list[str] = []
    for group in groups:
        name, above = group.full_name, index.ancestors(group.unit)
        if above and index.known(above[0]) is None:
            lacks = f"{name} belongs to {COMPOSITE} {unit_name(above[0])}, which does not exist"
            problems.append(f"{lacks}: create it as scheduling.k8s.io/v1alpha3 (v1beta1 since 1.38).")
        if group.unit in above:
            problems.append(f"{name} belongs to itself, so that its pods wait: change its parent.")
    return problems


def _waiting(group: str, number: int, known: Iterable[str]) -> str:
    pods = number_of(number, "pod waits", "pods wait")
    near = nearest(group, known) or ": create it as scheduling.k8s.io/v1beta1"
    return f"{pods} for PodGroup {group}, which does not exist{near}."


def _are(number: int) -> str:
    return " is" if number == 1 else "s are"


# ---- place group -------------------------------------------------------------------------------------------

ABOVE_FAILED = 'ancestor composite pod group "{}" is unschedulable'
ABOVE_ERROR = 'ancestor composite pod group "{}" encountered an error'
PARENT_ERROR = 'parent pod group "{}" encountered an error'
CLEAR = NominatingInfo()


class Outcome(Struct):
    """What becomes of a pod group or a composite group.

    Attributes
    ----------
    indexes : sequence of int
        Its pods, among those of the whole tree.
    attempt : Attempt or None
        None where the group was not tried, or failed with an error of the group above it, or up to v1.37 with
        any failure of that.
    status : Status or None
        Why it failed; None where it succeeded.
    """

    members: Members
    indexes: Sequence[int]
    attempt: Attempt | None
    status: Status | None


def outcomes_of(
    members: Members, attempt: Attempt | None, indexes: Sequence[int], above: Status | None = None
) -> Iterator[Outcome]:
    """Yield what becomes of a group and of those below it, each before those in it.

    Parameters
    ----------
    attempt : Attempt or None
        None where the group was not tried.
    indexes : sequence of int
        The pods of the group, among those of the whole tree.
    above : Status, optional
        What the group has if it has not failed by itself, as a group above it did.
    """
    tells_ancestor = members.context.handle.release.groups_tell_ancestor
    status = None if attempt is None else attempt.status
    if attempt is not None and tells_ancestor and above is not None and above.code == Code.ERROR:
        status = status if attempt.is_error else None  # an error above takes the place of another failure
    if above is not None and status is None:
        status = replace(above) if tells_ancestor else above
        if not tells_ancestor or above.code == Code.ERROR:
            attempt = None
    elif status is not None and tells_ancestor:
        text = ABOVE_ERROR if status.code == Code.ERROR else ABOVE_FAILED
        above = Status(status.code, (text.format(members.group.name),))
    else:
        above = status
    yield Outcome(members, indexes, attempt, status)
    tried = [] if attempt is None else attempt.children
    for at, child in enumerate(members.children):
        own = [indexes[index] for index in members.indexes[at]]
        yield from outcomes_of(child, tried[at] if at < len(tried) else None, own, above)


def rejected(context: SchedulerState, pods: Sequence[Pod], group: AnyGroup | None, error: str) -> GroupResult:
    """Return the result for pods that cannot form a group. Their cycle ends after it has taken its snapshot.

    Parameters
    ----------
    group : PodGroup or CompositePodGroup or None
        None where it is gone.
    error : str
        The error of each pod and of the group.
    """
    with context.cache.lock:
        context.cache.state.view.refresh()
    result = GroupResult(context.cache.state, len(pods), context.batch_of(pods))
    result.failures.update(dict.fromkeys(range(len(pods)), Failure(error=error, nominating=CLEAR)))
    result.message, result.is_error = error, True
    result.reason = OF_GROUP if context.handle.release.hierarchies_are_validated else ERROR
    tree = () if group is None else context.groups.tree_of(group)
    groups = [members.group for members in tree if members.group is not None]
    result.outcomes = [(group, error) for group in groups if has_condition(context, group)]
    return result


def has_condition(context: SchedulerState, group: AnyGroup) -> bool:
    """Whether the result of an attempt is written to a group."""
    return isinstance(group, PodGroup) or context.handle.release.trees_have_conditions


def place_group(
    context: SchedulerState,
    engine: Engine,
    group: AnyGroup,
    pods: Sequence[Pod],
    scheduled: Sequence[Pod] = (),
    evicts: bool = False,
) -> GroupResult:
    """Place the pods of a group in order: all that fit, if they reach the group's minimum together with the
    scheduled pods; otherwise none. Pods of a composite group are placed group by group.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    pods : sequence of Pod
        Pending members, not in the cache.
    scheduled : sequence of Pod, optional
        Members that have a node already, assumed ones included.
    evicts : bool, optional
        Whether pods are evicted for a group that fails.
    """
    if error := why_invalid(context, group, (*pods, *scheduled)):
        return rejected(context, pods, group, error)
    members = Members(context, engine, context.groups.tree_of(group), pods, scheduled)
    with context.cache.lock:
        context.cache.state.view.refresh()
        with in_cycle(members.engines), one_cycle(members):
            attempt = decide_whole(members)
            nominations, status = None, None
            if evicts and attempt.status is not None and attempt.status.code == Code.UNSCHEDULABLE:
                nominations, status = run_post_filter(members, attempt)
        if attempt.succeeded:
            context.cache.state.view.log_stale_counts(attempt.rows)
    return _result(members, attempt, nominations, status)


def try_group(
    context: SchedulerState, engine: Engine, group: PodGroup, pods: Sequence[Pod], scheduled: Sequence[Pod]
) -> Attempt:
    """Place the pods of a pod group as `place_group` does, without evictions, and undo it.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    pods, scheduled : sequence of Pod
        Pending members, not in the cache, and those that have a node.
    """
    members = Members(context, engine, context.groups.tree_of(group), pods, scheduled)
    with context.cache.lock, context.cache.transaction():
        context.cache.state.view.refresh()
        with in_cycle(members.engines), one_cycle(members):
            attempt = decide_whole(members, commit=False)
    return attempt


@contextmanager
def one_cycle(members: Members) -> Iterator[None]:
    """Have the number of nodes per image as it is at the start of the cycle, as upstream's snapshot does, and
    the pods share what DynamicResources allocates."""
    view, handle = members.context.cache.state.view, members.engine.handle
    view.freezes_counts, handle.group_cycle = True, object()
    try:
        yield
    finally:
        view.freezes_counts, handle.group_cycle = False, None


# ---- the result --------------------------------------------------------------------------------------------


def _result(
    members: Members,
    attempt: Attempt,
    nominations: Mapping[int, NominatingInfo] | None,
    post_filter: Status | None,
) -> GroupResult:
    """Return the result of a cycle.

    Parameters
    ----------
    nominations : mapping of int to NominatingInfo, or None
        Changes of nominations of pods of a group for which others are evicted; None for such a group.
    post_filter : Status or None
        Of PostFilter for the group; None where it was not run.
    """
    context = members.context
    result = GroupResult(context.cache.state, len(members.pods), context.batch_of(members.pods))
    result.succeeded, result.is_error = attempt.succeeded, attempt.is_error
    if attempt.succeeded:
        result.started = attempt.start()
        result.rows[:] = attempt.rows
    outcomes = list(outcomes_of(members, attempt, range(len(members.pods))))
    for outcome in outcomes:
        status = _after(outcome.status, post_filter, outcomes)
        group, is_error = outcome.members.group, status is not None and status.code == Code.ERROR
        if isinstance(group, PodGroup):
            _add(result, outcome, status, nominations)
            result.is_error |= is_error
        if has_condition(context, group):
            result.outcomes.append((group, "" if status is None else status.message()))
    result.reason = ERROR if result.is_error else UNSCHEDULABLE
    root = _after(attempt.status, post_filter, outcomes)
    result.message = "" if root is None else root.message()
    return result


def _after(status: Status | None, post_filter: Status | None, outcomes: Sequence[Outcome]) -> Status | None:
    """Return the status of a group after PostFilter. Groups that have one status in common add the reason to
    it once each, as upstream."""
    if status is None or post_filter is None:
        return status
    if post_filter.code == Code.ERROR:
        return post_filter
    times = sum(outcome.status is status for outcome in outcomes)
    for _ in range(times):
        status = status.append_reason(post_filter.message())
    return status


def _add(
    result: GroupResult,
    outcome: Outcome,
    status: Status | None,
    nominations: Mapping[int, NominatingInfo] | None,
) -> None:
    """Add the failures of the pods of a pod group to a result."""
    attempt, failures = outcome.attempt, result.failures
    text = "" if status is None else status.message()
    if outcome.members.context.handle.release.groups_tell_threshold:
        text = PARENT_ERROR.format(outcome.members.group.name) if attempt is not None else text
    for own, at in enumerate(outcome.indexes):
        failure = None if attempt is None else attempt.failures.get(own)
        if status is None:
            if failure is not None:
                failures[at] = failure
            continue
        if status.code == Code.ERROR:
            is_own = failure is not None and failure.is_error
            failures[at] = failure if is_own else Failure(error=text, nominating=CLEAR)
            continue
        nominating = None if nominations is None else nominations.get(at)
        if failure is not None:
            failures[at] = (
                failure if nominating is None else Failure(failure.diagnosis, nominating=nominating)
            )
        elif attempt is None or own >= attempt.tried:
            text = outcome.status.message() if outcome.status is not None else ""
            failures[at] = Failure(group_failure=text, nominating=nominating)
        elif nominations is not None:
            failures[at] = Failure(group_failure=status.message(), nominating=nominating)
        else:
            reason = Status(status.code, status.reasons, err=beginning(outcome.members.context))
            text = reason.message()
            failures[at] = Failure(group_failure=text, nominating=CLEAR)
