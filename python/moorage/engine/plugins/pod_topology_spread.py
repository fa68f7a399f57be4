"""PodTopologySpread: spreads pods over the domains of node labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from moorage._core.base.selectors import with_labels
from moorage._core.state.cluster_state import ClusterState
from moorage.engine import framework as fwk
from moorage.kube import LabelSelectorMatcher, Node, Pod
from moorage.kube.apiserver.decode import decode
from moorage.kube.model.node import HOSTNAME, ZONE
from moorage.kube.model.pod import TopologySpreadConstraint
from moorage.lazy import NamedTuple, lazy_attribute

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
from ..framework.in_tree_plugins import UNSIGNED, InTreePlugin

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


class PodTopologySpread(
    InTreePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.PreScorePlugin, fwk.ScorePlugin
):
    """Filters by hard constraints and scores by soft ones (kube-scheduler v1.36, podtopologyspread/).

    The raw score is the weighted number of matching pods. It is normalized by the minimum and the maximum of
    the feasible nodes. Arguments: ``defaultingType``, ``System`` or ``List``, and ``defaultConstraints``, for
    pods without constraints of their own.
    """

    name = "PodTopologySpread"
    may_reject_if = (attrgetter("spread"),)
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
            if other is None or is_same_pod(pod, other):
                continue
            if not is_live(other) or other.namespace != pod.namespace:  # it does not count
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


def _selector(constraint: TopologySpreadConstraint, pod: Pod, with_keys: bool) -> LabelSelectorMatcher:
    """The selector of the pods that a constraint counts, with the pod's values of matchLabelKeys or not."""
    own = LabelSelectorMatcher(constraint.label_selector)
    labels = pod.metadata.labels if with_keys else {}
    keys = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return with_labels(keys, own) if keys and own.identity is not None else own


def _domains(keys: Sequence[str], node: Node) -> list[str] | None:
    """The values of topology keys of a node; None if it lacks one."""
    labels = node.metadata.labels
    return [labels[key] for key in keys] if all(key in labels for key in keys) else None


def _constraint(value: Mapping[str, Any]) -> TopologySpreadConstraint:
    return decode(dict(value), TopologySpreadConstraint)
