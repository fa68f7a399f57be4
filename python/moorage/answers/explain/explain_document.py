"""The document of an explanation, ``explain.moorage.dev/v1``: fields may be added, none changes its meaning.

Where a field does not apply, it is empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, convert, defstruct, field

from moorage.cluster.helpful_changes import HelpfulChange, Kind
from moorage.document import Count, Document, Positive
from moorage.engine.framework.evidence import Evidence
from moorage.engine.framework.status import Status
from moorage.engine.preemption.dry_run import Candidate
from moorage.engine.preemption.eviction_units import priority_of
from moorage.kube import Pod

from .evidence_search import ExtenderAnswer
from .explanation import (
    AlikeNodes,
    ExplainedGroup,
    ExplainedPod,
    NodeExplanation,
    Note,
    ScoreDifference,
    ScoredNode,
    Situation,
)
from .pod_claims import ClaimExplanation
from .request_survey import SurveyStep

EXAMPLES = 3
MOST_FACTS = 20
"""Maximum number of names and of facts per group, unless all are wanted."""

# ---- what rejects nodes ------------------------------------------------------------------------------------

Json = dict[str, Any]
TEXTS = (
    "allocatable amount capacity claim container containers controller driver feature fewestIn largest least "
    "missing most namespaces node of overhead pod port problem reason requested requirement resource "
    "selectedNode selector since storageClass taint topologyKey value volume without"
)
NUMBERS = (
    "domains fewest inUse limit maxSkew minDomains nominated otherFewest priority terminating wanted withPod"
)
FLAGS = "byProfile ended grows hostNetwork isDefault isNominated matchesItself podLevel theirs"
LISTS = "attachedVolumes attachments fewestNodes near otherNamespaces pods"
KINDS = ((TEXTS, str), (NUMBERS, int), (FLAGS, bool), (LISTS, list[str]))
FIELDS: list[Any] = [("kind", str), ("name", str), ("nodes", Count), ("text", str)]
FIELDS += [("detail", str | UnsetType, UNSET)]
FIELDS += [(name, kind | UnsetType, UNSET) for names, kind in KINDS for name in names.split()]
ComparedFact = defstruct("ComparedFact", FIELDS, bases=(Document,), frozen=True)
"""A fact by which a filter rejects nodes, with what it compared: which fields there are depends on kind."""
ComparedFacts = list[Annotated[Json, Meta(extra_json_schema={"$ref": "#/$defs/ComparedFact"})]]


class FilterStatus(Document, frozen=True):
    """What a filter says."""

    plugin: str
    code: str
    reasons: tuple[str, ...]


class PreFilterDocument(Document, frozen=True):
    """What happened before filters."""

    plugins: list[str]
    """Those that rejected the pod, or narrowed the search."""
    code: str
    reasons: tuple[str, ...]
    node_names: list[str]
    """What they narrowed the search to."""


class RejectedNodes(Document, frozen=True):
    """Rejected nodes with equal verdicts of all filters."""

    nodes: Count
    names: list[str]
    """The first few."""
    verdicts: list[FilterStatus]
    """Every filter that rejects them."""
    needs: ComparedFacts
    """What the nodes lack: facts that the filters compared."""
    other_needs: Count
    """Number of those that are not listed."""
    blockers: ComparedFacts
    """Other objects that keep the pod off: pods, claims, domains."""
    other_blockers: Count
    """Number of those that are not listed."""


# ---- changes -----------------------------------------------------------------------------------------------


class NamedConstraint(Document, frozen=True):
    """Something that the pod asks for."""

    kind: str
    name: str


class RequestEdit(Document, frozen=True):
    """One field of a pod that is lowered."""

    path: str
    container: str
    before: str = field(name="from")
    to: str


class ChangeDocument(Document, frozen=True, kw_only=True):
    """A change that places the pod, or its group."""

    kind: str
    text: str
    feasible_nodes: Count | UnsetType = UNSET
    """Of a change of the pod: how many nodes are feasible after it."""
    placed: Count | UnsetType = UNSET
    """How many pods that wait like it have a node then: with other pods that wait, too, where it brings room
    that these may take; of a change of the group, its pods with a node."""
    deleted: str | UnsetType = UNSET
    """The pod that is deleted, which its workload makes again."""
    alone: bool | UnsetType = UNSET
    """Whether that is without the other pods that wait, as they take the room, or are too many to be
    tried."""
    victims: list[str] | UnsetType = UNSET
    """Whom the pod evicts after the change, if it fits nowhere without; as ``namespace/name``."""
    resource: str | UnsetType = UNSET
    """Of lower-request."""
    workload: str | UnsetType = UNSET
    """Of change-rollout, undo-rollout and fewer-replicas."""
    constraint: NamedConstraint | UnsetType | None = UNSET
    """Of drop and change-spread."""
    changed_field: str | UnsetType = field(default=UNSET, name="field")
    """Of change-spread: nodeTaintsPolicy, nodeAffinityPolicy, minDomains or maxSkew; of change-rollout:
    maxSurge or matchLabelKeys; of undo-rollout revision, of fewer-replicas replicas."""
    claim: str | UnsetType = UNSET
    """Of changes of claims for devices or storage."""
    request: str | UnsetType = UNSET
    before: str | UnsetType = field(default=UNSET, name="from")
    """What is changed; of lower-request, the effective request; of min-count, the minimum; of priority, that
    of the group."""
    to: str | UnsetType = UNSET
    reduction: float | UnsetType = UNSET
    """Of lower-request: which part less."""
    edits: list[RequestEdit] | UnsetType = UNSET
    toleration: dict[str, str | int] | UnsetType = UNSET
    """Of add-toleration."""
    label: dict[str, str] | UnsetType = UNSET
    """Of add-label; of add-node, what the copy has in any case."""
    node: str | UnsetType = UNSET
    """Of add-label and uncordon-node: one node on which it helps."""
    eligible_nodes: Count | UnsetType = UNSET
    """The number of nodes on which it would help, one at a time."""
    like: str | UnsetType = UNSET
    """Of add-node: the node to copy."""
    nodes: Positive | UnsetType = UNSET
    """Of add-node: how many copies, if more than one."""
    allocatable: dict[str, str | int | float] | UnsetType = UNSET


class ChangePairDocument(Document, frozen=True):
    """Two changes that place the pod together."""

    changes: list[ChangeDocument]
    feasible_nodes: Count


# ---- preemption --------------------------------------------------------------------------------------------


class VictimDocument(Document, frozen=True):
    """A pod that would be evicted."""

    pod: str
    """``namespace/name``."""
    priority: int
    start_time: str | UnsetType | None = UNSET


class CandidateDocument(Document, frozen=True):
    """A node where evictions would help."""

    node: str
    victims: list[VictimDocument]
    pdb_violations: Count
    sum_of_priorities: int
    violated_budgets: tuple[str, ...]
    """``namespace/name`` of each."""


class RaisedPriorityDocument(Document, frozen=True):
    """The least priority with which a pod that evicts nobody would get a node."""

    text: str
    priority: int
    class_name: str = field(name="priorityClass")
    """The one of the cluster that is enough; empty for none."""
    node: str
    victims: list[VictimDocument]
    budgets: tuple[str, ...] = field(name="violatedBudgets")


class PreemptionDocument(Document, frozen=True):
    """Whom the pod would evict."""

    message: str
    """Why the pod may not preempt."""
    potential: Count
    """Number of nodes where that could help."""
    candidates: list[CandidateDocument]
    """The chosen one first, then in order of their dry runs."""
    other_candidates: Count
    """Number of those that are not listed."""
    rejected: dict[str, Count]
    """Reason to number of nodes where it does not help."""
    chosen: str | None
    criterion: str | None
    """What decided."""
    tied: list[str]
    """The nodes that were left then."""
    raised_priority: RaisedPriorityDocument | None


class GroupEvictionsDocument(Document, frozen=True):
    """Whom a group evicts."""

    priority: int
    own: bool
    """Whether it is the priority of the group."""
    placed: Count
    """Pods of the group that are nominated to nodes."""
    victims: list[VictimDocument]


# ---- claims, extenders, groups, nodes ----------------------------------------------------------------------


class RequestDocument(Document, frozen=True):
    """A request of a claim, or one of its alternatives."""

    name: str
    class_name: str = field(name="class")
    count: int | None
    """Null for all."""
    steps: list[SurveyStep]
    """The rules in order."""


class ClaimDocument(Document, frozen=True):
    """A claim of the pod for devices."""

    claim: str
    """``namespace/name``."""
    use: str
    """Its name in the pod; empty for the extended resources that device classes provide."""
    devices: tuple[str, ...]
    """Of an allocated claim."""
    users: tuple[str, ...]
    """Of an allocated claim."""
    requests: list[RequestDocument]
    """Of another one."""


class ExtenderDocument(Document, frozen=True):
    """What an extender answers that is interested in the pod. Changes are tried without extenders."""

    name: str
    text: str
    weight: int
    nodes: Count = field(name="asked")
    """Number of nodes."""
    rejected: Count
    """Number of nodes."""
    reasons: dict[str, Count]
    """Reason to number of nodes."""
    scores: bool
    as_empty: bool = field(name="nodesAsEmpty")
    """Whether nodes are scored as if they had no pods."""
    error: str
    """Empty for an answer; else verdicts and ranking are without it."""


class GroupDocument(Document, frozen=True):
    """The group that a pod is placed with."""

    group: str
    """``namespace/name`` of the pod group."""
    tree: str
    """The composite group at the top of its tree; empty for none."""
    minimum: Count = field(name="minCount")
    """Pods that need a node; 1 without a minimum, 0 if there is no such PodGroup."""
    pods: Count
    """Pods of the group that there are."""
    scheduled: Count
    """Those of them that have a node."""
    fits: Count = field(name="fit")
    """How many of the others fit at once, without evictions."""
    domain: str
    """LABEL=VALUE of the domain in which the most fit, of a group that is bound to a topology; else empty."""
    next: str
    """The first pod that fits nowhere beside those; empty where all fit."""
    message: str
    """Why it fits nowhere, or why the pods cannot form a group."""
    nodes: list[RejectedNodes]
    """Nodes of the domain, or all, that reject the next pod beside the others."""
    changes: list[ChangeDocument]
    """Single changes with which the group is placed, each tried."""
    evictions: GroupEvictionsDocument | None
    """Whom the group evicts that is not placed without: with its priority, or else with the smallest higher
    one of group and pods that helps; null if none does."""


class ComparisonDocument(Document, frozen=True):
    """A feasible node on which the pod is not placed, beside the chosen one."""

    text: str
    chosen: str
    chosen_total: int
    other_total: int = field(name="total")
    differences: list[ScoreDifference] = field(name="plugins")
    """Those by which they differ."""
    turning: dict[str, int] = field(name="turningWeights")
    """By plugin, the nearest weight with which the node would win."""


class NodeDetails(Document, frozen=True):
    """A node that was asked about."""

    node: str
    verdicts: dict[str, FilterStatus | None]
    """By filter; null where it passes."""
    needs: ComparedFacts
    blockers: ComparedFacts
    score: ScoredNode | None
    comparison: ComparisonDocument | None


# ---- the whole ---------------------------------------------------------------------------------------------


class NodeCounts(Document, frozen=True):
    """Numbers of nodes."""

    total: Count
    feasible: Count
    enough: Count
    """The number of feasible nodes after which a search ends."""


class ExplanationDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage explain`` about one pod."""

    api_version: Literal["explain.moorage.dev/v1"] = "explain.moorage.dev/v1"
    kind: Literal["Explanation"] = "Explanation"
    pod: str
    """``namespace/name``."""
    bound_to: str
    """The node that the pod was removed from for the explanation."""
    skipped: str
    """Why a run would ignore the pod."""
    situation: Situation
    fits: bool
    """Whether some node is feasible."""
    message: str
    """The FitError text, or the error of the cycle."""
    nodes: NodeCounts
    sampling: str
    """Why a run places the pod on another node than the best, where its search ends before that one."""
    pre_filter: PreFilterDocument | None
    skipped_filters: list[str]
    """Plugins that returned Skip."""
    skipped_scores: list[str]
    """Plugins that returned Skip."""
    groups: list[RejectedNodes]
    """Those of the fewest rejections that no eviction resolves first, then of the fewest rejections, then the
    largest group."""
    weights: dict[str, int]
    """By score plugin."""
    ranking: list[ScoredNode]
    """The best nodes."""
    changes: list[ChangeDocument]
    """Single changes that place the pod, best first."""
    tried: list[str]
    """The kinds of changes that were tried."""
    nothing_places: str
    """That none of these places the pod; empty where one does, or where it evicts others."""
    change_pairs: list[ChangePairDocument]
    """Where no single change places the pod."""
    conflicts: list[list[NamedConstraint]]
    """Where no single change places the pod: sets of constraints, each minimal by inclusion."""
    blocked: str
    """The FitError text of a pod without these constraints, if no node is feasible for it."""
    notes: list[Note]
    """Facts that no filter compares."""
    preemption: PreemptionDocument | None
    """Null where a node is feasible, the pod has a group, or the profile does not preempt."""
    claims: list[ClaimDocument]
    extenders: list[ExtenderDocument]
    group: GroupDocument | None
    """Null where the pod is not placed together with others."""
    details: list[NodeDetails]
    """The requested nodes."""


