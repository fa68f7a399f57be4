"""Preemption of pods for one pod, from eligibility to nomination (kube-scheduler v1.36,
framework/preemption/preemption.go). Candidates come from the core, or from plugins and extenders.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from moorage._core.preempt.preemptor import Preemptor
from moorage.errors import ExtenderError, MoorageError
from moorage.kube import Pod
from moorage.kube.field_errors import aggregate
from moorage.store import ApiError

from ..framework import Code, CycleState, FrameworkHandle, NominatingInfo, Status, as_status
from ..framework.handle import Extender, Victims
from ..framework.run_plugins import Framework
from ..framework.status import NodeToStatus
from .actuation import make_room
from .default_preemption import no_candidates
from .dry_run import Candidate, PreemptionDryRuns, pick_one_node, preempting, status_of
from .eviction_units import (
    NO_VICTIM,
    budgets_of,
    groups_of,
    num_candidates,
    potential_nodes,
    unwritten_nomination,
    why_not_eligible,
)

logger = logging.getLogger("moorage.preemption")

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
        self, handle: FrameworkHandle, plugin_name: str = "", limits: tuple[int, int] | None = None
    ) -> None:
        self.handle, self.plugin_name, self.limits = handle, plugin_name, limits

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
        candidates, failed = call_extenders(self.handle.extenders, pod, dry_run.candidates)
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
            make_room(self.handle, name, pod, victims, self.plugin_name)
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
        dry_runs = PreemptionDryRuns(self.handle, state, pod, budgets_of(self.handle))
        candidates, rejected = dry_runs.run(nodes, offset, wanted)
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
            budgets = budgets_of(self.handle)
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
