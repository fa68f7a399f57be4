"""DefaultPreemption: evicts pods of lower priority for a pod or a pod group that fits nowhere."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b

import msgspec
from msgspec import Struct

from moorage._core.preempt.bound_pods import not_terminating
from moorage._core.preempt.lower_units import LowerUnits, has_pods_below
from moorage._core.preempt.preemptor import Preemptor
from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.errors import ExtenderError, MoorageError
from moorage.kube import Pod
from moorage.store import ApiError

from ..framework import Code, CycleState, FailedGroup, FrameworkHandle, NominatingInfo, Status, as_status
from ..framework.configuration.validation import aggregate
from ..framework.events import POD, of_class, on
from ..framework.handle import Extender, Victims
from ..framework.in_tree_plugins import CorePostFilter, gates_only_with
from ..framework.preempt_handle import PreemptHandle, budgets_of
from ..framework.run_plugins import Framework
from ..framework.status import NodeToStatus, fit_error
from .actuation import RunningPreemptions, end_nominations_below, evict_victims, make_room
from .dry_run import Candidate, PreemptionDryRuns, pick_one_node, preempting, status_of
from .eviction_units import (
    NEVER,
    NO_VICTIM,
    NO_VICTIMS,
    EvictionUnits,
    Unit,
    groups_of,
    is_leaving,
    num_candidates,
    potential_nodes,
    unwritten_nomination,
    violations,
    why_not_eligible,
)
from .victim_ranking import VictimRanking

# ---- evaluator ---------------------------------------------------------------------------------------------
# Preemption of pods for one pod, from eligibility to nomination: `Evaluator.preempt`.
#
# kube-scheduler v1.36, framework/preemption/preemption.go. Candidates come from the core, or from plugins and
# extenders.

logger = logging.getLogger("moorage.preemption")

NOT_HELPFUL = "Preemption is not helpful for scheduling"
PLACEMENT = "found a potential placement for pod on node {}, preempting {} victims"
EVERY = 100, 0
"""The limits with which all potential nodes are tried."""


class FoundCandidates(Struct, frozen=True):
    """The result of the first two steps of preemption.

    Attributes
    ----------
    message : str
        Why the pod may not preempt others; "" if it may.
    potential : list of str
        The nodes where evictions could help, in list order; the core does not list them.
    candidates : list of Candidate
        See `PreemptionDryRuns`; of those in the core the best one.
    rejected : dict of str to Status
        Why the other potential nodes that were tried are no candidates; the core only counts.
    reasons : Counter of str
        On how many of these nodes each reason was given.
    tried : int
        The number of these nodes.
    error : str
        The errors of the nodes on which the dry run failed, as one text; "" for none.
    """

    message: str = ""
    potential: list[str] = msgspec.field(default_factory=list)
    candidates: list[Candidate] = msgspec.field(default_factory=list)
    rejected: dict[str, Status] = msgspec.field(default_factory=dict)
    reasons: Mapping[str, int] = msgspec.field(default_factory=dict)
    tried: int = 0
    error: str = ""

    def text(self, nodes: int) -> str:
        """Return why there is no candidate, as upstream's FitError has it.

        Parameters
        ----------
        nodes : int
            The number of nodes in the list.
        """
        return no_candidates(nodes, self.reasons, nodes - self.tried)


def no_candidates(nodes: int, reasons: Mapping[str, int], unresolvable: int) -> str:
    """Return why there is no candidate, as upstream's FitError has it.

    Parameters
    ----------
    nodes : int
        The number of nodes in the list.
    reasons : mapping of str to int
        How many of the potential nodes have each reason.
    unresolvable : int
        The number of nodes where preemption could not help.
    """
    counts = Counter(reasons)
    if unresolvable:
        counts[NOT_HELPFUL] += unresolvable
    return fit_error(nodes, counts)


def call_extenders(
    extenders: Sequence[Extender], pod: Pod, candidates: Sequence[Candidate]
) -> tuple[list[Candidate], Status | None]:
    """Let extenders remove candidates and change victims.

    An extender that fails is skipped if it is ignorable.

    Parameters
    ----------
    extenders : sequence of Extender
        In configured order; those that do not support preemption or do not manage the pod are skipped.

    Returns
    -------
    candidates : list of Candidate
        The remaining ones, in their order; empty with an Error.
    status : Status or None
        An Error if an extender failed.
    """
    if not extenders:
        return list(candidates), None
    remaining = {candidate.name: candidate.victims for candidate in candidates}
    for extender in preempting(extenders, pod):
        if not remaining:
            break
        try:
            answer = extender.process_preemption(pod, remaining)
        except ExtenderError as error:
            if not extender.is_ignorable:
                return [], as_status(error)
            text = "Skipped extender %s as it returned error and has ignorable flag set: %s"
            logger.info(text, extender.name, error)
            continue
        came_bare = {name for name, victims in remaining.items() if not victims.pods}
        bare = [name for name, victims in answer.items() if not victims.pods and name not in came_bare]
        if bare and not extender.is_ignorable:
            return [], as_status(MoorageError(NO_VICTIM.format(bare[0])))
        remaining = {name: victims for name, victims in answer.items() if victims.pods or name in came_bare}
    remaining = {name: victims for name, victims in remaining.items() if victims.pods}
    order = {candidate.name: at for at, candidate in enumerate(candidates)}
    names = sorted(remaining, key=lambda name: order.get(name, len(order)))
    return [Candidate(name, remaining[name]) for name in names], None


class Evaluator:
    """Preempts pods for one pod; kube-scheduler v1.36, framework/preemption/preemption.go.

    Parameters
    ----------
    plugin_name : str
        Rejects victims that wait on Permit.
    limits : (int, int), optional
        minCandidateNodesPercentage and minCandidateNodesAbsolute, which end the dry runs. By default all
        potential nodes are tried, in list order.
    """

    def __init__(
        self, handle: PreemptHandle, plugin_name: str = "", limits: tuple[int, int] | None = None
    ) -> None:
        self.preempt_handle, self.handle = handle, handle.handle
        self.plugin_name, self.limits = plugin_name, limits

    def preempt(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[NominatingInfo | None, Status | None]:
        """Evict pods from the best node, if the pod is eligible and evictions help.

        Parameters
        ----------
        state : CycleState
            After PreFilter has run for the pod.
        pod : Pod
            The preemptor.
        statuses : mapping of str to Status
            By node name why the node was rejected, in list order.

        Returns
        -------
        nominating : NominatingInfo or None
            The nomination to the chosen node. An empty one clears an earlier nomination, None leaves it.
        status : Status or None
            Success, also as None, if victims were evicted; else why not.
        """
        # 0. May the pod preempt others?
        if message := why_not_eligible(self.handle, pod, statuses):
            kept = unwritten_nomination(self.handle, pod)
            return NominatingInfo(kept) if kept else None, Status(Code.UNSCHEDULABLE, (message,))
        # 1. The nodes where it would fit without some pods of lower priority.
        preemptor = self.preemptor_of(state, pod, statuses)
        if preemptor is None:
            dry_run = self._found_by_plugins(state, pod, statuses)
        else:
            dry_run = self._found_in_core(preemptor, state, pod)
        if not dry_run.candidates:
            if dry_run.error:
                return None, as_status(MoorageError(dry_run.error))
            return NominatingInfo(), Status(Code.UNSCHEDULABLE, (dry_run.text(len(statuses)),))
        # 2. Extenders drop some of them, or some of their victims.
        candidates, failed = call_extenders(self.preempt_handle.extenders(), pod, dry_run.candidates)
        if failed is not None:
            return None, failed
        # 3. The best one.
        choice = pick_one_node(candidates)
        if choice is None:
            return None, Status(Code.UNSCHEDULABLE, ("no candidate node for preemption",))
        # 4. Nominations of lower priority end, and the victims are deleted.
        # 5. The pod is nominated, even if a victim cannot be deleted: upstream learns of that later.
        name, victims = choice.candidate.name, choice.candidate.victims.pods
        try:
            make_room(self.preempt_handle, name, pod, victims, self.plugin_name)
        except ApiError as error:
            return NominatingInfo(name), Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (str(error),))
        is_told = self.handle.release.preemptors_are_told
        status = Status(Code.SUCCESS, (PLACEMENT.format(name, len(victims)),)) if is_told else None
        return NominatingInfo(name), status

    def find_candidates(self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]) -> FoundCandidates:
        """Find the nodes on which a pod would fit after evictions; nothing is changed.

        Parameters
        ----------
        state : CycleState
            After PreFilter has run for the pod.
        pod : Pod
            The preemptor.
        statuses : mapping of str to Status
            Node name to the status that rejected the node, in list order.
        """
        if message := why_not_eligible(self.handle, pod, statuses):
            return FoundCandidates(message)
        return self._found_by_plugins(state, pod, statuses)

    def _found_by_plugins(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> FoundCandidates:
        """Find candidates by dry runs on one node after the other, which plugins outside the core can take
        part in."""
        nodes = potential_nodes(statuses)
        if not nodes:
            return FoundCandidates()
        offset, wanted = 0, len(nodes)
        if self.limits is not None:
            offset = self.handle.preemption_offset(pod, len(nodes))
            wanted = num_candidates(len(nodes), *self.limits)
        budgets = self.preempt_handle.pod_disruption_budgets()
        candidates, rejected = PreemptionDryRuns(self.preempt_handle, state, pod, budgets).run(
            nodes, offset, wanted
        )
        reasons = Counter(reason for status in rejected.values() for reason in status.reasons)
        errors = aggregate(status.message() for status in rejected.values() if status.code == Code.ERROR)
        return FoundCandidates("", nodes, candidates, rejected, reasons, len(rejected), errors)

    # ---- in the core ---------------------------------------------------------------------------------------

    def preemptor_of(self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]) -> Preemptor | None:
        """Return the core's preemptor for a pod that all nodes rejected.

        Parameters
        ----------
        state : CycleState
            After PreFilter has run for the pod.
        statuses : mapping of str to Status
            By node name why the node was rejected.

        Returns
        -------
        Preemptor or None
            None if a plugin outside the core or an extender takes part.
        """
        framework: Framework | None = self.handle.framework
        if not isinstance(statuses, NodeToStatus) or not statuses.from_search or framework is None:
            return None
        if type(self.preempt_handle) is not PreemptHandle:
            return None
        if preempting(self.handle.extenders, pod):
            return None
        profile = framework.profile_for(state, pod)
        in_core = profile.pre_filters_in_core and profile.filters_in_core
        return framework.preemptor if in_core and framework.preemptor.suits else None

    def _found_in_core(self, preemptor: Preemptor, state: CycleState, pod: Pod) -> FoundCandidates:
        """Find the best candidate by the core, which compares the others with it as it makes the dry runs.
        Where there is none, count why."""
        pod_class, node_name, pinned = state.target
        row_name = self.handle.cache.state.table.row_name
        with self.handle.cache.lock:
            budgets = self.preempt_handle.pod_disruption_budgets()
            potential = preemptor.begin(pod_class, budgets, node_name, pinned, groups_of(self.handle))
            choice = None
            if potential:
                offset = self.handle.preemption_offset(pod, potential)
                choice = preemptor.choose(offset, *(self.limits or EVERY))
            if choice is not None:
                row, violations, victims = choice
                return FoundCandidates(candidates=[Candidate(row_name(row), Victims(victims, violations))])
            verdicts, fitting = preemptor.rejections()
            error = aggregate(NO_VICTIM.format(row_name(row)) for row in fitting)
        framework: Framework | None = self.handle.framework
        reasons = Counter[str]()
        assert framework is not None
        for verdict, count in () if error else verdicts.items():
            for reason in status_of(framework, state, verdict).reasons:
                reasons[reason] += count
        return FoundCandidates(reasons=reasons, tried=sum(verdicts.values()), error=error)


def set_up_preemption(handle: FrameworkHandle, seed: int | None) -> None:
    """Enable preemption by the plugins of a handle.

    Parameters
    ----------
    seed : int or None
        Seed of the random potential node at which dry runs begin, as upstream's do. With None they begin at
        the first one.
    """
    handle.make_preempt_handle = PreemptHandle
    if seed is not None:
        handle.preemption_offset = partial(random_offset, seed)


def random_offset(seed: int, pod: Pod, nodes: int) -> int:
    """Return the index of the potential node at which the dry runs for a pod begin.

    Parameters
    ----------
    pod : Pod
        The index follows from the seed and the pod's UID.

    Returns
    -------
    int
        0 to `nodes` - 1.
    """
    digest = blake2b(f"{seed} {pod.metadata.uid}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % nodes


# ---- preempt for group -------------------------------------------------------------------------------------
# Preemption for a pod group that fits nowhere (KEP-5710).
#
# kube-scheduler v1.37, framework/preemption/podgrouppreemption.go. All units of lower priority in the cluster
# are removed, and the group is placed. Then the units are put back one after the other, the protected and
# important ones first. Those with which the pods of the group do not fit on the nodes found for them are the
# victims. Units on other nodes are not looked at, where no filter reads other rows.

ONGOING = "ongoing preemption on nominated nodes"
NO_VICTIMS_OF_GROUP = "No preemption victims found for incoming preemptor"
FOUND = "found a placement for podgroup, preempting {} victims"
NO_DOMAIN = (
    'failed to create domain: failed to get node info for node "{0}" from snapshot: '
    'nodeinfo not found for node name "{0}"'
)
LOST_NODE = 'node "{}" not found in the snapshot'
WHOLE_CLUSTER = "cluster"
"""Stands for the node in the events of victims: they may be on any node of the cluster."""

Found = tuple[Mapping[int, NominatingInfo] | None, Status]


def preempt_for_group(handle: FrameworkHandle, failed: FailedGroup, plugin_name: str) -> Found:
    """Evict pods for a group that fits nowhere.

    Parameters
    ----------
    plugin_name : str
        Rejects victims that wait on Permit.

    Returns
    -------
    nominations : mapping of int to NominatingInfo, or None
        Of the pods of the group, by index, where evictions make room.
    """
    group, units = failed.group, EvictionUnits(handle)
    if handle.release.lost_nodes_end_preemption and (node := units.lost_node()):
        return None, Status(Code.ERROR, (NO_DOMAIN.format(node),))
    if any(pod.spec.preemption_policy == "Never" for pod in failed.pods):
        return None, Status(Code.UNSCHEDULABLE, (NEVER,))
    if _is_ongoing(handle, failed, units):
        current = {at: NominatingInfo(pod.status.nominated_node_name) for at, pod in enumerate(failed.pods)}
        return current, Status(Code.SUCCESS, (ONGOING,))
    lower = LowerUnits(handle.cache.state, group.spec.priority or 0, groups_of(handle))
    if not len(lower):
        ends = handle.release.group_without_victims_ends
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if ends else Code.UNSCHEDULABLE
        return None, Status(code, (NO_VICTIMS_OF_GROUP,))
    if node := lower.lost_node():
        return None, Status(Code.ERROR, (LOST_NODE.format(node),))
    costs = _violations(handle, lower)
    ranking = VictimRanking(lower, costs) if _ranks_nodes(handle, plugin_name) else None
    with handle.cache.transaction():
        lower.remove(failed.reads_rows_alone)
        handle.cache.state.view.drop_counts()  # upstream searches on a copy, whose images are on no node
        status = failed.place(ranking)
    if status is not None:
        return None, status
    with handle.cache.transaction():
        leaving = _leaving(handle, failed, lower, costs)
    victims = lower.pods_of(leaving)
    nominations = failed.nominations()
    if handle.release.groups_end_nominations:
        for node in dict.fromkeys(each.nominated_node_name for each in nominations.values()):
            end_nominations_below(handle.preempt_handle(), node, failed.pods[0])
    try:
        evict_victims(handle, WHOLE_CLUSTER, group, not_terminating(victims), plugin_name)
    except ApiError as error:
        return nominations, Status(Code.SUCCESS, (str(error),))
    if handle.writes.is_beside:
        handle.shared(RunningPreemptions).hold(failed.pods)
    return nominations, Status(Code.SUCCESS, (FOUND.format(len(victims)),))


def _ranks_nodes(handle: FrameworkHandle, plugin_name: str) -> bool:
    """Whether nodes are ranked by their victims: since v1.38, where the plugin is at Reserve, too."""
    framework: Framework | None = handle.framework
    points = None if framework is None else framework.profile.points
    is_at_reserve = points is None or plugin_name in points.get("reserve", ())
    return handle.release.nodes_are_ranked_by_victims and is_at_reserve


def _is_ongoing(handle: FrameworkHandle, failed: FailedGroup, units: EvictionUnits) -> bool:
    """Whether pods that were evicted before terminate on a node that a pod of the group is nominated to."""
    priority = failed.group.spec.priority or 0
    for name in sorted({pod.status.nominated_node_name for pod in failed.pods} - {""}):
        info = handle.cache.node_info(name)
        lower = (pod for pod in info.pods if units.priority_of(pod) < priority) if info else ()
        if any(map(is_leaving, lower)):
            return True
    return False


def _leaving(
    handle: FrameworkHandle, failed: FailedGroup, units: LowerUnits, costs: Mapping[int, int]
) -> list[int]:
    """Return the indexes of the units that have to go, the most important first. The caller undoes what this
    changes in the cache. Units that a budget protects return first (`costs`)."""
    state, rows, searches = handle.cache.state, failed.decisive_rows(), failed.searches()
    concerned = range(len(units)) if rows is None else units.on_rows(rows)
    among = {*concerned} if costs else ()
    order = [*dict.fromkeys((*(at for at in costs if at in among), *concerned))]
    if searches is not None:
        return units.most_important_first(units.to_leave(order, searches))
    pods = {at: units.pods(at) for at in order}  # read before the cache changes
    for unit in pods.values():
        for pod in unit:
            state.discard_pod(pod)
    return units.most_important_first([at for at in order if not failed.readmit(pods[at])])


def _violations(handle: FrameworkHandle, units: LowerUnits) -> dict[int, int]:
    """Return how many pods of each unit violate a disruption budget, of those that violate any, in order."""
    budgets = tuple(budgets_of(handle))
    budgeted = units.budgeted(budgets) if budgets else []
    members = [Unit(units.pods(at), 0) for at in budgeted]
    costs = violations(members, budgets, handle.release)
    return {at: cost for at, cost in zip(budgeted, costs, strict=True) if cost}


# ---- default preemption ------------------------------------------------------------------------------------

PREFIX, GROUP_PREFIX = "preemption: ", "pod group preemption: "
RUNNING = "waiting for the preemption for this pod to be finished"


class DefaultPreemption(
    fwk.PreEnqueuePlugin, CorePostFilter, fwk.PodGroupPostFilterPlugin, fwk.EnqueueExtensions
):
    """Preemption by priority (kube-scheduler v1.36, defaultpreemption/).

    While no pod could be evicted, the core gives the plugin's result without visiting nodes. The plugin
    registers the deletion of pods with a hint that never queues a pod: the event only makes the queue run
    PreEnqueue again for gated pods.

    Parameters
    ----------
    args : mapping, optional
        ``minCandidateNodesPercentage`` (default 10) and ``minCandidateNodesAbsolute`` (default 100), which
        bound the number of candidates.

    Attributes
    ----------
    preempting : set of str
        UIDs of the pods whose preemption is running.
    """

    name = "DefaultPreemption"
    default_args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}

    @property
    def preempting(self) -> set[str]:
        """UIDs of pods whose preemption is running."""
        return self.required_handle().shared(RunningPreemptions).held

    @gates_only_with(held=["preempting"])
    def pre_enqueue(self, pod: Pod) -> fwk.Status | None:
        """Reject a pod whose preemption is running.

        Returns
        -------
        Status or None
            None (Success) for any other pod.
        """
        if pod.metadata.uid in self.preempting:
            return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (RUNNING,), self.name)
        return None

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        """Register the deletion of pods."""
        return [on(POD, fwk.ActionType.DELETE, self.after_pod_deleted)]

    @of_class
    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> fwk.QueueingHint:
        """Return Skip: the hints of the pod's other rejectors decide.

        Parameters
        ----------
        pod : Pod
            The queued pod.
        old : Pod
            The deleted pod.
        """
        return fwk.QUEUE_SKIP

    def post_filter(
        self, state: fwk.CycleState, pod: Pod, statuses: Mapping[str, fwk.Status]
    ) -> tuple[fwk.PostFilterResult | None, fwk.Status | None]:
        """Preempt pods for a pod that no node accepts.

        Parameters
        ----------
        state : CycleState
            After PreFilter and Filter have run for the pod.
        statuses : mapping of str to Status
            Node name to the status that rejected the node, in list order.

        Returns
        -------
        result : PostFilterResult or None
            The nomination. An empty one clears an earlier nomination, None leaves it.
        status : Status or None
            None (Success) if victims were evicted; otherwise the reason why not.
        """
        result, status = self.evaluator().preempt(state, pod, statuses)
        if status is None or not status.message():
            return result, status
        return result, fwk.Status(status.code, (PREFIX + status.message(),), self.name)

    def pod_group_post_filter(
        self, failed: fwk.FailedGroup
    ) -> tuple[Mapping[int, fwk.NominatingInfo] | None, fwk.Status]:
        """Evict pods for a pod group that fits nowhere; see `preempt_for_group`.

        Returns
        -------
        nominations : mapping of int to NominatingInfo, or None
            Of pods of the group, by index, where pods were evicted.
        """
        nominations, status = preempt_for_group(self.required_handle(), failed, self.name)
        text = status.message()
        return nominations, fwk.Status(status.code, (GROUP_PREFIX + text,) if text else (), self.name)

    def evaluator(self) -> Evaluator:
        """Return what finds candidates and evicts their victims, with the plugin's arguments."""
        return Evaluator(self.required_handle().preempt_handle(), self.name, self.limits)

    @property
    def limits(self) -> tuple[int, int]:
        """minCandidateNodesPercentage (of the potential nodes) and minCandidateNodesAbsolute."""
        return self.args["minCandidateNodesPercentage"], self.args["minCandidateNodesAbsolute"]

    def may_preempt(self, shape: Shape, potential: int) -> bool:
        """Whether some pod could be evicted: the cache has a pod of lower priority, or there is a group of
        lower priority that is evicted as a whole.

        Parameters
        ----------
        shape : Shape
            Of the preemptor's class.
        potential : int
            Number of nodes that were rejected with code Unschedulable.
        """
        if not potential or not shape.may_preempt:
            return False
        handle = self.required_handle()
        groups = groups_of(handle)
        if groups is not None and groups.lowest_priority < shape.priority:
            return True
        return has_pods_below(handle.cache.state, shape.priority)

    def futile_message(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        """Return the message of a preemption that `may_preempt` rules out.

        Parameters
        ----------
        shape : Shape
            Of the preemptor's class.
        nodes : int
            Number of nodes in the list.
        potential : int
            Number of nodes that were rejected with code Unschedulable.

        Returns
        -------
        clears_nomination : bool
            Whether an earlier nomination of the pod ends.
        """
        if not shape.may_preempt:
            return PREFIX + NEVER, False
        return PREFIX + _without_victims(nodes, potential), True


class DefaultPreemptionReserve(DefaultPreemption):
    """DefaultPreemption since v1.38, which is at Reserve where there are pod groups: it notes there which
    nodes they take, as the preemption for groups does here."""

    extension_points = ("reserve",)
    reserves_for_groups = True


@lru_cache
def _without_victims(nodes: int, potential: int) -> str:
    """Return why there is no candidate where no potential node has a victim."""
    reasons = dict.fromkeys(NO_VICTIMS.reasons, potential) if potential else {}
    return no_candidates(nodes, reasons, nodes - potential)


def preemption_plugins(profile: fwk.Profile) -> list[DefaultPreemption]:
    """Return the PostFilter plugins of a profile that are DefaultPreemption or derived from it."""
    return [plugin for plugin in profile.at(fwk.PostFilterPlugin) if isinstance(plugin, DefaultPreemption)]