class ExplainedPods(Document, frozen=True):
    """Pods of a workload that share an explanation."""

    namespace: str
    workload: str
    pods: tuple[str, ...]
    """The pods that the explanation is of, as namespace/name."""
    own: dict[str, list[str]]
    """By pod, the objects of its own that the explanation names, such as its claims; where the explanations
    of pods are told as one."""
    explanation: ExplanationDocument


class PodsNotMade(Document, frozen=True):
    """Pods of a workload that nobody makes, or an object that the API server refuses."""

    namespace: str
    workload: str
    status: str
    """Such as refused, as in the answer of simulate."""
    pods: tuple[str, ...]
    reason: str
    notes: tuple[str, ...] = ()
    """The limit range that refuses them, and what would help, each tried alone."""


class ExplanationList(Document, frozen=True, kw_only=True):
    """The answer of ``moorage explain`` about several pods."""

    api_version: Literal["explain.moorage.dev/v1"] = "explain.moorage.dev/v1"
    kind: Literal["ExplanationList"] = "ExplanationList"
    items: list[ExplainedPods]
    not_made: list[PodsNotMade] = []


class Explanation(ExplainedPod):
    """The explanation of a pod's placement: why it is placed on its node, or on none; see `ExplainedPod`."""

    def document(self) -> ExplanationDocument:
        """Return the explanation as its document, with all nodes."""
        return document(self, None)


