"""PodTopologySpread: spreads pods over the domains of node labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from moorage._core.base.selectors import find_intolerable_taint, with_labels
from moorage._core.decide.terms import DomainCounts
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.errors import number_of
from moorage.kube import LabelSelectorMatcher, Node, Pod
from moorage.kube.model.node import HOSTNAME, ZONE
from moorage.kube.model.pod import TopologySpreadConstraint
from moorage.kube.read.decode import decode
from moorage.lazy import lazy_attribute

from ..framework.events import (
    NODE,
    POD,
    ActionType,
    Key,
    indexed,
    is_live,
    is_same_pod,
    needed_labels,
    of_class,
    on,
    pod_labels,
    queue_if,
)
from ..framework.evidence import Evidence, Fact, FindEvidence, RejectedPod, Rows, distinct_evidence
from ..framework.in_tree_plugins import UNSIGNED, InTreePlugin
from ..framework.interface import EvidencePlugin
from .node_affinity_and_taints import REJECTING_EFFECTS

HARD = "DoNotSchedule"
MISMATCH = "node(s) didn't match pod topology spread constraints"
SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(3, HOSTNAME, "ScheduleAnyway"),
    TopologySpreadConstraint(5, ZONE, "ScheduleAnyway"),
)


class Hard(NamedTuple):
    """A hard spread constraint (DoNotSchedule), for queueing hints.

    Attributes
    ----------
    topology_key : str
        Node label whose values are the domains.
    selector : LabelSelectorMatcher
        Selects the pods that are counted.
    honors_taints : bool
        Whether nodes with taints that the pod does not tolerate are left out.
    """

    topology_key: str
    selector: LabelSelectorMatcher
    honors_taints: bool


DEFAULT = "defaultConstraints of the profile"
MOST_DOMAINS = 20
"""Maximum number of domains of a topology that are named of nodes that are rejected alike."""
MOST_NODES = 2
"""Maximum number of nodes that are named of the domain with the fewest pods."""


class PodTopologySpread(
    InTreePlugin, EvidencePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.PreScorePlugin, fwk.ScorePlugin
):
    """Filters by hard constraints and scores by soft ones (kube-scheduler v1.36, podtopologyspread/).

    The raw score is the weighted number of matching pods. It is normalized by the minimum and the maximum of
    the feasible nodes. Arguments: ``defaultingType``, ``System`` or ``List``, and ``defaultConstraints``, for
    pods without constraints of their own.
    """

    name = "PodTopologySpread"
    reason_texts = (MISMATCH, f"{MISMATCH} (missing required label)")
    missing_state_text = {
        fwk.FilterPlugin: 'reading "PreFilterPodTopologySpread"',
        fwk.ScorePlugin: 'error reading "PreScorePodTopologySpread"',
    }
    default_weight = 2
    default_args = {"defaultingType": "System"}

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        terms = state.terms
        if terms.spread_error:
            text = f"obtaining pod's hard topology spread constraints: {terms.spread_error}"
            return fwk.Status(fwk.Code.ERROR, (text,), self.name)
        return None if terms.n_hard else fwk.SKIP

    def may_reject(self, shape: Shape) -> bool:
        return bool(shape.spread)

    def pre_score(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        terms = state.terms
        if terms.spread_score_error:
            what = "calculating preScoreState: obtaining pod's soft topology spread constraints"
            text = f"{what}: {terms.spread_score_error}"
            return fwk.Status(fwk.Code.ERROR, (text,), self.name)
        return None if terms.n_soft else fwk.SKIP

    @property
    def is_system_defaulted(self) -> bool:
        """Whether pods without constraints get the system's default constraints."""
        return bool(self.args["defaultingType"] == "System")

    @lazy_attribute
    def default_constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        """The constraints of pods without any of their own."""
        if self.is_system_defaulted:
            return SYSTEM_CONSTRAINTS
        return tuple(map(_constraint, self.args.get("defaultConstraints") or ()))

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        return {"default_constraints": self.default_constraints, "system_defaulted": self.is_system_defaulted}

    @property
    def can_sign(self) -> bool:
        """Whether there are no default constraints, which may apply to every pod."""
        return not self.default_constraints

    def sign_pod(self, pod: Pod) -> fwk.Status | None:
        return UNSIGNED if pod.spec.topology_spread_constraints else None

    def evidence(self, inquiry: RejectedPod) -> FindEvidence:
        constraints = inquiry.state.shape.spread or self.default_constraints
        hard = [constraint for constraint in constraints if constraint.when_unsatisfiable == HARD]
        read = inquiry.state.terms.hard_counts()
        spreads = [
            _Spread(inquiry, hard_constraint, *counts)
            for hard_constraint, counts in zip(hard, read, strict=True)
        ]

        def find(rows: Rows, status: fwk.Status) -> Iterator[Evidence]:
            has_labels = status.reasons == (MISMATCH,)
            yield from distinct_evidence(spread.evidence(rows, has_labels) for spread in spreads)

        return find

    # ---- queueing hints ------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        pods = ActionType.ADD | ActionType.DELETE
        pods |= ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
        nodes = ActionType.ADD | ActionType.DELETE
        nodes |= ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return [on(POD, pods, self.after_pod_change), on(NODE, nodes, self.after_node_change)]

    def _keys(self, pod: Pod) -> frozenset[Key] | None:
        """Labels of which a pod has one whose change may help a rejected pod."""
        if not pod.spec.topology_spread_constraints and self.default_constraints:
            return None  # services may be added
        return needed_labels(rule.selector for rule in self._hard(pod))

    @indexed(_keys, pod_labels)
    def after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
        """Queue if the number of matching pods changed, or the pod tolerates other taints."""
        for other in (old, new):
            if other is not None and not (is_same_pod(pod, other) or _counts(pod, other)):
                return fwk.QUEUE_SKIP
        hard = self._hard(pod)
        if old is None or new is None:
            labels = (old or new or pod).metadata.labels
            return queue_if(any(rule.selector.matches(labels) for rule in hard))
        tolerates_others = is_same_pod(pod, new) and old.spec.tolerations != new.spec.tolerations
        if tolerates_others and any(rule.honors_taints for rule in hard):
            return fwk.QUEUE
        was, now = old.metadata.labels, new.metadata.labels
        return queue_if(
            was != now and any(rule.selector.matches(was) != rule.selector.matches(now) for rule in hard)
        )

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> fwk.QueueingHint:
        """Queue if a node with all topology keys was added or deleted, or its domains or taints changed."""
        keys = [constraint.topology_key for constraint in self._hard(pod)]
        was, now = (None if node is None else _domains(keys, node) for node in (old, new))
        if old is None or new is None:
            return queue_if(was is not None or now is not None)
        return queue_if(was != now or (now is not None and old.spec.taints != new.spec.taints))

    # Constraints and labels of the pod whose hard constraints were read last, and these: hints are asked
    # about one class for many events.
    _latest: tuple[object, object, list[Hard]] = None, None, []

    def _hard(self, pod: Pod) -> list[Hard]:
        """The hard constraints of a pod, or the default ones; ValueError for a malformed one."""
        constraints: Sequence[TopologySpreadConstraint] = pod.spec.topology_spread_constraints
        selector = None
        if not constraints:
            constraints = [
                constraint for constraint in self.default_constraints if constraint.when_unsatisfiable == HARD
            ]
            if not constraints or (selector := self._default_selector(pod)) is None:
                return []
        constraints_of, labels, hard = self._latest
        if constraints_of is constraints and labels is pod.metadata.labels and selector is None:
            return hard
        with_keys = self.required_handle().feature_gates["MatchLabelKeysInPodTopologySpread"]
        hard = [
            Hard(
                constraint.topology_key,
                selector or _selector(constraint, pod, with_keys),
                constraint.node_taints_policy == "Honor",
            )
            for constraint in constraints
            if constraint.when_unsatisfiable == HARD
        ]
        if selector is None:
            self._latest = constraints, pod.metadata.labels, hard
        return hard

    def _default_selector(self, pod: Pod) -> LabelSelectorMatcher | None:
        """The selector of default constraints, from the services and controllers of the pod."""
        state = self.required_handle().cache.state
        owner = state.classes.keys[state.classes.intern(pod)][2]
        return state.workloads.selector_of(pod.namespace, pod.metadata.labels, owner)


