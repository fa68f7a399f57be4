"""Preemption of pods for one pod, from eligibility to eviction.

kube-scheduler v1.36, framework/preemption/preemption.go. The steps: `Evaluator.find_candidates`
(eligibility.py and dry_run.py), `call_extenders` and `pick_one_node` (pick.py), `prepare_candidate`
(actuation.py). If no plugin outside the core and no extender takes part, the core does all but the last.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b

from moorage._core.preempt.preemptor import Preemptor
from moorage.errors import ExtenderError, MoorageError
from moorage.framework import Code, CycleState, FrameworkHandle, NominatingInfo, Status, as_status
from moorage.framework.configuration.field_errors import aggregate
from moorage.framework.plugin.extender import Extender, Victims
from moorage.framework.plugin.status import NodeToStatus, fit_error
from moorage.framework.runtime.preempt_handle import PreemptHandle
from moorage.framework.runtime.runtime import Framework, Target
from moorage.objects import Pod

from .actuation import prepare_candidate
from .dry_run import PreemptionDryRuns, status_of
from .eligibility import NO_VICTIM, num_candidates, potential_nodes, why_not_eligible
from .eviction_units import groups_of
from .pick import Candidate, pick_one_node

logger = logging.getLogger("moorage.preemption")

NOT_HELPFUL = "Preemption is not helpful for scheduling"
EVERY = 100, 0
"""The limits with which all potential nodes are tried."""


@dataclass(frozen=True, slots=True)
class FoundCandidates:
    """The result of the first two steps of preemption.

    Attributes
    ----------
    message : str
        Why the pod may not preempt others; "" if it may.
    potential : list of str
        The nodes where evictions could help, in list order.
    candidates : list of Candidate
        See `PreemptionDryRuns`.
    rejected : dict of str to Status
        Why the other potential nodes that were tried are no candidates.
    """

    message: str = ""
    potential: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    rejected: dict[str, Status] = field(default_factory=dict)

    @property
    def error(self) -> str:
        """The errors of the nodes on which the dry run failed, as one text; "" for none."""
        return aggregate(status.message() for status in self.rejected.values() if status.code == Code.ERROR)

    def text(self, nodes: int) -> str:
        """Return why there is no candidate, as upstream's FitError has it.

        Parameters
        ----------
        nodes : int
            The number of nodes in the list.

        Returns
        -------
        str
        """
        reasons = Counter(reason for status in self.rejected.values() for reason in status.reasons)
        return no_candidates(nodes, reasons, nodes - len(self.rejected))


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

    Returns
    -------
    str
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
    pod : Pod
        The preemptor.
    candidates : sequence of Candidate

    Returns
    -------
    candidates : list of Candidate
        The remaining ones, in their order; empty with an Error.
    status : Status or None
        An Error if an extender failed.
    """
    remaining = {candidate.name: candidate.victims for candidate in candidates}
    for extender in extenders:
        if not remaining:
            break
        if not extender.supports_preemption or not extender.is_interested(pod):
            continue
        try:
            answer = extender.process_preemption(pod, remaining)
        except ExtenderError as error:
            if not extender.is_ignorable:
                return [], as_status(error)
            text = "Skipped extender %s as it returned error and has ignorable flag set: %s"
            logger.info(text, extender.name, error)
            continue
        bare = [name for name, victims in answer.items() if not victims.pods]
        if bare and not extender.is_ignorable:
            return [], as_status(MoorageError(NO_VICTIM.format(bare[0])))
        remaining = {name: victims for name, victims in answer.items() if victims.pods}
    order = {candidate.name: at for at, candidate in enumerate(candidates)}
    names = sorted(remaining, key=lambda name: order.get(name, len(order)))
    return [Candidate(name, remaining[name]) for name in names], None


