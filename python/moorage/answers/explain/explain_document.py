"""An explanation as maps and lists, for JSON and YAML: the schema ``explain.moorage.dev/v1``.

``apiVersion``, ``kind``
    ``explain.moorage.dev/v1``, ``Explanation``. Fields may be added to v1; none changes its meaning.
``pod``, ``boundTo``, ``skipped``
    ``namespace/name``; the node that the pod was removed from for the explanation; why a run would ignore the
    pod. Empty where it does not apply, as everywhere.
``situation``
    ``kind``: ``in-turn`` (the state of the cluster at the pod's attempt in a run: the pods placed before are
    on nodes), ``alone`` (other pending pods are ignored), ``after-run`` (a run has ended) or ``now`` (the
    cache of the scheduler). ``placed`` and ``pending``: numbers of other pending pods that a run has placed
    by then, and that it has not. ``node``, ``message``: the result of the run for the pod.
``fits``, ``message``
    Whether some node is feasible; the FitError text, or the error of the cycle.
``nodes``
    ``total``, ``feasible``, and ``enough``, the number of feasible nodes after which a search ends.
``sampling``
    Why a run places the pod on another node than the best, where its search ends before that one.
``preFilter``
    ``plugins`` that rejected the pod (``code``, ``reasons``) or narrowed the search to ``nodeNames``,
    or null.
``skippedFilters``, ``skippedScores``
    Plugins that returned Skip.
``groups``
    Rejected nodes with equal verdicts of all filters, the largest group first: ``nodes`` (their number),
    ``names`` (the first few), ``verdicts`` (every filter that rejects: ``plugin``, ``code``, ``reasons``),
    and the evidence of these filters, the facts that they compared: ``needs`` (what nodes lack) and
    ``blockers`` (other objects: pods, claims, domains): ``kind``, ``name``, ``text``, number of ``nodes``, of
    blockers ``detail``, and what was compared, by kind: a resource's ``requested``, ``least`` and ``most``
    that is missing, as quantities; of a domain ``withPod``, ``fewest``, ``fewestIn``, ``maxSkew``,
    ``minDomains``; of a claim ``requested`` and ``largest``; of a driver's limit ``limit``, ``inUse``,
    ``wanted``; and so on. ``otherNeeds``, ``otherBlockers``: number of those that are not listed.
``weights``, ``ranking``
    Weight per score plugin; the best nodes with ``rank``, ``node``, ``total``, and ``raw`` and ``normalized``
    score per plugin. Total is the sum of normalized scores times weights.
``changes``
    Single changes that place the pod, best first: ``kind``, ``text``, ``feasibleNodes`` (their number
    after it). ``lower-request``: ``resource``, effective request ``from`` and ``to``, relative ``reduction``,
    ``edits`` (``path``, ``container``, ``from``, ``to``). ``add-toleration``: ``toleration``. ``add-label``:
    ``label``, one ``node``, and ``eligibleNodes``, the number of nodes
    on which it would help, one at a time; ``uncordon-node`` likewise. ``add-node``: the node it is
    ``like``, ``allocatable``. ``drop``: ``constraint`` (``kind``, ``name``). ``change-spread``:
    ``constraint``, its ``field`` (nodeTaintsPolicy, nodeAffinityPolicy, minDomains, maxSkew), ``from`` and
    ``to``.
    ``fewer-devices``, ``device-class``, ``tolerate-device``, ``add-selector``, ``free-claim``,
    ``drop-device-rule``: ``claim``, ``request``, what changes ``from`` and ``to``; so does
    ``smaller-claim`` (the storage of a PersistentVolumeClaim) and ``reprovision-claim`` (the node for which
    a claim is being provisioned). ``change-rollout``: ``workload``, its ``field`` (maxSurge, matchLabelKeys),
    ``from`` and ``to``.
``notes``
    Facts that no filter compares: ``kind``, ``text``, and the ``pods`` or ``nodes`` that it is about.
    ``own-old-pods``: a rollout waits for the old pods of its own workload; ``held-devices``: preemption does
    not free devices; ``other-os``: nodes whose operating system is not the pod's.
``changePairs``
    Where no single change places the pod: two ``changes`` that do together, with ``feasibleNodes``.
``conflicts``, ``blocked``
    Where no single change places the pod: sets of constraints (``kind``, ``name``), each minimal by
    inclusion; or the FitError text of a pod without these constraints, if no node is feasible for it.
``preemption``
    Null where a node is feasible, the pod has a group, or the profile does not preempt. ``message``: why the
    pod may not preempt; ``potential``: number of nodes where that could help; ``candidates``, the chosen one
    first, then in order of their dry runs: ``node``, ``victims`` (``pod``, ``priority``, ``startTime``),
    ``pdbViolations``, ``violatedBudgets`` (``namespace/name``), ``sumOfPriorities``; ``otherCandidates``
    (number of those that are not listed); ``rejected`` (reason to number of nodes where it does not help);
    ``chosen`` node, the ``criterion`` that decided, the nodes ``tied`` then; ``raisedPriority``: null, or the
    least ``priority`` with which a pod that evicts nobody would get a ``node``, the ``priorityClass`` of the
    cluster that is enough ("" for none), ``victims``, ``violatedBudgets``, and all that as ``text``.
``claims``
    The pod's claims for devices: ``claim`` (``namespace/name``), ``use`` (its name in the pod; empty for the
    extended resources that device classes provide), ``devices`` and ``users`` of an allocated claim, else
    ``requests`` (an item per alternative): ``name``, ``class``, ``count`` (null: all), and ``steps``, the
    rules in order, with what each leaves: ``kind``, ``text`` (a CEL expression, a constraint), number of
    ``devices``, ``mostOnANode``, ``nodesWithEnough``, ``error``, ``holders`` (``claim``, ``users``, number of
    ``devices`` that they keep from the request).
``extenders``
    What each extender that is interested in the pod answers: ``name``, ``text``, ``weight``, number of nodes
    that were ``asked`` about and ``rejected``, ``reasons`` (reason to number of nodes), if it ``scores``,
    ``nodesAsEmpty`` (nodes are scored as if they had no pods), ``error`` ("" for an answer; else verdicts and
    ranking are without it). Changes are tried without extenders.
``group``
    Null where the pod is not placed together with others. The ``group`` and the composite one at the top of
    its ``tree``, ``minCount``, numbers of its ``pods`` and of those that are ``scheduled``, how many of the
    others ``fit`` at once, in which ``domain``; the ``next`` pod, which fits nowhere beside these, with its
    ``message`` and ``nodes`` (as ``groups``); ``changes`` with which the group is placed: ``kind``, ``text``,
    how many pods are ``placed`` then; ``nodes`` and ``like`` of ``add-node``, ``node`` of ``uncordon-node``
    and ``add-label``, ``resource``, ``from`` and ``to`` of ``lower-request``, ``from`` and ``to`` of
    ``min-count`` and ``priority``.
``details``
    The requested nodes: ``node``, ``verdicts`` by filter (null: passes), ``needs``, ``blockers``, ``score``,
    and for a feasible node on which the pod is not placed ``comparison`` with the ``chosen`` one: ``text``,
    both totals, ``plugins`` by which they differ (``weight``, scores ``chosen`` and ``asked``),
    ``turningWeights`` (by plugin, the nearest weight with which the node would win).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from moorage.engine.devices.request_survey import SurveyStep
from moorage.engine.framework.evidence import Evidence
from moorage.engine.framework.status import Status
from moorage.engine.preemption.dry_run import Candidate
from moorage.engine.preemption.eviction_units import priority_of
from moorage.kube import Pod

from .claim_explanations import ClaimExplanation
from .evidence_search import ExtenderAnswer
from .explanation import (
    AlikeNodes,
    ExplainedGroup,
    ExplainedPod,
    GroupChange,
    GroupEvictions,
    NodeComparison,
    NodeExplanation,
)
from .pods_in_the_way import RaisedPriority
from .probe import HelpfulChange

API_VERSION = "explain.moorage.dev/v1"
EXAMPLES = 3
MOST_FACTS = 20
"""Maximum number of names and of facts per group, unless all are wanted."""

Json = dict[str, Any]


class Explanation(ExplainedPod):
    """The explanation of a pod's placement: why it is placed on its node, or on none; see `ExplainedPod`."""

    def to_dict(self) -> Json:
        """Return the explanation as a document of the schema ``explain.moorage.dev/v1``, with all nodes."""
        return document(self, None)