class _Spread:
    """A hard spread constraint, and what its filter reads of the cluster.

    Parameters
    ----------
    own : int
        1 if the pod matches its own constraint.
    """

    def __init__(
        self,
        inquiry: RejectedPod,
        constraint: TopologySpreadConstraint,
        counts: DomainCounts,
        own: int,
        max_skew: int,
        min_domains: int,
    ) -> None:
        self._honors_taints = constraint.node_taints_policy == "Honor"
        self._inquiry, self._counts, self._own = inquiry, counts, own
        self._max_skew, self._min_domains = max_skew, min_domains
        self._key = counts.topology_key
        self._is_default = not inquiry.state.shape.spread
        labels = inquiry.pod.metadata.labels
        keys = [key for key in constraint.match_label_keys if key in labels]
        self._match_label_keys = [f"{key}={labels[key]}" for key in keys]
        self._domains = counts.by_domain()
        self._fewest = min((pods for pods, _ in self._domains.values()), default=0)
        if len(self._domains) < min_domains:
            self._fewest = 0

    def evidence(self, rows: Rows, has_labels: bool) -> Iterator[Evidence]:
        """Yield the domains of some nodes that violate the constraint, and nodes without the label.

        Parameters
        ----------
        rows : (n,) int32 array
        has_labels : bool
            Whether all nodes have the labels of all constraints.
        """
        nodes = self._nodes_by_domain(rows)
        if not has_labels:
            lacking = nodes.pop((None, 0), 0)
            if lacking:
                text = "the node lacks this label" + (f"; {DEFAULT}" if self._is_default else "")
                default = {"isDefault": self._is_default}
                yield Fact("domain", self._key, text, values=default, nodes=lacking)
            return  # upstream does not compare domains of such a node
        violated = [
            (value, nominated, many)
            for (value, nominated), many in nodes.items()
            if value is not None and self._with_pod(value, nominated) - self._fewest > self._max_skew
        ]
        violated.sort(key=lambda skewed: -skewed[2])
        for value, nominated, many in violated[:MOST_DOMAINS]:
            yield self._of_domain(value, nominated, many)
        if len(violated) > MOST_DOMAINS:
            more = violated[MOST_DOMAINS:]
            others = number_of(len(more), "other domain violates", "other domains violate")
            listed = sum(many for *_, many in more)
            yield Fact("domain", self._key, f"{others} it, too", values={"domains": len(more)}, nodes=listed)

    def _nodes_by_domain(self, rows: Rows) -> Counter[tuple[str | None, int]]:
        """Return the number of nodes by domain and by the number of nominated pods that match."""
        inquiry = self._inquiry
        names, column = inquiry.search.state.symbols.names, inquiry.search.state.table.label_column(self._key)
        if inquiry.search.has_nominated:
            pairs = [
                (names[value] if value else None, self._nominated(row))
                for row, value in zip(rows.tolist(), column[rows].tolist(), strict=True)
            ]
            return Counter(pairs)
        values, counts = np.unique(column[rows], return_counts=True)
        listed = zip(values.tolist(), counts.tolist(), strict=True)
        return Counter({(names[value] if value else None, 0): many for value, many in listed})

    def _nominated(self, row: int) -> int:
        if not self._counts.is_eligible(row):
            return 0
        namespace = self._inquiry.pod.namespace
        pods = self._inquiry.nominated_on(row)
        return sum(pod.namespace == namespace and self._counts.matches(pod) for pod in pods)

    def _with_pod(self, value: str, nominated: int) -> int:
        return self._domains.get(value, (0, 0))[0] + self._own + nominated

    def _of_domain(self, value: str, nominated: int, many: int) -> Fact:
        """Return a domain that violates the constraint: with the pod less the fewest is more than maxSkew."""
        too_few = len(self._domains) < self._min_domains
        least = [other for other, (pods, _) in self._domains.items() if pods == self._fewest]
        fewest_in = None if too_few or not least else (value if value in least else least[0])
        rows = [] if fewest_in in (None, value) else self._rows_in(fewest_in)
        values: dict[str, Any] = {
            "topologyKey": self._key,
            "value": value,
            "withPod": self._with_pod(value, nominated),
            "matchesItself": bool(self._own),
            "nominated": nominated,
            "fewest": self._fewest,
            "fewestIn": fewest_in,
            "fewestNodes": list(self._node_texts(rows)),
            "otherFewest": 0 if fewest_in is None else len(least) - 1,
            "terminating": sum(map(self._is_leaving, self._pods(rows))),
            "domains": len(self._domains),
            "minDomains": self._min_domains,
            "maxSkew": self._max_skew,
            "matchLabelKeys": self._match_label_keys,
            "isDefault": self._is_default,
        }
        own = "with this pod" if self._own else "matching pods; this pod does not match"
        own += f" and {nominated} nominated" if nominated else ""
        default = f" ({DEFAULT})" if self._is_default else ""
        keys = self._match_label_keys
        only = f", of pods with {', '.join(keys)} by matchLabelKeys" if keys else ""
        name, skew = f"{self._key}={value}", f"maxSkew {self._max_skew}{default}{only}"
        detail = f"{values['withPod']} {own}, {_fewest_text(values)}, {skew}"
        values = {key: known for key, known in values.items() if known is not None}
        return Fact("domain", name, detail, f"domain {name}: {detail}", values, nodes=many)

    def _rows_in(self, value: str | None) -> list[int]:
        """Return the rows of a domain whose nodes count."""
        state = self._inquiry.search.state
        column = state.table.label_column(self._key)
        view_rows = state.view.rows()
        there = view_rows[column[view_rows] == state.symbols.find(value or "")]
        return [row for row in there.tolist() if self._counts.is_eligible(row)]

    def _node_texts(self, rows: Sequence[int]) -> Iterator[str]:
        for row in rows[:MOST_NODES]:
            node, says = self._inquiry.node(row), self._inquiry.says(row, PodTopologySpread.name)
            text = f"node {node.name}" + (f": {says[0]}" if says else "")
            tolerations = self._inquiry.state.shape.tolerations
            taint = find_intolerable_taint(node.spec.taints, tolerations, REJECTING_EFFECTS, True)
            is_tainted = taint is not None and not self._honors_taints
            yield text + (", counted by nodeTaintsPolicy Ignore" if is_tainted else "")
        if len(rows) > MOST_NODES:
            yield f"and {len(rows) - MOST_NODES} more nodes"

    def _pods(self, rows: Sequence[int]) -> Iterator[Pod]:
        for row in rows:
            yield from self._inquiry.pods_on(row)

    def _is_leaving(self, pod: Pod) -> bool:
        """Whether a pod would count if it were not being deleted."""
        if pod.metadata.deletion_timestamp is None or pod.namespace != self._inquiry.pod.namespace:
            return False
        return self._counts.matches(pod)


