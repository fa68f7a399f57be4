"""Preemption of one pod from its beginning to its end: who may, where, at whose cost, and that it is done.

kube-scheduler v1.36, framework/preemption/preemption.go. The steps: `find_candidates` (eligibility.py and
dry_run.py), `call_extenders` and `pick_one_node` (pick.py), `prepare_candidate` (actuation.py). For a pod
that the core alone decides about, all steps before the last are the core's (`preempt_in_core`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b

from moorage._core.preempt.preemptor import Preemptor
from moorage.errors import ExtenderError, MoorageError
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.extender import Extender, Victims
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.interface import NominatingInfo
from moorage.framework.plugin.status import Code, NodeToStatus, Status, as_status, fit_error
from moorage.framework.runtime.preempt_handle import PreemptHandle
from moorage.objects.model.pod import Pod

from .actuation import prepare_candidate
from .dry_run import dry_run_preemption, status_of
from .eligibility import NO_VICTIM, potential_nodes, why_not_eligible
from .eviction_units import Units
from .pick import Candidate, pick_one_node

logger = logging.getLogger("moorage.preemption")

NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(frozen=True, slots=True)
class Found:
    """What the first two steps came to.

    Attributes
    ----------
    message : str
        Why the pod may not preempt others; "" where it may.
    potential : list of str
        The nodes where that could help, in list order.
    candidates : list of Candidate
        See `dry_run_preemption`.
    rejected : dict of str to Status
        Of the potential nodes that were tried, those that are no candidates.
    """

    message: str = ""
    potential: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    rejected: dict[str, Status] = field(default_factory=dict)

    @property
    def error(self) -> str:
        """What went wrong with the nodes that could not be tried; "" where nothing did."""
        return joined(status.message() for status in self.rejected.values() if status.code == Code.ERROR)

    def text(self, nodes: int) -> str:
        """Why there is no candidate among so many nodes."""
        reasons = Counter(reason for status in self.rejected.values() for reason in status.reasons)
        return no_candidates(nodes, reasons, nodes - len(self.rejected))


def joined(errors: Iterable[str]) -> str:
    """The text of several errors, each told once; "" of none."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def no_candidates(nodes: int, reasons: Mapping[str, int], hopeless: int) -> str:
    """Why there is no candidate among so many nodes, on some of which preemption could not help anyway."""
    counts = Counter(reasons)
    if hopeless:
        counts[NOT_HELPFUL] += hopeless
    return fit_error(nodes, counts)


def find_candidates(
    handle: PreemptHandle,
    state: CycleState,
    pod: Pod,
    statuses: Mapping[str, Status],
    offset: Callable[[int], int] = lambda nodes: 0,
    wanted: Callable[[int], int] = lambda nodes: nodes,
) -> Found:
    """Look for nodes on which `pod` would fit without pods of lower priority; nothing is changed.

    Parameters
    ----------
    state : CycleState
        After PreFilter has run for the pod.
    statuses : mapping of str to Status
        Why each node was rejected, in list order.
    offset, wanted : callable
        See `dry_run_preemption`; from the number of potential nodes.
    """
    if message := why_not_eligible(handle.handle, pod, statuses):
        return Found(message)
    nodes = potential_nodes(statuses)
    if not nodes:
        return Found()
    found = dry_run_preemption(
        handle,
        state,
        pod,
        nodes,
        handle.pod_disruption_budgets(),
        offset(len(nodes)),
        wanted(len(nodes)),
    )
    return Found("", nodes, *found)


def call_extenders(
    extenders: Sequence[Extender], pod: Pod, candidates: Sequence[Candidate]
) -> tuple[list[Candidate], Status | None]:
    """What extenders leave of the candidates, with the victims that they want there. One that fails is passed
    over where it may be ignored; else there is an Error and no candidate."""
    left = {one.name: one.victims for one in candidates}
    for extender in extenders:
        if not left:
            break
        if not extender.supports_preemption or not extender.is_interested(pod):
            continue
        try:
            answer = extender.process_preemption(pod, left)
        except ExtenderError as error:
            if not extender.is_ignorable:
                return [], as_status(error)
            logger.info(
                "Skipped extender %s as it returned error and has ignorable flag set: %s",
                extender.name,
                error,
            )
            continue
        bare = [name for name, victims in answer.items() if not victims.pods]
        if bare and not extender.is_ignorable:
            return [], as_status(MoorageError(f'expected at least one victim pod on node "{bare[0]}"'))
        left = {name: victims for name, victims in answer.items() if victims.pods}
    order = {one.name: at for at, one in enumerate(candidates)}
    names = sorted(left, key=lambda name: order.get(name, len(order)))
    return [Candidate(name, left[name]) for name in names], None