def document(explanation: ExplainedPod, limit: int | None = 10, nodes: Iterable[str] = ()) -> Json:
    """Return an explanation as a document of the schema ``explain.moorage.dev/v1``.

    Parameters
    ----------
    limit : int, optional
        Number of feasible nodes that are listed; None for all of them, and all names of each group.
    nodes : iterable of str, optional
        Names of nodes with details.

    Returns
    -------
    dict
        Of JSON values.

    Raises
    ------
    KeyError
        There is no node of a name.
    """
    seen = explanation.examination
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "pod": explanation.pod.key,
        "boundTo": explanation.bound_to,
        "skipped": explanation.skipped,
        "situation": asdict(explanation.situation),
        "fits": bool(explanation.feasible),
        "message": explanation.message,
        "nodes": {
            "total": len(explanation.order),
            "feasible": len(explanation.feasible),
            "enough": explanation.enough,
        },
        "sampling": explanation.sampling,
        "preFilter": _pre_filter(explanation),
        "skippedFilters": seen.skipped_filter,
        "skippedScores": seen.skipped_score,
        "groups": [_group(group, limit) for group in explanation.groups],
        "weights": explanation.weights,
        "ranking": [asdict(node) for node in explanation.ranking(limit)],
        "changes": [_change(change) for change in explanation.changes],
        "changePairs": [
            {"changes": [_change(pair.first), _change(pair.second)], "feasibleNodes": pair.feasible_nodes}
            for pair in explanation.pairs
        ],
        "conflicts": [[each.named for each in conflict] for conflict in explanation.conflicts],
        "blocked": explanation.blocked,
        "notes": [asdict(note) for note in explanation.notes],
        "preemption": _preemption(explanation, limit),
        "claims": [_claim(claim) for claim in explanation.claims],
        "extenders": [_extender(answer) for answer in explanation.extenders],
        "group": _explained_group(explanation.group, limit),
        "details": [_details(explanation.node(name)) for name in nodes],
    }