def document(
    explanation: ExplainedPod, limit: int | None = 10, nodes: Iterable[str] = ()
) -> ExplanationDocument:
    """Return an explanation as its document.

    Parameters
    ----------
    limit : int, optional
        Number of feasible nodes that are listed; None for all of them, and all names of each group.
    nodes : iterable of str, optional
        Names of nodes with details.

    Raises
    ------
    KeyError
        There is no node of a name.
    """
    seen = explanation.examination
    return ExplanationDocument.from_object(
        explanation,
        pod=explanation.pod.key,
        fits=bool(explanation.feasible),
        nodes=NodeCounts(len(explanation.order), len(explanation.feasible), explanation.enough),
        pre_filter=_pre_filter(explanation),
        skipped_filters=seen.skipped_filter,
        skipped_scores=seen.skipped_score,
        groups=[_group(group, limit) for group in explanation.groups],
        ranking=explanation.ranking(limit),
        changes=[_change(change) for change in explanation.changes],
        tried=[kind.value for kind in Kind if kind in explanation.kinds],
        change_pairs=[
            ChangePairDocument([_change(pair.first), _change(pair.second)], pair.feasible_nodes)
            for pair in explanation.pairs
        ],
        conflicts=[
            [NamedConstraint(each.kind, each.name) for each in conflict] for conflict in explanation.conflicts
        ],
        preemption=_preemption(explanation, limit),
        claims=[_claim(claim) for claim in explanation.claims],
        extenders=[_extender(answer) for answer in explanation.extenders],
        group=None if explanation.group is None else _explained_group(explanation.group, limit),
        details=[_details(explanation.node(name)) for name in nodes],
    )