def _fewest_text(values: Mapping[str, Any]) -> str:
    """Return which domain has the fewest pods, and why that one counts."""
    if values["fewestIn"] is None:
        exist = number_of(values["domains"], "domain exists", "domains exist")
        return f"fewest counts as 0, as only {exist} and minDomains is {values['minDomains']}"
    if values["fewestIn"] == values["value"]:
        return f"fewest {values['fewest']} here"
    notes = ["; ".join(values["fewestNodes"])] if values["fewestNodes"] else []
    if values["terminating"]:
        pods = number_of(values["terminating"], "matching pod", "matching pods")
        notes.append(f"{pods} there being deleted, not counted")
    if values["otherFewest"]:
        notes.append(f"as in {number_of(values['otherFewest'], 'other domain', 'other domains')}")
    where = f"{values['topologyKey']}={values['fewestIn']}"
    return f"fewest {values['fewest']} in {where}" + (f" ({', '.join(notes)})" if notes else "")


def _selector(constraint: TopologySpreadConstraint, pod: Pod, with_keys: bool) -> LabelSelectorMatcher:
    """The selector of the pods that a constraint counts, with the pod's values of matchLabelKeys or not."""
    own = LabelSelectorMatcher(constraint.label_selector)
    labels = pod.metadata.labels if with_keys else {}
    keys = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return with_labels(keys, own) if keys and own.identity is not None else own


def _counts(pod: Pod, other: Pod) -> bool:
    return is_live(other) and other.namespace == pod.namespace


def _domains(keys: Sequence[str], node: Node) -> list[str] | None:
    """The values of topology keys of a node; None if it lacks one."""
    labels = node.metadata.labels
    return [labels[key] for key in keys] if all(key in labels for key in keys) else None


def _constraint(value: Mapping[str, Any]) -> TopologySpreadConstraint:
    return decode(dict(value), TopologySpreadConstraint)