def _explained_group(group: ExplainedGroup | None, limit: int | None) -> Json | None:
    """Return the field ``group``."""
    if group is None:
        return None
    return {
        "group": group.group,
        "tree": group.tree,
        "minCount": group.minimum,
        "pods": group.pods,
        "scheduled": group.scheduled,
        "fit": group.fits,
        "domain": group.domain,
        "next": group.next,
        "message": group.message,
        "nodes": [_group(node, limit) for node in group.nodes],
        "changes": [_group_change(change) for change in group.changes],
        "evictions": _group_evictions(group.evictions),
    }


def _group_evictions(evictions: GroupEvictions | None) -> Json | None:
    """Return the field ``group.evictions``."""
    if evictions is None:
        return None
    victims = [{"pod": pod.key, "priority": priority_of(pod)} for pod in evictions.victims]
    return {
        "priority": evictions.priority,
        "own": evictions.is_own,
        "placed": evictions.placed,
        "victims": victims,
    }


def _group_change(change: GroupChange) -> Json:
    """Return one item of ``group.changes``."""
    return {"kind": change.kind, "text": change.text, "placed": change.placed} | change.values


def _pre_filter(explanation: ExplainedPod) -> Json | None:
    """Return the field ``preFilter``."""
    outcome = explanation.examination.pre_filter
    if outcome is None:
        return None
    return {
        "plugins": outcome.plugins or [outcome.plugin],
        "code": str(outcome.code),
        "reasons": list(outcome.reasons),
        "nodeNames": outcome.node_names or [],
    }


def _status(status: Status | None) -> Json | None:
    """Return a status as plugin, code and reasons; None for None."""
    if status is None:
        return None
    return {"plugin": status.plugin, "code": str(status.code), "reasons": list(status.reasons)}


def _group(group: AlikeNodes, limit: int | None) -> Json:
    """Return one item of ``groups``."""
    needs, blockers = (
        [evidence for evidence in group.evidence if evidence.is_need is side] for side in (True, False)
    )
    most = None if limit is None else MOST_FACTS
    return {
        "nodes": len(group.nodes),
        "names": group.nodes if limit is None else group.nodes[:EXAMPLES],
        "verdicts": [_status(status) for status in group.verdicts],
        "needs": [_evidence(need) for need in needs[:most]],
        "otherNeeds": 0 if limit is None else max(len(needs) - MOST_FACTS, 0),
        "blockers": [_evidence(blocker) for blocker in blockers[:most]],
        "otherBlockers": 0 if limit is None else max(len(blockers) - MOST_FACTS, 0),
    }


def _evidence(evidence: Evidence) -> Json:
    """Return a fact with the numbers that were compared."""
    detail = {} if evidence.is_need else {"detail": evidence.detail}
    facts = {"text": evidence.text} | evidence.facts()
    return {"kind": evidence.kind, "name": evidence.name} | detail | {"nodes": evidence.nodes} | facts


