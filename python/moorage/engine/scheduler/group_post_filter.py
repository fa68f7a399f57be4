"""PostFilter for a pod group that fits nowhere: what its plugins ask about the group.

kube-scheduler v1.37, runtime/framework.go RunPodGroupPostFilterPlugins, and what podgrouppreemption.go does
with the assignments of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from moorage._core.decide.search import Search
from moorage._core.state.pod_spec import bound
from moorage.kube import Pod
from moorage.lazy import NamedTuple, lazy_attribute

from ..framework import (
    Code,
    CycleState,
    Framework,
    NodeRanking,
    NominatingInfo,
    PodGroupPostFilterPlugin,
    PreFilterPlugin,
    Status,
)
from ..framework.extension_points import note_exception
from ..framework.run_plugins import Target, native_filters
from ..plugins.inter_pod_affinity import InterPodAffinity
from ..plugins.pod_topology_spread import PodTopologySpread
from .cycle.engine import Engine
from .group_attempt import Attempt, decide_whole
from .group_members import Members, places_by_topology

Extension = Callable[..., Any]
COUNTING = frozenset({InterPodAffinity.name, PodTopologySpread.name})


class Filters(NamedTuple):
    """The filters of a pod of the group.

    Attributes
    ----------
    state : CycleState
        After PreFilter, when the pods before it were placed. What PreFilter has skipped then is not asked any
        more.
    natives : int
        The filters of the core, as bits.
    reads_row : bool
        Whether the filters are in the core, and read nothing but the row.
    is_told : bool
        Whether PreFilter plugins outside the core are told of pods that leave and return.
    """

    engine: Engine
    state: CycleState
    natives: int
    reads_row: bool
    is_told: bool


class Assignment(NamedTuple):
    """A pod of the group and the node that was found for it.

    Attributes
    ----------
    at : int
        Index of the pod in the group.
    rejects : callable
        Runs the filters; its result is false where the pod passes.
    search : tuple or None
        See `FailedGroup.searches`; None where other rows are read, or pods are nominated to the node.
    """

    at: int
    pod: Pod
    row: int
    filters: Filters
    rejects: Callable[[], object]
    search: tuple[Search, int, Target, int] | None = None


def run_post_filter(members: Members, attempt: Attempt) -> tuple[Mapping[int, NominatingInfo] | None, Status]:
    """Run the PodGroupPostFilter plugins of a profile, until one of them helps.

    Returns
    -------
    nominations : mapping of int to NominatingInfo, or None
        Of pods, by index, where a plugin helps.
    """
    failed, reasons = FailedAttempt(members, attempt), list[str]()
    for plugin in members.engine.profile.at(PodGroupPostFilterPlugin):
        try:
            nominations, status = plugin.pod_group_post_filter(failed)
        except Exception as error:  # an exception of a plugin fails the group
            note_exception(plugin, f"pod group {members.group.key}", error)
            nominations, status = None, Status(Code.ERROR, err=error)
        failed.advance_rotation()
        if status.is_success:
            return nominations, status
        if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None, status
        if status.code != Code.UNSCHEDULABLE:
            text = f'error in "{plugin.name}" PodGroupPostFilter plugins: {status.message()}'
            return None, Status(Code.ERROR, (text,))
        reasons += status.reasons
    return None, Status(Code.UNSCHEDULABLE, tuple(reasons))


class FailedAttempt:
    """A group that fits nowhere; see `FailedGroup`."""

    def __init__(self, members: Members, attempt: Attempt) -> None:
        self.group, self.pods = members.group, members.pods
        self._members, self._attempt = members, attempt
        self._assignments: list[Assignment] = []
        self._by_row: dict[int, list[Assignment]] = {}
        self._told: list[Assignment] = []  # with PreFilter plugins outside the core
        self._rows_decide = False
        self._next_start: int | None = None

    def states(self) -> Mapping[int, CycleState]:
        """Return the state of each pod that had a cycle of its own; of a pod group alone."""
        return self._attempt.states

    def pre_filtered(self, plugin: str) -> list[int]:
        """Return the pods for which PreFilter of a plugin ran, by index: there were nodes, and none of the
        plugins before it rejected the pod."""
        named = [other.name for other in self._members.engine.profile.at(PreFilterPlugin)]
        if plugin not in named:
            return []
        before = {"", *named[: named.index(plugin)]}  # a conflict of plugins has no name
        ran = [at for at, row in enumerate(self._attempt.rows.tolist()) if row >= 0]
        for at, failure in self._attempt.failures.items():
            rejection = None if failure.diagnosis is None else failure.diagnosis.pre_filter
            if not failure.error and (rejection is None or rejection.plugin not in before):
                ran.append(at)
        return ran

    @lazy_attribute
    def reads_rows_alone(self) -> bool:
        """Whether decisions about the pods of the group read the usage of rows, and no pods."""
        leaves = (member for member in self._members if not member.is_composite)
        return all(
            places_by_topology(engine) and engine.placer.reads_rows_alone(leaf.batch, first, end)
            for leaf in leaves
            for engine, _, first, end in leaf.segments
        )

    def place(self, ranking: NodeRanking | None = None) -> Status | None:
        """Place the pods in the cluster as it is now, and undo it; return why the group fails."""
        for member in self._members:
            member.ranking = ranking
        with _searching_all(self._members.engines if ranking is not None else ()):
            attempt = decide_whole(self._members, commit=False)
        self._next_start = self._members.context.rotation.start
        for engine in self._members.engines:
            engine.search.search_in(None)
        if attempt.succeeded:
            self._assign(attempt)
        return attempt.status

    def advance_rotation(self) -> None:
        """Have the next search begin where that of `place` ended, which the caller has undone."""
        if self._next_start is not None:
            self._members.context.rotation.start = self._next_start

    def _assign(self, attempt: Attempt) -> None:
        """Note where the pods were placed, and which nodes each can be rejected for."""
        cache, known = self._members.context.cache, dict[tuple[Engine, Target], Filters]()
        with cache.trial():
            for at, pod, row, engine, target in _placed(attempt, range(len(self.pods))):
                filters = known.get((engine, target)) or _filters(engine, target, pod)
                self._assignments.append(_assignment(at, pod, row, filters))
                if self.reads_rows_alone:  # PreFilter skips the same for equal pods, whatever was placed
                    known[engine, target] = filters
                else:
                    cache.state.assume_pod(bound(pod, cache.state.table.row_name(row)))
        for assignment in self._assignments:
            self._by_row.setdefault(assignment.row, []).append(assignment)
            if assignment.filters.is_told:
                self._told.append(assignment)
        # Nominated pods of the group may be in the way, on rows that no unit returns to.
        read_rows = all(assignment.filters.reads_row for assignment in self._assignments)
        self._rows_decide = read_rows and (self.searches() is not None or self._fit(self._assignments))

    def decisive_rows(self) -> Collection[int] | None:
        """Return the rows of the pods of the group, if pods on others do not count."""
        return self._by_row.keys() if self._rows_decide else None

    def searches(self) -> list[tuple[Search, int, Target, int]] | None:
        """Return how the core checks each pod; see `FailedGroup`."""
        searches = [assignment.search for assignment in self._assignments if assignment.search is not None]
        return searches if len(searches) == len(self._assignments) and not self._told else None

    def readmit(self, pods: Sequence[Pod]) -> bool:
        """Have pods return to their nodes if each pod of the group then passes the filters on its own."""
        state = self._members.context.cache.state
        for pod in pods:
            state.assume_pod(pod)
            self._tell(pod, Framework.run_pre_filter_extension_add_pod)
        looked_at = self._assignments
        if self._rows_decide:
            rows = dict.fromkeys(state.table.find_row(pod.spec.node_name) for pod in pods)
            looked_at = [
                assignment for row in rows if row is not None for assignment in self._by_row.get(row, ())
            ]
        if self._fit(looked_at):
            return True
        for pod in pods:
            state.discard_pod(pod)
            self._tell(pod, Framework.run_pre_filter_extension_remove_pod)
        return False

    def _tell(self, pod: Pod, extension: Extension) -> None:
        """Call an extension of PreFilter plugins outside the core."""
        for assignment in self._told:
            info = self._members.context.cache.node_info(pod.spec.node_name)
            assert info is not None
            extension(
                assignment.filters.engine.framework, assignment.filters.state, assignment.pod, pod, info
            )

    def _fit(self, assignments: Sequence[Assignment]) -> bool:
        """Whether each pod fits on its node, with those before it."""
        cache = self._members.context.cache
        if len(assignments) == 1:
            return not assignments[0].rejects()
        with cache.trial():
            for at, assignment in enumerate(assignments, 1):
                if assignment.rejects():
                    return False
                if at < len(assignments):
                    cache.state.assume_pod(bound(assignment.pod, cache.state.table.row_name(assignment.row)))
            return True

    def nominations(self) -> dict[int, NominatingInfo]:
        """Return the nominations of the pods to the nodes that were found for them."""
        row_name = self._members.context.cache.state.table.row_name
        return {assignment.at: NominatingInfo(row_name(assignment.row)) for assignment in self._assignments}


@contextmanager
def _searching_all(engines: Sequence[Engine]) -> Iterator[None]:
    """Have engines search all nodes, however many fit."""
    before = [(engine.decider, engine.decider.percentage) for engine in engines]
    for decider, _ in before:
        decider.percentage = 100
    try:
        yield
    finally:
        for decider, percentage in before:
            decider.percentage = percentage


def _filters(engine: Engine, target: Target, pod: Pod) -> Filters:
    """Run PreFilter for a pod; return its filters."""
    framework = engine.framework
    state, _ = framework.pre_filtered(target, pod)
    profile = framework.profile_of(target)
    counting = COUNTING.intersection(plugin.name for plugin in profile.filters) - state.skip_filter_plugins
    reads_row = framework.kernels is not None and not counting and profile.filters_in_core
    natives = native_filters(profile.filters, state) if reads_row else 0
    return Filters(engine, state, natives, reads_row, not profile.pre_filters_are_native)


def _assignment(at: int, pod: Pod, row: int, filters: Filters) -> Assignment:
    """Return an assignment, with the way to run the filters again."""
    engine, state, natives, reads_row, _ = filters
    handle = engine.framework.handle
    name = handle.cache.state.table.row_name(row)
    if reads_row and not (handle.nominator and handle.nominator.nominated_pods_for_node(name)):
        search = engine.search, natives, state.target, row
        verdict = partial(engine.search.verdict_after, [(row, [], [], None)], natives, state.target)
        return Assignment(at, pod, row, filters, verdict, search)
    info = handle.cache.node_info(name)
    assert info is not None
    rejects = partial(engine.framework.run_filter_plugins_with_nominated_pods, state, pod, info)
    return Assignment(at, pod, row, filters, rejects)


def _placed(
    attempt: Attempt, indexes: Sequence[int]
) -> Iterator[tuple[int, Pod, int, Engine, tuple[int, int, int]]]:
    """Yield index, pod, row, engine and target of the pods that have a node, of groups that have succeeded,
    in the order in which they were tried."""
    members = attempt.members
    for child, below in zip(attempt.children, members.indexes, strict=False):
        if child.succeeded:
            yield from _placed(child, [indexes[index] for index in below])
    for segment in () if members.is_composite else members.segments:
        for at in range(segment.first, segment.end):
            if attempt.rows[at] >= 0:
                target = members.batch.target(at)
                yield indexes[at], members.pods[at], int(attempt.rows[at]), segment.engine, target
