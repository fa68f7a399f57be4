"""The verdicts of filters and extenders on every node, and the evidence by which they reject nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage._core.decide.decider import count_verdicts
from moorage.engine.framework import (
    MAX_NODE_SCORE,
    Code,
    CycleState,
    FilterPlugin,
    Plugin,
    PreFilterRun,
    Status,
)
from moorage.engine.framework.evidence import (
    Evidence,
    Fact,
    FindEvidence,
    Need,
    RejectedPod,
    Rows,
    merge_evidence,
)
from moorage.engine.framework.handle import Extender
from moorage.engine.framework.in_tree_plugins import NativePlugin
from moorage.engine.framework.interface import EvidencePlugin
from moorage.engine.plugins.node_affinity_and_taints import (
    UNSCHEDULABLE,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodeUnschedulable,
    TaintToleration,
    requirement_text,
)
from moorage.engine.plugins.node_resources import ANY_IP, HostPort, NodePorts, NodeResourcesFit, has_conflict
from moorage.engine.requirements import (
    distinct,
    made_for,
    port_text,
    required_terms,
    requirements_of,
    untolerated,
)
from moorage.engine.scheduler.cycle.diagnosis import Diagnosis
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.engine.scheduler.cycle.examine import score_rows
from moorage.engine.scheduler.cycle.extended_search import MAX_EXTENDER_PRIORITY
from moorage.engine.scheduler.cycle.results import Examination
from moorage.errors import ExtenderError, nearest
from moorage.kube import Node, NodeSelector, NodeSelectorMatcher, NodeSelectorTerm, Pod

from .probe import Probe
from .room_evidence import room_evidence

# ---- filters that look at each node alone: name, labels, features, host ports, taints ----------------------

NO_TERMS = "terms (required node affinity has none)"
EMPTY_TERM = "(an empty term matches no node)"
BY_PROFILE = "addedAffinity of the profile"


def name_evidence(plugins: Mapping[str, Plugin], inquiry: RejectedPod) -> FindEvidence:
    """Return the function that says which node a pod names."""
    return lambda rows, status: [Need("node-name", inquiry.pod.spec.node_name, nodes=len(rows))]


def selection_evidence(plugins: Mapping[str, Plugin], inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the requirements on labels and names that nodes do not meet."""
    selector, only = inquiry.pod.spec.node_selector or {}, made_for(inquiry.pod)
    plugin = plugins[NodeAffinity.name]
    added = plugin.added.required if isinstance(plugin, NodeAffinity) and plugin.added else None
    own, enforced = required_terms(inquiry.pod.spec), None if added is None else added.node_selector_terms
    terms = [*(own or ()), *(enforced or ())]
    keys = {*selector, *(requirement.key for term in terms for requirement in term.match_expressions)}
    reads_names = any(term.match_fields for term in terms)
    unmet_own, unmet_enforced = _unmet(own), _unmet(enforced)
    state = inquiry.search.state

    @cache
    def absent(key: str, value: str) -> str:
        values = {node.metadata.labels.get(key) for node in state.table.objects if node is not None}
        known = [f"{key}={each}" for each in values if each is not None]
        return "" if value in values else f"no node has it{nearest(f'{key}={value}', known)}"

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        for row, nodes in ((row, 1) for row in rows.tolist()) if reads_names else inquiry.alike(rows, keys):
            node = inquiry.node(row)
            labels = node.metadata.labels
            unmet = {
                f"{key}={value}": absent(key, value)
                for key, value in selector.items()
                if labels.get(key) != value
            }
            unmet |= dict.fromkeys(unmet_own(node), "")
            if only is not None and only.about != node.name:
                yield replace(only, nodes=nodes)
            else:
                for text, how in unmet.items():
                    yield Need("label", text, how, values={"byProfile": False}, nodes=nodes)
            for text in dict.fromkeys(unmet_enforced(node)):
                yield Need("label", text, BY_PROFILE, values={"byProfile": True}, nodes=nodes)

    return find