def _explained_group(group: ExplainedGroup, limit: int | None) -> GroupDocument:
    return GroupDocument.from_object(
        group,
        nodes=[_group(node, limit) for node in group.nodes],
        changes=[*map(_change, group.changes)],
        evictions=None
        if (evictions := group.evictions) is None
        else GroupEvictionsDocument(
            evictions.priority,
            evictions.is_own,
            evictions.placed,
            [VictimDocument(pod.key, priority_of(pod)) for pod in evictions.victims],
        ),
    )


def _pre_filter(explanation: ExplainedPod) -> PreFilterDocument | None:
    outcome = explanation.examination.pre_filter
    if outcome is None:
        return None
    plugins = outcome.plugins or [outcome.plugin]
    return PreFilterDocument(plugins, str(outcome.code), outcome.reasons, outcome.node_names or [])


def _status(status: Status) -> FilterStatus:
    return FilterStatus(status.plugin, str(status.code), status.reasons)


def _group(group: AlikeNodes, limit: int | None) -> RejectedNodes:
    needs, blockers = (
        [evidence for evidence in group.evidence if evidence.is_need is side] for side in (True, False)
    )
    most = None if limit is None else MOST_FACTS
    return RejectedNodes(
        nodes=len(group.nodes),
        names=group.nodes if limit is None else group.nodes[:EXAMPLES],
        verdicts=[_status(status) for status in group.verdicts],
        needs=[_evidence(need) for need in needs[:most]],
        other_needs=0 if limit is None else max(len(needs) - MOST_FACTS, 0),
        blockers=[_evidence(blocker) for blocker in blockers[:most]],
        other_blockers=0 if limit is None else max(len(blockers) - MOST_FACTS, 0),
    )


