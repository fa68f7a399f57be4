"""Examination of a pod that fits nowhere: the victims of preemption on each node where eviction helps."""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec import Struct

from moorage.engine.framework import CycleState, PreFilterRun, Status, StatusError
from moorage.engine.preemption.default_preemption import preemption_plugins
from moorage.engine.preemption.dry_run import Candidate, Choice, pick_one_node
from moorage.engine.preemption.evaluator import Evaluator, FoundCandidates
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.grouped import by_count
from moorage.kube.model.pod import Pod
from moorage.store import ObjectStore, ServerError


class PreemptionExamination(Struct, frozen=True):
    """The possible preemptions for a pod; no pod is evicted.

    Attributes
    ----------
    dry_run : FoundCandidates
        Whether the pod may preempt, and the candidates.
    choice : Choice or None
        The candidate that preemption would choose, and the criterion that decided; None without candidates.
    refusal : str
        What the API server says against the deletion of one of its victims.
    """

    dry_run: FoundCandidates = msgspec.field(default_factory=FoundCandidates)
    choice: Choice | None = None
    refusal: str = ""

    def listed(self, limit: int | None) -> list[Candidate]:
        """Return the candidates, the chosen one first.

        Parameters
        ----------
        limit : int or None
            Largest number of candidates; None for all.
        """
        chosen = [] if self.choice is None else [self.choice.candidate]
        others = [candidate for candidate in self.dry_run.candidates if candidate not in chosen]
        return (chosen + others)[:limit]

    def rejections(self) -> dict[str, int]:
        """Return the number of nodes per reason why eviction does not help there; the most frequent reason
        first."""
        counts = Counter(reason for status in self.dry_run.rejected.values() for reason in status.reasons)
        return by_count(counts)


def examine_preemption(engine: Engine, pod: Pod, everywhere: bool = True) -> PreemptionExamination:
    """Find the nodes where evictions would make room for a pod. Extenders are not called.

    Parameters
    ----------
    everywhere : bool, optional
        Whether dry runs are made on all nodes. Otherwise they begin at an offset and end with enough
        candidates, as those of DefaultPreemption do.
    """
    state = engine.framework.new_state(pod)
    engine.begin_cycle(state.target)
    if engine.nodes_in_view() == 0:
        return PreemptionExamination()
    ran = engine.framework.run_pre_filter_plugins(state, pod)
    if ran.error:
        return PreemptionExamination()
    statuses = _statuses(engine, state, pod, ran)
    if not statuses:
        return PreemptionExamination()
    plugins = preemption_plugins(engine.profile)
    limits = plugins[0].limits if plugins and not everywhere else None
    evaluator = Evaluator(engine.handle, limits=limits)
    candidates = evaluator.find_candidates(state, pod, statuses)
    choice, refusal = pick_one_node(candidates.candidates), ""
    client = engine.handle.client
    if choice is not None and isinstance(client, ObjectStore) and client.server is not None:
        try:
            client.server.admit_victims(choice.candidate.victims.pods)
        except ServerError as error:
            refusal = str(error)
    return PreemptionExamination(candidates, choice, refusal)


def _statuses(engine: Engine, state: CycleState, pod: Pod, ran: PreFilterRun) -> dict[str, Status]:
    """Return the status of each rejecting node; empty where a node is feasible or a plugin fails."""
    if ran.rejection is not None:
        return dict.fromkeys(engine.cache.state.view.node_names(), ran.rejection)
    engine.begin_search(state, pod, ran)
    try:
        _, verdicts = engine.search.verdicts(*state.target)
        return {} if (verdicts == 0).any() else dict(engine.diagnose(state.target, state.shape, ran)[1])
    except StatusError:
        return {}