def _need(evidence: Evidence) -> Json:
    """Return a fact about one node; of a resource with what is missing."""
    need = _evidence(evidence)
    return need | ({"missing": need["least"]} if "least" in need else {})


def _details(node: NodeExplanation) -> Json:
    """Return one item of ``details``."""
    return {
        "node": node.node,
        "verdicts": {plugin: _status(status) for plugin, status in node.verdicts.items()},
        "needs": [_need(evidence) for evidence in node.evidence if evidence.is_need],
        "blockers": [_evidence(evidence) for evidence in node.evidence if not evidence.is_need],
        "score": asdict(node.score) if node.score else None,
        "comparison": _comparison(node.comparison) if node.comparison else None,
    }


def _comparison(comparison: NodeComparison) -> Json:
    """Return ``details.comparison``."""
    return {
        "text": comparison.text,
        "chosen": comparison.chosen,
        "chosenTotal": comparison.chosen_total,
        "total": comparison.other_total,
        "plugins": [
            {"plugin": each.plugin, "weight": each.weight, "chosen": each.chosen, "asked": each.other}
            for each in comparison.differences
        ],
        "turningWeights": comparison.turning,
    }


def _extender(answer: ExtenderAnswer) -> Json:
    """Return one item of ``extenders``."""
    reasons = Counter(reason for status in answer.rejected.values() for reason in status.reasons)
    return {
        "name": answer.name,
        "text": answer.text,
        "weight": answer.weight,
        "asked": answer.nodes,
        "rejected": len(answer.rejected),
        "reasons": dict(reasons),
        "scores": bool(answer.scores),
        "nodesAsEmpty": answer.as_empty,
        "error": answer.error,
    }


def _preemption(explanation: ExplainedPod, limit: int | None) -> Json | None:
    """Return the field ``preemption``."""
    seen, raised = explanation.preemption, explanation.raised_priority
    if seen is None:
        return None
    steps, choice = seen.dry_run, seen.choice
    shown = seen.listed(limit)
    return {
        "message": steps.message,
        "potential": len(steps.potential),
        "candidates": [
            _candidate(step) | {"violatedBudgets": list(explanation.violated_budgets.get(step.name, ()))}
            for step in shown
        ],
        "otherCandidates": len(steps.candidates) - len(shown),
        "rejected": seen.rejections(),
        "chosen": None if choice is None else choice.candidate.name,
        "criterion": None if choice is None else choice.criterion,
        "tied": [] if choice is None else list(choice.tied),
        "raisedPriority": None if raised is None else _raised(raised),
    }


def _raised(raised: RaisedPriority) -> Json:
    """Return ``preemption.raisedPriority``."""
    return {
        "text": raised.text,
        "priority": raised.priority,
        "priorityClass": raised.class_name,
        "node": raised.node,
        "victims": [_victim(pod) for pod in raised.victims],
        "violatedBudgets": list(raised.budgets),
    }


def _victim(pod: Pod) -> Json:
    return {"pod": pod.key, "priority": priority_of(pod), "startTime": pod.status.start_time}


def _candidate(candidate: Candidate) -> Json:
    """Return one item of ``preemption.candidates``."""
    victims = candidate.victims
    return {
        "node": candidate.name,
        "victims": [_victim(pod) for pod in victims.pods],
        "pdbViolations": victims.num_pdb_violations,
        "sumOfPriorities": sum(map(priority_of, victims.pods)),
    }


def _change(change: HelpfulChange) -> Json:
    """Return one item of ``changes``."""
    return {"kind": change.kind, "text": change.text, "feasibleNodes": change.feasible_nodes} | change.values


# ---- claims ------------------------------------------------------------------------------------------------


def _claim(claim: ClaimExplanation) -> Json:
    """Return one item of ``claims``."""
    return {
        "claim": claim.claim,
        "use": claim.use,
        "devices": list(claim.devices),
        "users": list(claim.users),
        "requests": [
            {
                "name": survey.request.full_name,
                "class": survey.request.class_name,
                "count": None if survey.request.wants_all else survey.request.count,
                "steps": [_step(step) for step in survey.steps],
            }
            for survey in claim.requests
        ],
    }


def _step(step: SurveyStep) -> Json:
    """Return one item of ``claims.requests.steps``."""
    return {
        "kind": step.kind,
        "text": step.text,
        "devices": step.devices,
        "mostOnANode": step.most,
        "nodesWithEnough": step.nodes,
        "error": step.error,
        "holders": [
            {"claim": holder.claim, "users": list(holder.users), "devices": holder.devices}
            for holder in step.holders
        ],
    }