def _evidence(evidence: Evidence) -> Json:
    """Return a fact with the numbers that were compared."""
    detail = {} if evidence.is_need else {"detail": evidence.detail}
    facts = {"text": evidence.text} | evidence.facts()
    return {"kind": evidence.kind, "name": evidence.name} | detail | {"nodes": evidence.nodes} | facts


def _details(node: NodeExplanation) -> NodeDetails:
    needs = [_evidence(evidence) for evidence in node.evidence if evidence.is_need]
    return NodeDetails(
        node=node.node,
        verdicts={
            plugin: None if status is None else _status(status) for plugin, status in node.verdicts.items()
        },
        needs=[need | ({"missing": need["least"]} if "least" in need else {}) for need in needs],
        blockers=[_evidence(evidence) for evidence in node.evidence if not evidence.is_need],
        score=node.score,
        comparison=None if node.comparison is None else ComparisonDocument.from_object(node.comparison),
    )


def _extender(answer: ExtenderAnswer) -> ExtenderDocument:
    reasons = Counter(reason for status in answer.rejected.values() for reason in status.reasons)
    numbers = {"rejected": len(answer.rejected), "reasons": dict(reasons)}
    return ExtenderDocument.from_object(answer, **numbers, scores=bool(answer.scores))


def _preemption(explanation: ExplainedPod, limit: int | None) -> PreemptionDocument | None:
    seen, raised = explanation.preemption, explanation.raised_priority
    if seen is None:
        return None
    steps, choice = seen.dry_run, seen.choice
    shown = seen.listed(limit)
    return PreemptionDocument(
        message=steps.message or seen.refusal,
        potential=len(steps.potential),
        candidates=[
            _candidate(step, tuple(explanation.violated_budgets.get(step.name, ()))) for step in shown
        ],
        other_candidates=len(steps.candidates) - len(shown),
        rejected=seen.rejections(),
        chosen=None if choice is None else choice.candidate.name,
        criterion=None if choice is None else choice.criterion,
        tied=[] if choice is None else list(choice.tied),
        raised_priority=None
        if raised is None
        else RaisedPriorityDocument.from_object(raised, victims=[*map(_victim, raised.victims)]),
    )


def _victim(pod: Pod) -> VictimDocument:
    return VictimDocument(pod.key, priority_of(pod), pod.status.start_time)


def _candidate(candidate: Candidate, budgets: tuple[str, ...]) -> CandidateDocument:
    victims = candidate.victims
    return CandidateDocument(
        candidate.name,
        [*map(_victim, victims.pods)],
        victims.num_pdb_violations,
        sum(map(priority_of, victims.pods)),
        budgets,
    )


def _change(change: HelpfulChange) -> ChangeDocument:
    head: Json = {"kind": change.kind.value, "text": change.text}
    head |= {"feasibleNodes": change.feasible_nodes} if change.feasible_nodes else {}
    head |= {"placed": change.placed} if change.placed else {}
    return convert(head | change.values, ChangeDocument)


# ---- claims ------------------------------------------------------------------------------------------------


def _claim(claim: ClaimExplanation) -> ClaimDocument:
    requests = [
        RequestDocument(
            survey.request.full_name,
            survey.request.class_name,
            None if survey.request.wants_all else survey.request.count,
            survey.steps,
        )
        for survey in claim.requests
    ]
    return ClaimDocument.from_object(claim, requests=requests)
