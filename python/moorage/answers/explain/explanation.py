"""The result of `Questions.explain`: verdicts per filter, groups of nodes, scores, and changes that help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from moorage.cluster.examine import Examination
from moorage.cluster.helpful_changes import HelpfulChange, Kind, tried_text
from moorage.cluster.requirements import Constraint
from moorage.document import Count, Document
from moorage.engine.framework.evidence import Evidence
from moorage.engine.framework.status import Code, Status
from moorage.engine.preemption.eviction_units import priority_of
from moorage.errors import examples
from moorage.kube.model.pod import Pod
from moorage.table import Table, Tabular

from .changes import ChangePair
from .evidence_search import ExtenderAnswer, FilterVerdicts
from .examine_preemption import PreemptionExamination
from .pod_claims import ClaimExplanation
from .pods_in_the_way import RaisedPriority

# ---- why a pod goes to one node and not to another ---------------------------------------------------------


class ScoreDifference(Document, frozen=True):
    """The scores of two nodes by one plugin, normalized, before its weight."""

    plugin: str
    weight: int
    chosen: int
    other: int = msgspec.field(name="asked")

    @property
    def weighted(self) -> int:
        """How far the other node is ahead by this plugin, in points of the total."""
        return self.weight * (self.other - self.chosen)


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """A node, and the one on which the pod is placed.

    Attributes
    ----------
    chosen, other : str
    chosen_total, other_total : int
    differences : list of ScoreDifference
        Of the plugins by which the nodes differ, those that speak most for the chosen one first.
    turning : dict of str to int
        By plugin, the nearest weight with which the other node alone would have the highest total.
    cause : str
        Why the pod is not on a better node than the chosen one, where that is known; else "".
    """

    chosen: str
    other: str
    chosen_total: int
    other_total: int
    differences: list[ScoreDifference]
    turning: dict[str, int]
    cause: str = ""

    @property
    def text(self) -> str:
        """The result in words."""
        behind = self.chosen_total - self.other_total
        if behind == 0:
            return f"{self.other} has the total of {self.chosen}: the order among equal ones decides"
        if behind < 0:
            return f"{self.other} is {-behind} ahead of {self.chosen}" + (self.cause and f": {self.cause}")
        weights = {difference.plugin: difference.weight for difference in self.differences}
        turns = [f"{plugin} x{weight} (now x{weights[plugin]})" for plugin, weight in self.turning.items()]
        would = f"; it would win with {' or '.join(turns)}" if turns else "; no weight of one plugin turns it"
        return f"{self.other} is {behind} behind {self.chosen}{would}"


MOST_WEIGHT = 100
"""The largest weight that is tried."""


def compare_nodes(
    examination: Examination, weights: Mapping[str, int], chosen: str, other: str
) -> NodeComparison | None:
    """Compare a node with the one on which a pod is placed.

    Parameters
    ----------
    weights : mapping of str to int
        By plugin.

    Returns
    -------
    NodeComparison or None
        None unless both are feasible and different, and have scores.
    """
    feasible = examination.feasible
    if chosen == other or chosen not in feasible or other not in feasible or not len(examination.total):
        return None
    places = feasible.index(chosen), feasible.index(other)
    differences = [
        ScoreDifference(plugin, weights[plugin], int(column[places[0]]), int(column[places[1]]))
        for plugin, column in examination.normalized.items()
        if column[places[0]] != column[places[1]]
    ]
    differences.sort(key=lambda difference: difference.weighted)
    turning = {
        difference.plugin: weight
        for difference in differences
        if (weight := _turning_weight(examination, difference, places[1])) is not None
    }
    totals = int(examination.total[places[0]]), int(examination.total[places[1]])
    return NodeComparison(chosen, other, *totals, differences, turning)


def _turning_weight(examination: Examination, difference: ScoreDifference, place: int) -> int | None:
    """Return the weight of a plugin nearest to its present one with which a node has the highest total alone;
    None if there is none from 1 to `MOST_WEIGHT`."""
    column = examination.normalized[difference.plugin]
    rest = examination.total - difference.weight * column
    for weight in sorted(
        range(1, MOST_WEIGHT + 1), key=lambda weight: (abs(weight - difference.weight), weight)
    ):
        totals = rest + weight * column
        if np.count_nonzero(totals >= totals[place]) == 1:
            return weight
    return None


# ---- the explanation of a pod ------------------------------------------------------------------------------

NOW, IN_TURN, ALONE, AFTER_RUN = "now", "in-turn", "alone", "after-run"

_VICTIMS = 5
"""Victims of a group that its text names."""
FindEvidence = Callable[[list[int], list[Status]], list[Evidence]]
"""Returns the evidence of nodes, given their indexes in list order and their verdicts."""


@dataclass(frozen=True)
class AlikeNodes:
    """Nodes with equal verdicts of all filters.

    Attributes
    ----------
    nodes : list of str
        Names in list order.
    verdicts : list of Status
        The rejections, in the order of the filters; each names its plugin.
    evidence : list of Evidence
        The facts by which the filters reject these nodes, those of the most nodes first.
    """

    nodes: list[str]
    verdicts: list[Status]
    evidence: list[Evidence] = field(default_factory=list)


class Note(Document, frozen=True):
    """A fact about the pod that no filter compares, and that decides whether it runs."""

    kind: Annotated[
        str,
        Meta(
            extra_json_schema={
                "enum": [
                    *("own-old-pods", "placed-before", "taken-away", "held-devices", "other-os"),
                    "image-locality",
                ]
            }
        ),
    ]
    """own-old-pods: a rollout waits for the old pods of its own workload. placed-before: pods that the run
    has placed have its room. taken-away: terminating pods, without which nodes fit, are gone. held-devices:
    preemption does not free devices. other-os: nodes have another operating system than the pod is for.
    image-locality: images that nodes have make no difference."""
    text: str
    pods: tuple[str, ...] = ()
    """The old, placed or terminating pods, as ``namespace/name``, or the users of the devices."""
    nodes: tuple[str, ...] = ()


class GroupEvictions(Struct, frozen=True):
    """Whom a pod group evicts that fits nowhere, with its priority or with a higher one.

    Attributes
    ----------
    priority : int
    is_own : bool
        Whether it is the priority of the group.
    victims : tuple of Pod
    placed : int
        Number of pods of the group that are nominated to nodes.
    """

    priority: int
    is_own: bool
    victims: tuple[Pod, ...]
    placed: int

    @property
    def text(self) -> str:
        """Whom it evicts, in words."""
        names = examples([f"{pod.key} ({priority_of(pod)})" for pod in self.victims], _VICTIMS)
        number = f"{len(self.victims)} pods, " if len(self.victims) > _VICTIMS else ""
        having = "preemption:"
        if not self.is_own:
            having = f"with priority {self.priority} in the PodGroup and its pods,"
        return f"{having} it would evict {number}{names} to place {self.placed} of its pods"


class ExplainedGroup(Struct, frozen=True):
    """What is found out about the group of a pod, whose pods are placed together or not at all.

    Attributes
    ----------
    group : str
        ``namespace/name``.
    tree : str
        The composite group at the top of the tree that it belongs to; "" for none. The group is tried alone.
    minimum : int
        Number of pods that need a node; 1 without a minimum, 0 where the group does not exist.
    pods : int
        Number of pods that there are.
    scheduled : int
        Number of these that have a node.
    fits : int
        Number of the others that fit at once, without evictions.
    domain : str
        ``LABEL=VALUE`` of the domain in which the most fit, of a group that is bound to a topology.
    next : str
        The first pod that fits nowhere beside those; "" where all fit.
    message : str
        Why not: its FitError text. Or why no pod was tried: they cannot form a group, or no node has the
        label of its topology. Or what to do if there is no group.
    nodes : list of NodeGroup
        The nodes of the domain, or all, by what rejects the next pod beside the others.
    changes : list of HelpfulChange
        Single changes with which the group is placed, where it is not.
    evictions : GroupEvictions or None
        Whom it evicts, where it is not placed without: with its priority, or else with the smallest higher
        one that helps. None if no priority does, or the client is no ObjectStore.
    """

    group: str
    tree: str
    minimum: int
    pods: int
    scheduled: int
    fits: int = 0
    domain: str = ""
    next: str = ""
    message: str = ""
    nodes: list[AlikeNodes] = msgspec.field(default_factory=list)
    changes: list[HelpfulChange] = msgspec.field(default_factory=list)
    evictions: GroupEvictions | None = None

    @property
    def reaches_minimum(self) -> bool:
        """Whether enough pods have a node or fit at once."""
        return 0 < self.minimum <= self.fits + self.scheduled

    def headline(self) -> str:
        """Return how many pods fit at once, and how many are needed, in one line."""
        if not self.minimum:
            return f"group {self.group}: there is no such PodGroup"
        have = f", {self.scheduled} more have a node" if self.scheduled else ""
        where = f" in {self.domain}" if self.domain else ""
        number = f"{self.fits} of {self.pods - self.scheduled} pods fit at once{where}{have}"
        missing = "" if self.pods >= self.minimum else f", but there are only {self.pods}"
        needed = "one is enough" if self.minimum == 1 else f"minCount is {self.minimum}"
        return f"group {self.group}: {number}; {needed}{missing}"

    def stop(self) -> str:
        """Return what stops the next pod, or the whole group, in one line; "" where all pods fit."""
        if not self.next:
            return self.message
        beside = " beside these" if self.fits else ""
        return f"{self.next} fits nowhere{beside}: {self.message}"


class ScoredNode(Document, frozen=True):
    """A feasible node with its scores."""

    rank: Count
    """1 for the best total; equal totals have equal ranks."""
    node: str
    total: int
    """Sum of the normalized scores times the weights."""
    raw: dict[str, int]
    """Plugin to its score, as returned."""
    normalized: dict[str, int]
    """Plugin to its score, from 0 to 100."""


class NodeExplanation(Struct, frozen=True):
    """The explanation of one node.

    Attributes
    ----------
    node : str
        Name of the node.
    verdicts : dict of str to Status or None
        Filter to its own verdict; None where the node passes. Without the filters that PreFilter skipped.
    evidence : list of Evidence
        The facts by which filters reject the node.
    score : ScoredNode or None
        None for a node that is not feasible.
    comparison : NodeComparison or None
        With the node on which the pod is placed; None for that one and for a node that is not feasible.
    """

    node: str
    verdicts: dict[str, Status | None]
    evidence: list[Evidence]
    score: ScoredNode | None = None
    comparison: NodeComparison | None = None


class Situation(Document, frozen=True):
    """The placement of other pending pods at the time of an explanation."""

    kind: Annotated[str, Meta(extra_json_schema={"enum": [NOW, IN_TURN, ALONE, AFTER_RUN]})] = NOW
    """now: the cluster as it is in the cache; in-turn: the cluster at the pod's attempt in a run; alone: as
    if no other pod were pending; after-run: the cluster after a run."""
    placed: Count = 0
    """Number of other pending pods that the run has placed until then."""
    pending: Count = 0
    """Number of those that it has not."""
    node: str = ""
    """Result of the run for the pod; empty without a run."""
    message: str = ""
    """Why it has none."""


@dataclass(frozen=True, repr=False)
class ExplainedPod(Tabular):
    """What is found out about a pod's placement: why it is placed on its node, or on none.

    Attributes
    ----------
    pod : Pod
        The explained pod; without a node, if it was on one.
    bound_to : str
        The node from which the pod was removed for the explanation; "" for a pending pod.
    skipped : str
        Why a run would ignore the pod (gated, other scheduler, terminating); "" where it would not.
    weights : dict of str to int
        Weight of every score plugin.
    examination : Examination
        The result of one cycle over all nodes.
    filters : list of FilterVerdicts
        In the order in which they run; PreFilter first, where it rejects the pod or excludes nodes.
    groups : list of NodeGroup
        The rejected nodes; see `group_nodes`.
    find_evidence : callable
        Returns the evidence of nodes, given their indexes in list order and their verdicts.
    changes : list of Change
        Single changes that place the pod, where no node is feasible: by kind, then by amount.
    kinds : frozenset of Kind
        The kinds of changes that were tried.
    waiting : int
        Number of pods that wait like it for which changes were tried, itself included.
    wait_more : bool
        Whether even more pods wait like it.
    pairs : list of ChangePair
        Where no single change places the pod: pairs of changes that do, where there are such.
    conflicts : list of list of Constraint
        Where no single change places the pod: disjoint sets of constraints that cannot be satisfied together,
        each minimal by inclusion. No node is feasible unless a constraint of every set is dropped.
    blocked : str
        Where no node is feasible even without these constraints: the FitError text of such a pod.
    preemption : PreemptionExamination or None
        Victims of an infeasible pod, and the choice of their node; None for a pod of a group, which evicts no
        other by itself, and where the profile does not preempt.
    violated_budgets : dict of str to tuple of str
        By candidate, the PodDisruptionBudgets that its evictions violate, as ``namespace/name``.
    raised_priority : RaisedPriority or None
        The smallest priority with which a pod that fits nowhere and evicts nobody would get a node.
    situation : Situation
        Placement of other pending pods.
    claims : list of ClaimExplanation
        The pod's claims for devices, and how many devices each rule leaves for them.
    extenders : list of ExtenderAnswer
        What the extenders that are interested in the pod answer, in the order in which they are asked.
        Changes are tried without them.
    group : ExplainedGroup or None
        The group of a pod that is placed together with others; None where all its pods have a node.
    notes : list of Note
        What no filter compares, and decides whether the pod runs.
    percentage, enough : int
        percentageOfNodesToScore (0 adapts to the nodes), and the number of feasible nodes after which a
        search ends.
    """

    pod: Pod
    bound_to: str
    skipped: str
    weights: dict[str, int]
    examination: Examination
    filters: list[FilterVerdicts]
    groups: list[AlikeNodes]
    find_evidence: FindEvidence = field(repr=False)
    changes: list[HelpfulChange] = field(default_factory=list)
    kinds: frozenset[Kind] = frozenset()
    waiting: int = 1
    wait_more: bool = False
    pairs: list[ChangePair] = field(default_factory=list)
    conflicts: list[list[Constraint]] = field(default_factory=list)
    blocked: str = ""
    preemption: PreemptionExamination | None = None
    violated_budgets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    raised_priority: RaisedPriority | None = None
    situation: Situation = field(default_factory=Situation)
    claims: list[ClaimExplanation] = field(default_factory=list)
    extenders: list[ExtenderAnswer] = field(default_factory=list)
    group: ExplainedGroup | None = None
    notes: list[Note] = field(default_factory=list)
    percentage: int = 0
    enough: int = 0

    @property
    def order(self) -> list[str]:
        """Node names in list order."""
        return self.examination.order

    @property
    def feasible(self) -> list[str]:
        """Nodes that pass every filter, in list order."""
        return self.examination.feasible

    @property
    def message(self) -> str:
        """FitError text or the error of the cycle; "" where the pod fits."""
        return self.examination.error or self.examination.fit_error

    @property
    def nothing_places(self) -> str:
        """That no single change places the pod, and which kinds were tried; "" where one does, or it evicts
        others, or it is not known."""
        evicts = self.preemption is not None and self.preemption.choice is not None
        seen = self.examination
        is_known = seen.fit_error and not (seen.error or any(each.rejected for each in self.extenders))
        places = any(change.kind != Kind.FEWER_REPLICAS for change in self.changes)
        if evicts or places or not is_known:
            return ""
        what = "no single change" if self.raised_priority is None else "no other single change"
        return f"{what} places it{', two changes do' if self.pairs else tried_text(self.kinds)}"

    @property
    def has_place(self) -> bool:
        """Whether the pod gets a node: in the run, if it is explained in its turn; otherwise whether a node
        is feasible, the scheduler does not ignore the pod, and enough pods of its group fit."""
        if self.situation.kind == IN_TURN:
            return bool(self.situation.node)
        has_others = self.group is None or self.group.reaches_minimum
        return bool(self.feasible) and not self.skipped and has_others

    @property
    def chosen(self) -> str:
        """The node on which the pod is or would be placed: that of the run, else its present one, else the
        first of the best; "" for none."""
        return self.situation.node or self.bound_to or next(iter(self.examination.best), "")

    @property
    def sampling(self) -> str:
        """Why a run places the pod on another node than the best, where its search ends before; else ""."""
        node, best = self.situation.node, self.examination.best
        if node in ("", *best) or self.extenders or len(self.feasible) <= self.enough:
            return ""
        says = f"percentageOfNodesToScore {self.percentage}" + ("" if self.percentage else ", which adapts")
        return f"the search ends after {self.enough} feasible nodes ({says}), before {best[0]}"

    @property
    def _cause(self) -> str:
        """Why the pod is not on a better node, where that is known."""
        if self.sampling or not self.bound_to or self.situation.node:
            return self.sampling
        return "the pod was placed before, and is not moved"

    def headline(self) -> str:
        """Return on how many nodes the pod fits, and why on no other, in one line. If it is placed together
        with others, the line says how many of the group fit at once."""
        return self._fits(self.pod.key) if self.group is None else self.group.headline()

    def remarks(self) -> list[str]:
        """Return what stops the next pod of the group, if one is stopped, and on how many nodes the pod
        fits by itself; nothing without a group."""
        if self.group is None:
            return []
        return [*filter(None, [self.group.stop()]), self._fits(f"{self.pod.key} by itself")]

    def _fits(self, its: str) -> str:
        fits = f"{its}: fits {len(self.feasible)} of {len(self.order)} nodes"
        return f"{fits}; {self.message}" if self.message else fits

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each node, the best first.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns node, rank and total (0 where the pod does not fit), reasons (of all filters; missing
            where it fits).
        """
        fits: list[tuple[str, int, int, str | None]]
        fits = [(each.node, each.rank, each.total, None) for each in self.ranking(limit)]
        reasons = [
            ", ".join(reason for verdict in each.verdicts for reason in verdict.reasons)
            for each in self.groups
        ]
        rejected = zip(self.groups, reasons, strict=True)
        rows = [*fits, *((node, 0, 0, text) for group, text in rejected for node in group.nodes)][:limit]
        numbers = {
            name: np.array([row[at] for row in rows], dtype=np.int64)
            for at, name in ((1, "rank"), (2, "total"))
        }
        return Table({"node": [row[0] for row in rows]} | numbers | {"reasons": [row[3] for row in rows]})

    @cached_property
    def _by_rank(self) -> npt.NDArray[np.intp]:
        """Indexes of the feasible nodes, the best total first."""
        return np.argsort(-self.examination.total, kind="stable")

    def ranking(self, limit: int | None = None) -> list[ScoredNode]:
        """Return the feasible nodes, the best first; equal totals in list order.

        Parameters
        ----------
        limit : int, optional
            Maximum number of nodes.
        """
        return [self._scored(int(at)) for at in self._by_rank[:limit]]

    def _scored(self, at: int) -> ScoredNode:
        """Return the feasible node at an index with its scores."""
        examination = self.examination
        total = int(examination.total[at])
        return ScoredNode(
            rank=1 + int((examination.total > total).sum()),
            node=examination.feasible[at],
            total=total,
            raw={plugin: int(column[at]) for plugin, column in examination.raw.items()},
            normalized={plugin: int(column[at]) for plugin, column in examination.normalized.items()},
        )

    @cached_property
    def _positions(self) -> dict[str, int]:
        """Index of each node in list order, by name."""
        return {name: at for at, name in enumerate(self.order)}

    def first_reason(self, name: str) -> str:
        """Return the first fact by which the first filter rejects a node, as the scheduler asks no other
        filter then; "" for a feasible node.

        Raises
        ------
        KeyError
            There is no node of this name.
        """
        at = self._positions[name]
        statuses = (each.statuses[each.codes[at]] for each in self.filters)
        first = next(filter(None, statuses), None)
        if first is None:
            return ""
        facts = self.find_evidence([at], [first])
        return facts[0].text if facts else ", ".join(first.reasons)

    def node(self, name: str) -> NodeExplanation:
        """Return the explanation of one node.

        Raises
        ------
        KeyError
            There is no node of this name.
        """
        at = self._positions[name]
        verdicts = {
            each.plugin: each.statuses[each.codes[at]]
            for each in self.filters
            if each.plugin not in self.examination.skipped_filter
        }
        scores = self.examination
        scored = name in scores.feasible and len(scores.total)
        return NodeExplanation(
            name,
            verdicts,
            self.find_evidence([at], [status for status in verdicts.values() if status]),
            self._scored(scores.feasible.index(name)) if scored else None,
            self._compared(name) if scored else None,
        )

    def _compared(self, name: str) -> NodeComparison | None:
        comparison = compare_nodes(self.examination, self.weights, self.chosen, name)
        return None if comparison is None else replace(comparison, cause=self._cause)


