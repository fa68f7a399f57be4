"""InterPodAffinity: affinity and anti-affinity between the pod and existing pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_terms import PodTerm
from moorage.engine import framework as fwk
from moorage.kube import LabelSelectorMatcher, Namespace, Node, Pod
from moorage.store import NotFoundError

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

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinity(
    InTreePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.PreScorePlugin, fwk.ScorePlugin
):
    """Filters by required terms and scores by preferred terms (kube-scheduler v1.36, interpodaffinity/).

    The raw score is the sum of the weights of matching terms. It is normalized linearly between the minimum
    and the maximum of the feasible nodes. Arguments: ``hardPodAffinityWeight``, the weight of required
    affinity of existing pods; ``ignorePreferredTermsOfExistingPods``.
    """

    name = "InterPodAffinity"
    may_reject_if = (attrgetter("terms_error"),)
    reason_texts = (AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY)
    missing_state_text = {
        fwk.FilterPlugin: 'error reading "PreFilterInterPodAffinity"',
        fwk.ScorePlugin: 'failed to read "PreScoreInterPodAffinity"',
    }
    default_weight = 2
    default_args = {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        if state.shape.terms_error:
            text = f"parsing pod: {state.shape.terms_error}"
            return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), self.name)
        return None if state.terms.affinity_filters else fwk.SKIP

    def pre_score(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        return None if state.terms.affinity_scores else fwk.SKIP

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        return {
            "hard_pod_affinity_weight": self.args["hardPodAffinityWeight"],
            "ignore_preferred": self.args["ignorePreferredTermsOfExistingPods"],
        }

    def sign_pod(self, pod: Pod) -> Mapping[str, Any] | fwk.Status | None:
        """Return the labels of the pod, which terms of other pods may match.

        As upstream, labels are omitted if preferred terms of existing pods are ignored, although required
        terms may still match them.
        """
        affinity = pod.spec.affinity
        if affinity is not None and (affinity.pod_affinity, affinity.pod_anti_affinity) != (None, None):
            return UNSIGNED
        return None if self.args["ignorePreferredTermsOfExistingPods"] else {"labels": pod.metadata.labels}

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        return [
            on(POD, pods, self.after_pod_change),
            on(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, self.after_node_change),
        ]

    def _keys(self, pod: Pod) -> frozenset[Key] | None:
        """Labels of which a pod has one whose change may help a rejected pod."""
        needed: list[LabelSelectorMatcher] = []
        affinity, anti_affinity = self._required(pod)
        # All terms of a list have to match, but for anti-affinity since v1.37.
        lists = [affinity, anti_affinity]
        if self.required_handle().release.any_anti_affinity_term_wakes:
            lists = [affinity, *((term,) for term in anti_affinity)]
        for terms in lists:
            needed += [term.selector for term in terms if term.selector.asked_values()][:1] or [
                term.selector for term in terms[:1]
            ]
        return needed_labels(needed)

    def _event_keys(self, old: Pod | None, new: Pod | None) -> set[Key] | None:
        """The labels of a pod that changes; None for one that may concern any pod: a deleted one that may
        have kept it away, or one in a namespace that is not known."""
        changed = old or new
        if changed is not None and self._namespace_labels(changed, None) is None:
            return None
        if old is not None and new is None:
            shape = self.shape_of(old)
            if shape.terms[1] or shape.terms_error:
                return None
        return pod_labels(self, old, new)

    @indexed(_keys, _event_keys)
    def after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
        """Queue if a changed pod now matches the affinity terms, or no longer the anti-affinity terms.

        A change adds or deletes a pod, or sets other labels.
        """
        release = self.required_handle().release
        if release.affinity_wakes_both_ways and is_same_pod(pod, new):
            return fwk.QUEUE
        counts = is_live if release.affinity_wakes_both_ways else _is_placed
        if any(other is not None and not counts(other) for other in (old, new)):
            return fwk.QUEUE_SKIP
        changed = old or new
        if changed is None:
            return fwk.QUEUE_SKIP
        affinity, anti_affinity = self._required(pod)
        concerned = (() if new is None else affinity) + (() if old is None else anti_affinity)
        labels = self._namespace_labels(changed, concerned)
        if labels is None:
            return fwk.QUEUE
        repelled = _any_matches if release.any_anti_affinity_term_wakes else _all_match
        if new is None:
            return queue_if(repelled(anti_affinity, changed, labels) or self._repelled_before(pod, changed))
        if old is None:
            return queue_if(_all_match(affinity, new, labels))
        attracted = _all_match(affinity, new, labels) and not _all_match(affinity, old, labels)
        freed = repelled(anti_affinity, old, labels) and not repelled(anti_affinity, new, labels)
        return queue_if(attracted or freed)

    def _repelled_before(self, pod: Pod, gone: Pod) -> bool:
        """Whether the anti-affinity of a deleted pod may have kept a pod away."""
        release = self.required_handle().release
        terms = self._required(gone)[1] if release.affinity_wakes_both_ways else ()
        labels = self._namespace_labels(pod, terms)
        repelled = _any_matches if release.any_anti_affinity_term_wakes else _all_match
        return labels is None or repelled(terms, pod, labels)

    def _namespace_labels(self, pod: Pod, terms: Sequence[PodTerm] | None) -> dict[str, str] | None:
        """The labels of a pod's namespace for hints, as far as terms need them (None: any terms); None if it
        is not known."""
        handle = self.required_handle()
        if not handle.release.hints_know_namespaces or handle.informers is None:
            return {}
        if terms is not None and not any(
            term.namespace_selector.identity for term in terms if pod.namespace not in term.namespaces
        ):
            return {}
        with suppress(NotFoundError):
            namespace: Namespace = handle.informers.lister(Namespace).get(pod.namespace)
            return namespace.metadata.labels
        return None

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if a node has another value of a topology key, or lacks the key of an anti-affinity term."""
        affinity, anti_affinity = self._required(pod)
        now = new.metadata.labels
        if old is None:
            return queue_if(anti_affinity or any(term.topology_key in now for term in affinity))
        was = old.metadata.labels
        joins = any(now.get(term.topology_key) not in (None, was.get(term.topology_key)) for term in affinity)
        leaves = (
            was.get(term.topology_key) not in (None, now.get(term.topology_key)) for term in anti_affinity
        )
        return queue_if(joins or any(leaves))

    def _required(self, pod: Pod) -> tuple[tuple[PodTerm, ...], tuple[PodTerm, ...]]:
        """Required affinity and anti-affinity terms; ValueError for a malformed term."""
        shape = self.shape_of(pod)
        if "required" in shape.terms_error:
            raise ValueError(shape.terms_error)
        return shape.terms[0], shape.terms[1]


def _is_placed(pod: Pod) -> bool:
    """Whether a pod has a node."""
    return bool(pod.spec.node_name)


def _any_matches(terms: Sequence[PodTerm], pod: Pod, labels: dict[str, str]) -> bool:
    """Whether a term matches a pod of a namespace with some labels."""
    meta = pod.metadata
    return any(term.matches(meta.namespace, labels, meta.labels) for term in terms)


def _all_match(terms: Sequence[PodTerm], pod: Pod, labels: dict[str, str]) -> bool:
    """Whether there are terms and all of them match a pod of a namespace with some labels."""
    meta = pod.metadata
    return bool(terms) and all(term.matches(meta.namespace, labels, meta.labels) for term in terms)


# ---- evidence ----------------------------------------------------------------------------------------------
