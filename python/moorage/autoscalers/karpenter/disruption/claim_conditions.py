"""What Karpenter's controller writes on claims: whether they could be consolidated, and whether they drifted.

Rules: Karpenter v1.15.0, pkg/controllers/nodeclaim/disruption/consolidation.go and drift.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from moorage.autoscalers.instance_types.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVED
from moorage.kube import EC2NodeClass, NodeClaim, NodePool
from moorage.kube.go_texts import parse_duration
from moorage.kube.model.cluster import seconds

from ..claims.type_columns import KnownType
from ..cluster_view import ClusterView
from ..nodes.state_nodes import condition, is_true
from ..pods.pod_validation import GROUP

HASH, HASH_VERSION = f"{GROUP}/nodepool-hash", f"{GROUP}/nodepool-hash-version"
CLASS_HASH = "karpenter.k8s.aws/ec2nodeclass-hash"
_OF_CORE = ("NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound", "")
"""Reasons that Karpenter finds out anew; others come from its provider."""
_HOUR = 3600.0


def consolidate_after(pool: NodePool) -> float | None:
    """Seconds that a node must have been left alone; None where nodes are never consolidated."""
    text = pool.spec.disruption.consolidate_after
    return None if text is None or text == "Never" else parse_duration(text) / 1e9


def is_fresh(pool: NodePool | None, claim: NodeClaim | None, now: float) -> bool:
    """Whether pods came or went on a node so lately that it is left alone."""
    after = consolidate_after(pool) if pool is not None else None
    if not after or claim is None or not is_true(claim, "Initialized"):
        return False
    return now - _last_change(claim) < after


def consolidatable_at(pool: NodePool, claim: NodeClaim) -> float:
    """When a node may be consolidated if no pod comes or goes (seconds since 1970); infinite for never."""
    after = consolidate_after(pool)
    return float("inf") if after is None else _last_change(claim) + after


def offered_until(claim: NodeClaim) -> float:
    """Until when a claim is too young to be asked whether its type is still offered (seconds since 1970)."""
    created = claim.metadata.creation_timestamp
    return seconds(created) + _HOUR if created else float("-inf")


def _last_change(claim: NodeClaim) -> float:
    initialized = condition(claim, "Initialized")
    begun = initialized.last_transition_time if initialized is not None else None
    time = claim.status.last_pod_event_time or begun
    return seconds(time) if time else float("-inf")


def is_consolidatable(pool: NodePool, claim: NodeClaim, now: float) -> bool:
    """The condition Consolidatable."""
    if pool.spec.replicas is not None or claim.metadata.deletion_timestamp is not None:
        return is_true(claim, "Consolidatable")
    never = consolidate_after(pool) is None
    return not never and is_true(claim, "Initialized") and not is_fresh(pool, claim, now)


def drifted_since(view: ClusterView, pool: NodePool, claim: NodeClaim, now: float) -> float | None:
    """Since when the condition Drifted holds (seconds since 1970); None if it does not."""
    before = condition(claim, "Drifted")
    begun = before.last_transition_time if before is not None and before.status == "True" else None
    if claim.metadata.deletion_timestamp is None and (
        not is_true(claim, "Launched") or not drift_reason(view, pool, claim, now)
    ):
        return None
    return seconds(begun) if begun else now


def drift_reason(view: ClusterView, pool: NodePool, claim: NodeClaim, now: float) -> str:
    """Why a claim is not as its pool would make it now; "" if it is."""
    if _has_other_hash(claim, pool, HASH, HASH_VERSION):
        return "NodePoolDrifted"
    labels = view.vocabulary.of_labels(claim.metadata.labels)
    asked = [
        view.vocabulary.requirement(one.key, one.operator, one.values)
        for one in pool.spec.template.spec.requirements or ()
    ]
    if labels.refusal(view.vocabulary.set_of(asked), undefined=False):
        return "RequirementsDrifted"
    if now > offered_until(claim) and not _is_offered(view, view.types_of(pool.name), claim):
        return "InstanceTypeNotFound"
    return _drift_of_provider(view, pool, claim)


def _drift_of_provider(view: ClusterView, pool: NodePool, claim: NodeClaim) -> str:
    """Why the provider would make a node of another kind: what it told, or a node class that has changed.

    What it compares besides, such as images and subnets, is known only to it.
    """
    name = pool.spec.template.spec.node_class_ref.name
    made = next((one for one in view.objects.list(EC2NodeClass) if one.name == name), None)
    if made is not None and _has_other_hash(claim, made, CLASS_HASH, f"{CLASS_HASH}-version"):
        return "NodeClassDrift"
    told = condition(claim, "Drifted")
    is_told = told is not None and told.status == "True" and told.reason not in _OF_CORE
    return told.reason if told is not None and is_told else ""


def _has_other_hash(claim: NodeClaim, of: NodePool | EC2NodeClass, name: str, version: str) -> bool:
    """Whether a claim was made of another template, as far as hashes of the same version tell."""
    mine, theirs = claim.metadata.annotations, of.metadata.annotations
    is_known = all(key in notes for key in (name, version) for notes in (mine, theirs))
    return is_known and mine[version] == theirs[version] and mine[name] != theirs[name]


def _is_offered(view: ClusterView, types: Sequence[KnownType], claim: NodeClaim) -> bool:
    """Whether the provider still has the type and the offering of a claim."""
    labels = claim.metadata.labels
    of_claim = next((one for one in types if one.name == labels.get(INSTANCE_TYPE)), None)
    if of_claim is None:
        return False
    asked = view.vocabulary.of_labels(labels)
    if labels.get(CAPACITY_TYPE) == RESERVED:  # may have become on-demand since
        kinds = view.vocabulary.key(CAPACITY_TYPE).one_of(RESERVED, "on-demand")
        asked = asked.having(kinds)
        for label in view.vocabulary.registration.reservation_labels:
            asked = asked.without(label)
    return any(not asked.refusal(one.requirements, undefined=True) for one in of_claim.offerings)