def group_nodes(order: list[str], filters: list[FilterVerdicts], find: FindEvidence) -> list[AlikeNodes]:
    """Group the rejected nodes by equal verdicts of all filters.

    Parameters
    ----------
    order : list of str
        Node names in list order.
    find : callable
        Finds the evidence of nodes, given their indexes in list order and their verdicts.

    Returns
    -------
    list of NodeGroup
        The nodes that the pod is for come first, as far as verdicts show: those of the fewest rejections that
        no eviction resolves, then of the fewest rejections, then the largest group.
    """
    keys = np.zeros(len(order), dtype=np.intp)
    for each in filters:
        _, keys = np.unique(keys * len(each.statuses) + each.codes, return_inverse=True)
    groups: list[tuple[int, int, int, int, AlikeNodes]] = []
    for key in range(int(keys.max(initial=-1)) + 1):
        places = np.flatnonzero(keys == key).tolist()
        statuses = [each.statuses[each.codes[places[0]]] for each in filters]
        verdicts = [status for status in statuses if status is not None]
        if verdicts:
            group = AlikeNodes([order[at] for at in places], verdicts, find(places, verdicts))
            for_good = sum(verdict.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE for verdict in verdicts)
            groups.append((for_good, len(verdicts), -len(places), places[0], group))
    return [group for *_, group in sorted(groups, key=lambda each: each[:-1])]