class Evaluator:
    """Preempts pods for one pod; kube-scheduler v1.36, framework/preemption/preemption.go.

    Parameters
    ----------
    handle : PreemptHandle
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
            None (Success) if victims were evicted; else why not.
        """
        preemptor = self.preemptor_of(pod, statuses)
        if preemptor is not None:
            if message := why_not_eligible(self.handle, pod, statuses):
                return None, Status(Code.UNSCHEDULABLE, (message,))
            return self._preempt_in_core(preemptor, state, pod, len(statuses))
        result = self.find_candidates(state, pod, statuses)
        if result.message:
            return None, Status(Code.UNSCHEDULABLE, (result.message,))
        if not result.candidates:
            if result.error:
                return None, as_status(MoorageError(result.error))
            return NominatingInfo(), Status(Code.UNSCHEDULABLE, (result.text(len(statuses)),))
        candidates, failed = call_extenders(self.preempt_handle.extenders(), pod, result.candidates)
        if failed is not None:
            return None, failed
        choice = pick_one_node(candidates)
        if choice is None:
            return None, Status(Code.UNSCHEDULABLE, ("no candidate node for preemption",))
        return self.evict(choice.candidate, pod)

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

        Returns
        -------
        FoundCandidates
        """
        if message := why_not_eligible(self.handle, pod, statuses):
            return FoundCandidates(message)
        nodes = potential_nodes(statuses)
        if not nodes:
            return FoundCandidates()
        offset, wanted = 0, len(nodes)
        if self.limits is not None:
            offset = self.handle.preemption_offset(pod, len(nodes))
            wanted = num_candidates(len(nodes), *self.limits)
        budgets = self.preempt_handle.pod_disruption_budgets()
        runs = PreemptionDryRuns(self.preempt_handle, state, pod, budgets)
        return FoundCandidates("", nodes, *runs.run(nodes, offset, wanted))

    def evict(self, candidate: Candidate, pod: Pod) -> tuple[NominatingInfo | None, Status | None]:
        """Evict the victims of a candidate.

        Parameters
        ----------
        candidate : Candidate
        pod : Pod
            The preemptor.

        Returns
        -------
        nominating : NominatingInfo or None
        status : Status or None
            The Error of an eviction.
        """
        failed = prepare_candidate(self.preempt_handle, candidate, pod, self.plugin_name)
        return (NominatingInfo(candidate.name), None) if failed is None else (None, failed)

    # ---- in the core ---------------------------------------------------------------------------------------

    def preemptor_of(self, pod: Pod, statuses: Mapping[str, Status]) -> Preemptor | None:
        """Return the core's preemptor for a pod that all nodes rejected.

        Parameters
        ----------
        pod : Pod
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
        extenders = self.handle.extenders
        if extenders and any(one.supports_preemption and one.is_interested(pod) for one in extenders):
            return None
        in_core = framework.profile.pre_filters_in_core
        return framework.preemptor if in_core and framework.preemptor.suits else None

    def _preempt_in_core(
        self, preemptor: Preemptor, state: CycleState, pod: Pod, nodes: int
    ) -> tuple[NominatingInfo | None, Status | None]:
        """Evict pods from the node that the core chooses; `nodes` is the number of all nodes."""
        with self.handle.cache.lock:
            candidate = self.choose_in_core(preemptor, state.target, pod)
            if candidate is None:
                return self._no_candidate(preemptor, state, nodes)
        return self.evict(candidate, pod)

    def choose_in_core(self, preemptor: Preemptor, target: Target, pod: Pod) -> Candidate | None:
        """Choose the node to evict pods from by the core.

        Parameters
        ----------
        preemptor : Preemptor
        target : (int, int, int)
            Class of the pod, symbol of spec.nodeName, symbol of the node it is pinned to; 0 for none.
        pod : Pod

        Returns
        -------
        Candidate or None
            None where eviction helps nowhere.
        """
        pod_class, node_name, pinned = target
        budgets = self.preempt_handle.pod_disruption_budgets()
        potential = preemptor.begin(pod_class, budgets, node_name, pinned, groups_of(self.handle))
        if not potential:
            return None
        offset = self.handle.preemption_offset(pod, potential)
        choice = preemptor.choose(offset, *(self.limits or EVERY))
        if choice is None:
            return None
        row, violations, victims = choice
        return Candidate(self.handle.cache.state.table.row_name(row), Victims(victims, violations))

    def _no_candidate(
        self, preemptor: Preemptor, state: CycleState, nodes: int
    ) -> tuple[NominatingInfo | None, Status | None]:
        """Return the result of a preemption without candidates: the FitError of upstream, or an Error for
        nodes without victims."""
        verdicts, fitting = preemptor.rejections()
        if fitting:
            name = self.handle.cache.state.table.row_name
            return None, as_status(MoorageError(aggregate(NO_VICTIM.format(name(row)) for row in fitting)))
        framework: Framework | None = self.handle.framework
        reasons = Counter[str]()
        assert framework is not None
        for verdict, count in verdicts.items():
            for reason in status_of(framework, state, verdict).reasons:
                reasons[reason] += count
        text = no_candidates(nodes, reasons, nodes - sum(verdicts.values()))
        return NominatingInfo(), Status(Code.UNSCHEDULABLE, (text,))


def set_up_preemption(handle: FrameworkHandle, seed: int | None) -> None:
    """Enable preemption by the plugins of a handle.

    Parameters
    ----------
    handle : FrameworkHandle
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
    seed : int
    pod : Pod
        The index follows from the seed and the pod's UID.
    nodes : int
        Number of potential nodes.

    Returns
    -------
    int
        0 to `nodes` - 1.
    """
    digest = blake2b(f"{seed} {pod.metadata.uid}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % nodes