def feature_evidence(plugins: Mapping[str, Plugin], inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the features that nodes do not declare."""

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        declared = Counter(inquiry.node(row).status.declared_features for row in rows.tolist())
        for features, nodes in declared.items():
            for feature in inquiry.state.shape.features:
                if feature not in features:
                    yield Need("feature", feature, nodes=nodes)

    return find


def _unmet(terms: Sequence[NodeSelectorTerm] | None) -> Callable[[Node], list[str]]:
    """Return the function that finds the requirements that a node does not meet; of several terms, those of
    the term with the fewest."""
    matchers = None if terms is None else [_matchers(term) for term in terms]

    def unmet(node: Node) -> list[str]:
        if matchers is None:
            return []
        lacking = [[text for text, matcher in term if not matcher.matches(node)] for term in matchers]
        return min(lacking, key=len, default=[NO_TERMS])

    return unmet


def _matchers(term: NodeSelectorTerm) -> list[tuple[str, NodeSelectorMatcher]]:
    """Return the requirements of a term, each on its own: its text, and what it matches."""
    alone = [NodeSelectorTerm(match_expressions=(requirement,)) for requirement in term.match_expressions]
    alone += [NodeSelectorTerm(match_fields=(requirement,)) for requirement in term.match_fields]
    if not alone:
        return [(EMPTY_TERM, NodeSelectorMatcher(NodeSelector()))]
    matchers = [NodeSelectorMatcher(NodeSelector(node_selector_terms=(term,))) for term in alone]
    return list(zip(map(requirement_text, requirements_of(term)), matchers, strict=True))


def port_evidence(plugins: Mapping[str, Plugin], inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the host ports of the pod that are not free, and the pods that hold
    them."""
    state, host_network = inquiry.search.state, inquiry.pod.spec.host_network
    names, everywhere = state.symbols.names, state.symbols.intern(ANY_IP)
    wanted = distinct(inquiry.state.shape.ports)

    def text_of(port: HostPort) -> str:
        return port_text((names[port[0]] or "", names[port[1]] or "", port[2]))

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        for row in rows.tolist():
            there = [(pod, "") for pod in inquiry.pods_on(row)]
            there += [(pod, ", nominated to the node") for pod in inquiry.nominated_on(row)]
            used = [
                (pod.key, held, nominated)
                for pod, nominated in there
                for held in distinct(state.classes.shape_of(state.classes.intern(pod)).ports)
            ]
            for port in wanted:
                if any(has_conflict(port, held, everywhere) for _, held, _ in used):
                    of = "hostNetwork" if host_network else ""
                    yield Need("host-port", text_of(port), of, values={"hostNetwork": host_network})
            for key, held, nominated in used:
                if any(has_conflict(port, held, everywhere) for port in wanted):
                    values = {"port": text_of(held), "isNominated": bool(nominated)}
                    yield Fact("pod", key, f"host port {text_of(held)}{nominated}", values=values)

    return find


def taint_evidence(plugins: Mapping[str, Plugin], inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the taints and cordons for which TaintToleration and NodeUnschedulable
    reject nodes."""
    having = inquiry.state.shape.tolerations
    by_taint, by_cordon = (plugin.name in plugins for plugin in (TaintToleration, NodeUnschedulable))

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        specs = (inquiry.node(row).spec for row in rows.tolist())
        alike = Counter((by_taint and spec.taints, by_cordon and spec.unschedulable) for spec in specs)
        for (taints, is_cordoned), nodes in alike.items():
            for taint in untolerated(having, taints or (), is_cordoned):
                name = taint.text
                words = f"cordoned ({name})" if taint == UNSCHEDULABLE else f"untolerated taint {name}"
                yield Need("toleration", name, words=words, nodes=nodes)

    return find


# ---- verdicts of all filters -------------------------------------------------------------------------------

NATIVE: dict[str, Callable[[Mapping[str, Plugin], RejectedPod], FindEvidence]] = {
    NodeUnschedulable.name: taint_evidence,
    TaintToleration.name: taint_evidence,
    NodeName.name: name_evidence,
    NodeAffinity.name: selection_evidence,
    NodePorts.name: port_evidence,
    NodeResourcesFit.name: room_evidence,
    NodeDeclaredFeatures.name: feature_evidence,
}
"""What finds the evidence of filters that compare a node alone, in the core. Filters with the same function
are asked together."""


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
    engine : Engine
        Over the state of the cluster in which the pod is explained.
    state : CycleState
        Of the pod, after PreFilter.
    rows : (nodes,) int32 array
        Rows of the nodes, in list order.
    """

    def __init__(
        self, engine: Engine, pod: Pod, state: CycleState, filters: Sequence[FilterVerdicts], rows: Rows
    ) -> None:
        self._plugins: dict[str, Plugin] = {plugin.name: plugin for plugin in engine.profile.at(FilterPlugin)}
        self._inquiry = RejectedPod(pod, state, engine.search, self._says)
        self._filters, self._rows = filters, rows
        self._positions = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.intp)
        self._positions[rows] = np.arange(len(rows))
        self._finders: dict[object, FindEvidence] = {}

    def add(self, plugin: str, find: FindEvidence) -> None:
        """Find the evidence of another plugin, too."""
        self._finders[plugin] = find

    def _finder(self, name: str) -> FindEvidence | None:
        plugin = self._plugins.get(name)
        make = NATIVE.get(name) if isinstance(plugin, NativePlugin) else None
        source = make or name
        if source not in self._finders and make is not None:
            self._finders[source] = make(self._plugins, self._inquiry)
        elif source not in self._finders and isinstance(plugin, EvidencePlugin):
            self._finders[source] = plugin.evidence(self._inquiry)
        return self._finders.get(source)

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
        searches: set[FindEvidence] = set()
        for status in verdicts:
            for name in status.plugin.split():
                find = self._finder(name)
                if find is not None and find not in searches:
                    searches.add(find)
                    yield from find(rows, status)

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
