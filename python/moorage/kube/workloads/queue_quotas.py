"""Whether a queue of Kueue can ever admit pods, by its quota and what its cohort lends, and what the flavors
add to them (v0.17, pkg/scheduler/flavorassigner and pkg/podset)."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests
from moorage._core.base.selectors import find_intolerable_taint, pod_matches_node_selector
from moorage.errors import located

from ..admission.validate_object import with_limits_requested
from ..apiserver.decode import decode
from ..model.cluster import PodAdditions
from ..model.meta import ObjectMeta, Struct, whole_number
from ..model.node import Node, Taint
from ..model.pod import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodSpec, Toleration
from ..model.workload import Job
from .kind_rules import Find, Values, map_of, maps_of

QUEUE = "kueue.x-k8s.io/queue-name"
_MIN = "kueue.x-k8s.io/job-min-parallelism"
_GROUP = "kueue.x-k8s.io"
_ZERO = Quantity("0")


class _Flavor(Struct, frozen=True):
    """The spec of a ResourceFlavor."""

    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def refusal(self, name: str, spec: PodSpec, keys: AbstractSet[str]) -> str:
        """Return why pods cannot have the flavor; "" if they can. Of their constraints on nodes, those count
        that are about labels of some flavor."""
        tolerations = (*spec.tolerations, *self.tolerations)
        taint = find_intolerable_taint(self.node_taints, tolerations, ("NoSchedule", "NoExecute"))
        if taint is not None:
            return f"untolerated taint {taint.text} in flavor {name}"
        node = Node(metadata=ObjectMeta(name=name, labels=self.node_labels))
        if not pod_matches_node_selector(_about(spec, keys), node):
            return f"flavor {name} doesn't match node affinity"
        return ""


_NO_FLAVOR = _Flavor()


class Inadmissible(NamedTuple):
    """Why pods are never admitted.

    Attributes
    ----------
    pods : int
        The fewest with which it starts.
    """

    pods: int
    why: str


class Quotas:
    """The ClusterQueues and Cohorts of Kueue, with what they may use at most while nothing else runs (v0.17).

    Parameters
    ----------
    documents : mapping of (str, str, str) to bytes
        By kind, namespace and name.
    """

    def __init__(self, documents: Mapping[tuple[str, str, str], bytes], find: Find) -> None:
        self._find = find
        listed = [
            (kind.partition(".")[0], name, map_of(msgspec.json.decode(document), "spec"))
            for (kind, _, name), document in documents.items()
            if kind in (f"ClusterQueue.{_GROUP}", f"Cohort.{_GROUP}")
        ]
        flavors = {key[2]: key for key in documents if key[0] == f"ResourceFlavor.{_GROUP}"}
        self._flavors = {
            name: decode(map_of(msgspec.json.decode(documents[key]), "spec"), _Flavor)
            for name, key in flavors.items()
        }
        self._queues = {name: spec for kind, name, spec in listed if kind == "ClusterQueue"}
        self._cohorts = {name: spec for kind, name, spec in listed if kind == "Cohort"}

    def admission(
        self, queue: str, namespace: str, spec: PodSpec, pods: int = 1
    ) -> Inadmissible | PodAdditions | None:
        """Return what a local queue gives to pods when it admits them, or why it never does; None if it is
        not known."""
        local = self._find(f"LocalQueue.{_GROUP}", namespace, queue) if queue else None
        name = str(map_of(local, "spec").get("clusterQueue"))
        if name not in self._queues:
            return None
        with located(ValueError, obj=f"ClusterQueue {name}", path="spec.resourceGroups"):
            return self._admission(name, spec, pods)

    def _admission(self, name: str, spec: PodSpec, pods: int) -> Inadmissible | PodAdditions:
        requests = pod_requests(Pod(spec=with_limits_requested(spec)))
        needed = {key: amount * Quantity(str(pods)) for key, amount in requests.items() if amount.sign()}
        groups = maps_of(self._queues[name].get("resourceGroups"))
        head = f"which ClusterQueue {name} never admits:"
        covered = {key for group in groups for key in _covered(group)}
        if lacking := sorted(needed.keys() - covered):
            return Inadmissible(pods, f"{head} it has no quota for {needed[lacking[0]]} {lacking[0]}")
        labels, tolerations = dict[str, str](), tuple[Toleration, ...]()
        for group in groups:
            requests = {key: needed[key] for key in _covered(group) if key in needed}
            if not requests:
                continue
            flavors = {str(flavor.get("name")): flavor for flavor in maps_of(group.get("flavors"))}
            known = {flavor: self._flavors.get(flavor, _NO_FLAVOR) for flavor in flavors}
            keys = {key for flavor in known.values() for key in flavor.node_labels}
            texts = {
                flavor: known[flavor].refusal(flavor, spec, keys) or self._lacking(name, quota, requests)
                for flavor, quota in flavors.items()
            }
            if all(texts.values()):
                return Inadmissible(pods, f"{head} {'; '.join(texts.values()) or 'it has no flavor'}")
            for flavor in [flavor for flavor, text in texts.items() if not text][:1]:
                labels |= known[flavor].node_labels
                tolerations += known[flavor].tolerations
        return PodAdditions(labels, tolerations)

    def _lacking(self, queue: str, flavor: Values, requests: Mapping[str, Quantity]) -> str:
        """Return of which resource a flavor has too little, and how much it has; "" if it has all."""
        name = str(flavor.get("name"))
        for resource, amount in requests.items():
            nominal, lent = self._most(queue, name, resource)
            if amount > nominal + lent:
                cohort = _cohort(self._queues[queue])
                lends = f", and cohort {cohort} lends {lent}" if cohort else ""
                return f"flavor {name} has {nominal} of {amount} {resource}{lends}"
        return ""

    def _most(self, queue: str, flavor: str, resource: str) -> tuple[Quantity, Quantity]:
        """Return what a queue has of a flavor, and what its cohort can lend to it at most."""
        spec = self._queues[queue]
        own, cohort = _quota(spec, flavor, resource), _cohort(spec)
        lent, root = _ZERO, self._root(cohort)
        for other, its in self._queues.items() if cohort else ():
            if other != queue and _cohort(its) and self._root(_cohort(its)) == root:
                quota = _quota(its, flavor, resource)
                lent += _least(_amount(quota, "nominalQuota"), quota, "lendingLimit")
        for other, its in self._cohorts.items() if cohort else ():
            if self._root(other) == root:
                lent += _amount(_quota(its, flavor, resource), "nominalQuota")
        return _amount(own, "nominalQuota"), _least(lent, own, "borrowingLimit")

    def _root(self, cohort: str) -> str:
        """Return the cohort at the top of the tree of a cohort."""
        seen: set[str] = set()
        while cohort not in seen:
            seen.add(cohort)
            spec = self._cohorts.get(cohort, {})
            cohort = str(spec.get("parentName") or spec.get("parent") or cohort)
        return cohort


def _covered(group: Values) -> list[str]:
    names = group.get("coveredResources")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _about(spec: PodSpec, keys: AbstractSet[str]) -> PodSpec:
    """Return pods with those constraints on nodes that are about labels; a term that says nothing else makes
    the whole affinity void."""
    selector = {key: value for key, value in (spec.node_selector or {}).items() if key in keys}
    nodes = spec.affinity.node_affinity if spec.affinity is not None else None
    required = nodes.required.node_selector_terms if nodes is not None and nodes.required is not None else ()
    terms = [
        NodeSelectorTerm(
            match_expressions=tuple(
                [expression for expression in term.match_expressions if expression.key in keys]
            )
        )
        for term in required
    ]
    affinity = None
    if terms and all(term.match_expressions for term in terms):
        affinity = Affinity(node_affinity=NodeAffinity(required=NodeSelector(tuple(terms))))
    return PodSpec(node_selector=selector, affinity=affinity)


def fewest(job: Job) -> int:
    """Return the smallest number of pods with which Kueue starts a Job."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    pods = parallelism if job.spec.completions is None else min(parallelism, job.spec.completions)
    least = whole_number(job.metadata.annotations.get(_MIN, ""))
    return pods if least is None else min(pods, max(least, 1))


def _cohort(spec: Values) -> str:
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _quota(spec: Values, flavor: str, resource: str) -> Values:
    """Return the quota of a resource of a flavor; empty without any."""
    for group in maps_of(spec.get("resourceGroups")):
        for quotas in maps_of(group.get("flavors")):
            if quotas.get("name") == flavor:
                for quota in maps_of(quotas.get("resources")):
                    if quota.get("name") == resource:
                        return quota
    return {}


def _amount(quota: Values, field: str) -> Quantity:
    value = quota.get(field)
    return _ZERO if value is None else Quantity(str(value))


def _least(amount: Quantity, quota: Values, field: str) -> Quantity:
    """Return an amount, at most the limit that a quota sets to it."""
    return amount if quota.get(field) is None else min(amount, _amount(quota, field))
