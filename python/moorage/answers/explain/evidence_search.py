"""The verdicts of filters and extenders on every node, and the evidence by which they reject nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage._core.decide.decider import count_verdicts
from moorage.cluster.examine import Examination, score_rows
from moorage.engine.framework import (
    MAX_NODE_SCORE,
    Code,
    CycleState,
    FilterPlugin,
    PreFilterRun,
    Status,
)
from moorage.engine.framework.evidence import (
    Evidence,
    FindEvidence,
    RejectedPod,
    Rows,
)
from moorage.engine.framework.handle import Extender
from moorage.engine.scheduler.cycle.diagnosis import Diagnosis
from moorage.engine.scheduler.cycle.extended_search import MAX_EXTENDER_PRIORITY
from moorage.errors import ExtenderError
from moorage.grouped import grouped
from moorage.kube import Node, Pod

from .probe import Probe
from .rules.all_rules import finder_of
from .rules.merge_evidence import merge_evidence

# ---- verdicts of all filters -------------------------------------------------------------------------------


class FilterVerdicts(Struct, frozen=True):
    """The verdict of one filter on every node, independent of the other filters.

    Attributes
    ----------
    codes : (nodes,) int array
        In list order: 0 where the node passes, otherwise an index into `statuses`.
    statuses : list of Status or None
        The first is None, for nodes that pass.
    """

    plugin: str
    codes: npt.NDArray[np.intp]
    statuses: list[Status | None]


class EvidenceSearch:
    """Finds the evidence of nodes; each plugin is asked once about the pod.

    Parameters
    ----------
    probe : Probe
        Of the pod, in the cluster in which it is explained.
    state : CycleState
        Of the pod, after PreFilter.
    rows : (nodes,) int32 array
        Rows of the nodes, in list order.
    """

    def __init__(
        self, probe: Probe, state: CycleState, filters: Sequence[FilterVerdicts], rows: Rows
    ) -> None:
        self._probe, self._filters, self._rows = probe, filters, rows
        plugins = {plugin.name: plugin for plugin in probe.engine.profile.at(FilterPlugin)}
        self._makers = {name: finder_of(plugin) for name, plugin in plugins.items()}
        self._inquiry = RejectedPod(probe.pod, state, probe.engine.search, self._says)
        self._positions = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.intp)
        self._positions[rows] = np.arange(len(rows))
        self._finders: dict[object, FindEvidence] = {}

    def _finder(self, name: str) -> FindEvidence | None:
        make = self._makers.get(name)
        if make is not None and make not in self._finders:
            self._finders[make] = make(self._probe, self._inquiry)
        return self._finders.get(make)

    def find(self, positions: Sequence[int], verdicts: Iterable[Status]) -> list[Evidence]:
        """Find the evidence of nodes with equal verdicts.

        Parameters
        ----------
        positions : sequence of int
            Indexes of the nodes in list order.
        verdicts : iterable of Status
            The rejections of these nodes, in the order of the filters.

        Returns
        -------
        list of Evidence
            That of the most nodes first.
        """
        rows = self._rows[np.asarray(positions, dtype=np.intp)]
        return merge_evidence(self._of(rows, verdicts))

    def _of(self, rows: Rows, verdicts: Iterable[Status]) -> Iterator[Evidence]:
        named = ((name, status) for status in verdicts for name in status.plugin.split())
        by_finder = grouped((self._finder(name), (name, status)) for name, status in named)
        for find, by in by_finder.items():
            if find is not None:
                plugins = " ".join(name for name, _ in by)
                yield from (replace(fact, plugin=plugins) for fact in find(rows, by[0][1]))

    def rejections(self, position: int) -> list[Status]:
        """Return what the filters say of a node.

        Parameters
        ----------
        position : int
            Its index in list order.
        """
        statuses = (each.statuses[each.codes[position]] for each in self._filters)
        return [status for status in statuses if status is not None]

    def _says(self, row: int, but: str) -> list[str]:
        statuses = self.rejections(int(self._positions[row]))
        others = [status for status in statuses if but not in status.plugin.split()]
        rows = np.array([row], dtype=np.int32)
        texts = [fact.text for fact in self._of(rows, others)]
        return texts or [reason for status in others for reason in status.reasons]


# ---- extenders: whom they reject, how they score, or their error -------------------------------------------

MOST_REASONS = 3
NO_REASON = "the extender gives no reason"


@dataclass(frozen=True)
class ExtenderAnswer:
    """What one extender answers about a pod.

    Attributes
    ----------
    nodes : int
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
    nodes: int
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
        if not self.nodes:
            return f"extender {self.name} is not asked: no node is left for it"
        parts = [f"extender {self.name} accepts {self.nodes - len(self.rejected)} of {self.nodes} nodes"]
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
    verdicts = []
    for answer in answers:
        if answer.rejected:
            numbers: dict[Status | None, int] = {None: 0}
            codes = [numbers.setdefault(answer.rejected.get(name), len(numbers)) for name in order]
            verdicts.append(FilterVerdicts(answer.name, np.array(codes, dtype=np.intp), list(numbers)))
    return verdicts


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
    """
    engine, (state, ran) = probe.engine, begun
    statuses = {name: status for answer in answers for name, status in answer.rejected.items()}
    left = [name for name in examination.feasible if name not in statuses]
    if not any(answer.rejected or answer.scores or answer.as_empty for answer in answers):
        return examination
    if not left:
        _, verdicts, numbered = engine.verdicts(state.target)
        diagnosis = Diagnosis(
            len(examination.order),
            engine.framework.profile_of(state.target),
            state.shape,
            verdicts=count_verdicts(verdicts),
            absent=ran.absent,
            statuses=numbered,
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
