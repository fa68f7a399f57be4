"""What extenders answer about a pod that is explained: whom they reject, how they score, or their error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from moorage._core.decide.decider import count_verdicts
from moorage.engine.framework import MAX_NODE_SCORE, Code, CycleState, PreFilterRun, Status
from moorage.engine.framework.plugin.extender import Extender
from moorage.engine.scheduler.cycle.diagnosis import Diagnosis
from moorage.engine.scheduler.cycle.examine import score_rows
from moorage.engine.scheduler.cycle.extended_search import MAX_EXTENDER_PRIORITY
from moorage.engine.scheduler.cycle.results import Examination
from moorage.errors import ExtenderError
from moorage.kube import Node, Pod

from .evidence_search import FilterVerdicts
from .probe import Probe

MOST_REASONS = 3
NO_REASON = "the extender gives no reason"


@dataclass(frozen=True)
class ExtenderAnswer:
    """What one extender answers about a pod.

    Attributes
    ----------
    name : str
        Its URL prefix.
    weight : int
    asked : int
        Number of nodes that it was asked about: those that the filters and the extenders before it accept.
    rejected : dict of str to Status
        By node. A node that it drops without a reason has one that says so.
    scores : dict of str to int
        Its scores, 0 to 10; empty if it does not score.
    error : str
        Why it has no answer; "" if it has one. Verdicts and ranking are then without it.
    as_empty : bool
        Whether nodes are scored as if they had no pods, because it gets whole nodes
        (``nodeCacheCapable: false``; kubernetes issue 141781).
    is_bypassed : bool
        Whether it filters, and preemption does not ask it (kubernetes issue 139270).
    """

    name: str
    weight: int
    asked: int
    rejected: dict[str, Status] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)
    error: str = ""
    as_empty: bool = False
    is_bypassed: bool = False

    @property
    def text(self) -> str:
        """The answer in words."""
        if self.error:
            also = "; preemption does not ask it" if self.is_bypassed else ""
            return f"without extender {self.name}: {self.error}; verdicts and ranking ignore it{also}"
        if not self.asked:
            return f"extender {self.name} is not asked: no node is left for it"
        parts = [f"extender {self.name} accepts {self.asked - len(self.rejected)} of {self.asked} nodes"]
        reasons = Counter(reason for status in self.rejected.values() for reason in status.reasons)
        parts += [f"{nodes} rejected: {reason}" for reason, nodes in reasons.most_common(MOST_REASONS)]
        parts += [f"scores them with weight {self.weight}"] if self.scores else []
        parts += ["gets whole nodes, so that nodes are scored as if empty"] if self.as_empty else []
        parts += ["preemption does not ask it"] if self.rejected and self.is_bypassed else []
        return "; ".join(parts)


def ask_extenders(probe: Probe, nodes: Sequence[str]) -> list[ExtenderAnswer]:
    """Ask the extenders that are interested in a pod, each about the nodes that those before it accept.

    Parameters
    ----------
    nodes : sequence of str
        The nodes that pass the filters.
    """
    pod, interested = probe.pod, probe.engine.interested(probe.pod)
    left, answers = probe.nodes_named(nodes) if interested else [], list[ExtenderAnswer]()
    for extender in interested:
        answer = _ask(extender, pod, left)
        left = [node for node in left if node.name not in answer.rejected]
        answers.append(answer)
    scored = []
    for extender, answer in zip(interested, answers, strict=True):
        scored.append(_scored(extender, answer, pod, left))
    return scored


def _ask(extender: Extender, pod: Pod, nodes: list[Node]) -> ExtenderAnswer:
    is_bypassed = extender.is_filter and not extender.supports_preemption
    answer = ExtenderAnswer(extender.name, extender.weight, len(nodes), is_bypassed=is_bypassed)
    if not nodes or not extender.is_filter:
        return answer
    try:
        names, failed, unresolvable = extender.filter(pod, nodes)
    except ExtenderError as error:
        return replace(answer, error=str(error))
    rejected = {}
    for name in sorted({node.name for node in nodes} - set(names)):
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if name in unresolvable else Code.UNSCHEDULABLE
        reason = unresolvable.get(name, failed.get(name, NO_REASON))
        rejected[name] = Status(code, (reason,), extender.name)
    return replace(answer, rejected=rejected, as_empty=extender.returns_bare_nodes)


def _scored(extender: Extender, answer: ExtenderAnswer, pod: Pod, nodes: list[Node]) -> ExtenderAnswer:
    """Return the answer with the scores of the nodes that are left. A single node is not scored."""
    if not extender.is_prioritizer or answer.error or len(nodes) < 2:
        return answer
    try:
        return replace(answer, scores=extender.prioritize(pod, nodes))
    except ExtenderError as error:
        return replace(answer, error=str(error))


def verdicts_of(answers: Sequence[ExtenderAnswer], order: Sequence[str]) -> list[FilterVerdicts]:
    """Return the rejections of extenders as those of filters.

    Parameters
    ----------
    order : sequence of str
        Node names in list order.
    """
    found = []
    for answer in answers:
        if answer.rejected:
            numbers: dict[Status | None, int] = {None: 0}
            codes = [numbers.setdefault(answer.rejected.get(name), len(numbers)) for name in order]
            found.append(FilterVerdicts(answer.name, np.array(codes, dtype=np.intp), list(numbers)))
    return found


def after_extenders(
    probe: Probe,
    begun: tuple[CycleState, PreFilterRun],
    examination: Examination,
    answers: Sequence[ExtenderAnswer],
) -> Examination:
    """Return an examination with the feasible nodes and the scores after the extenders.

    Parameters
    ----------
    begun : (CycleState, PreFilterRun)
        The cycle of the pod, whose search has begun.
    examination : Examination
        Without the extenders.
    """
    engine, (state, ran) = probe.engine, begun
    statuses = {name: status for answer in answers for name, status in answer.rejected.items()}
    left = [name for name in examination.feasible if name not in statuses]
    if not any(answer.rejected or answer.scores or answer.as_empty for answer in answers):
        return examination
    if not left:
        nodes, verdicts = engine.search.verdicts(*state.target)
        diagnosis = Diagnosis(
            len(examination.order),
            engine.profile_of(state.target),
            state.shape,
            verdicts=count_verdicts(verdicts),
            absent=ran.absent,
            statuses=engine.number_statuses(state.target, nodes, verdicts),
            extender_statuses={  # upstream counts no node that an extender drops without a word
                name: status for name, status in statuses.items() if status.reasons != (NO_REASON,)
            },
        )
        return Examination(
            examination.order,
            examination.pre_filter,
            examination.skipped_filter,
            rejected=examination.rejected | statuses,
            fit_error=diagnosis.message(),
        )
    table = engine.cache.state.table
    rows = np.array([table.find_row(name) for name in left], dtype=np.int32)
    raw, normalized, total = score_rows(engine, state, rows)
    if any(answer.as_empty for answer in answers):
        raw, normalized, total = {}, {}, engine.decider.score(rows, *state.target, True)
    for answer in answers:
        if answer.scores:
            column = np.array([answer.scores.get(name, 0) for name in left], dtype=np.int64)
            raw[answer.name] = normalized[answer.name] = column
            total = total + column * weights_of([answer])[answer.name]
    best = [name for name, is_best in zip(left, (total == total.max()).tolist(), strict=True) if is_best]
    return replace(examination, feasible=left, raw=raw, normalized=normalized, total=total, best=best)


def weights_of(answers: Sequence[ExtenderAnswer]) -> dict[str, int]:
    """Return the factor of each extender's scores of 0 to 10."""
    factor = MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY
    return {answer.name: answer.weight * factor for answer in answers if answer.scores}