def preempt(
    handle: PreemptHandle, pod: Pod, found: Found, nodes: int, plugin_name: str
) -> tuple[NominatingInfo | None, Status | None]:
    """Make room for a pod that fits nowhere, where that was `found` to be possible: the node that it is
    nominated to then, and Success (None); or what becomes of its nomination, and why there is no room among
    so many nodes."""
    if found.message:
        return None, Status(Code.UNSCHEDULABLE, (found.message,))
    if not found.candidates:
        if found.error:
            return None, as_status(MoorageError(found.error))
        return NominatingInfo(), Status(Code.UNSCHEDULABLE, (found.text(nodes),))
    candidates, failed = call_extenders(handle.extenders(), pod, found.candidates)
    if failed is not None:
        return None, failed
    choice = pick_one_node(candidates)
    if choice is None:
        return None, Status(Code.UNSCHEDULABLE, ("no candidate node for preemption",))
    failed = prepare_candidate(handle, choice.candidate, pod, plugin_name)
    if failed is not None:
        return None, failed
    return NominatingInfo(choice.candidate.name), None


def preempts(handle: FrameworkHandle, seed: int | None) -> None:
    """Let the plugins of a handle preempt. Dry runs begin at the first node that could help; with a seed, at
    a random one, as upstream's."""
    handle.make_preempt_handle = PreemptHandle
    if seed is not None:
        handle.preemption_offset = partial(random_offset, seed)


def random_offset(seed: int, pod: Pod, nodes: int) -> int:
    """Where among so many nodes the dry runs for a pod begin: anywhere, but always there for this pod."""
    digest = blake2b(f"{seed} {pod.metadata.uid}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % nodes


# ---- pods that the core alone decides about ----------------------------------------------------------------


def preemptor_of(given: PreemptHandle, pod: Pod, statuses: Mapping[str, Status]) -> Preemptor | None:
    """The preemptor of a pod that these nodes rejected; None where that is not for the core alone."""
    handle, framework = given.handle, given.handle.framework
    if not isinstance(statuses, NodeToStatus) or not statuses.from_search or framework is None:
        return None
    extenders = handle.extenders
    has_extenders = extenders and any(one.supports_preemption and one.is_interested(pod) for one in extenders)
    if type(given) is not PreemptHandle or has_extenders or Units(handle):
        return None
    in_core = framework.profile.pre_filters_in_core
    return framework.preemptor if in_core and framework.preemptor.suits else None


def preempt_in_core(
    preemptor: Preemptor,
    handle: PreemptHandle,
    state: CycleState,
    pod: Pod,
    nodes: int,
    arguments: Mapping[str, int],
    plugin_name: str,
) -> tuple[NominatingInfo | None, Status | None]:
    """What `evaluator.preempt` answers for a pod that may preempt others, and that so many nodes rejected."""
    pod_class, node_name, pinned = state.target
    table = handle.handle.cache.state.table
    with handle.handle.cache.lock:
        potential = preemptor.begin(pod_class, handle.pod_disruption_budgets(), node_name, pinned)
        choice = potential and preemptor.choose(
            handle.handle.preemption_offset(pod, potential),
            arguments["minCandidateNodesPercentage"],
            arguments["minCandidateNodesAbsolute"],
        )
        if not choice:
            return _no_candidate(preemptor, handle.handle, state, nodes)
    row, violations, victims = choice
    candidate = Candidate(table.row_name(row), Victims(tuple(victims), violations))
    failed = prepare_candidate(handle, candidate, pod, plugin_name)
    return (NominatingInfo(candidate.name), None) if failed is None else (None, failed)


def _no_candidate(
    preemptor: Preemptor, handle: FrameworkHandle, state: CycleState, nodes: int
) -> tuple[NominatingInfo | None, Status | None]:
    verdicts, fitting = preemptor.rejections()
    if fitting:
        name = handle.cache.state.table.row_name
        return None, as_status(MoorageError(joined(NO_VICTIM.format(name(row)) for row in fitting)))
    framework, reasons = handle.framework, Counter[str]()
    assert framework is not None
    for verdict, count in verdicts.items():
        for reason in status_of(framework, state, verdict).reasons:
            reasons[reason] += count
    text = no_candidates(nodes, reasons, nodes - sum(verdicts.values()))
    return NominatingInfo(), Status(Code.UNSCHEDULABLE, (text,))
