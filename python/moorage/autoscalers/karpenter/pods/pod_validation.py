"""Which pods Karpenter takes up, and which it ignores and why.

Rules: Karpenter v1.15.0, pkg/utils/pod/scheduling.go, pkg/controllers/provisioning/provisioner.go (Validate),
pkg/apis/v1/nodeclaim_validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from moorage._core.base.label_syntax import requirement_errors
from moorage.autoscalers.instance_types.labels import POOL
from moorage.autoscalers.providers.registrations import Registration
from moorage.kube import NodeSelectorRequirement, Pod, PodDisruptionBudget, PodSpec, Taint
from moorage.kube.go_texts import parse_duration
from moorage.kube.model.autoscaling import NodeRequirement
from moorage.kube.model.cluster import seconds
from moorage.kube.model.node import HOSTNAME
from moorage.kube.workloads.disruption import BudgetSelectors
from moorage.kube.workloads.ownership import FINISHED, is_active

from ..requirements.requirement import go_integer
from ..texts import with_values
from .pod_shape import PodShape, untolerated
from .volume_alternatives import Storage, claim_problems

GROUP = "karpenter.sh"
DO_NOT_DISRUPT = f"{GROUP}/do-not-disrupt"
_OPERATORS = ("DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn")
_BOUNDS = ("Gt", "Lt", "Gte", "Lte")
DISRUPTED = Taint(key=f"{GROUP}/disrupted", effect="NoSchedule")
"""The taint that Karpenter gives to nodes that it removes."""


def owned_by(pod: Pod, kind: str, api_version: str) -> bool:
    return any(one.kind == kind and one.api_version == api_version for one in pod.metadata.owner_references)


def is_terminal(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def failed_to_schedule(pod: Pod) -> bool:
    """Whether kube-scheduler has said that the pod fits nowhere."""
    return any(one.type == "PodScheduled" and one.reason == "Unschedulable" for one in pod.status.conditions)


def is_provisionable(pod: Pod) -> bool:
    """Whether a pod without a node is one that nodes may come for."""
    daemon = owned_by(pod, "DaemonSet", "apps/v1") or owned_by(pod, "Node", "v1")
    return not (pod.spec.node_name or pod.status.nominated_node_name or daemon)


def has_claims(pod: Pod) -> bool:
    """Whether a pod or a container of it asks for devices by resource claims."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return bool(pod.spec.resource_claims) or any(one.resources.claims for one in containers)


def problems(pod: Pod, shape: PodShape, storage: Storage) -> str:
    """Why Karpenter ignores a pod; "" if it does not."""
    found = []
    pool = shape.requirements.by_key.get(POOL)
    if pool is not None and pool.operator == "DoesNotExist":
        text = "configured to not run on a Karpenter provisioned node"
        found.append(with_values(text, requirement=f"{POOL} DoesNotExist"))
    found += _selector_problems(pod.spec, shape.vocabulary.registration)
    found.append(claim_problems(pod, storage))
    return "; ".join(filter(None, found))


def _selector_problems(spec: PodSpec, known: Registration) -> Iterator[str]:
    for key, value in sorted((spec.node_selector or {}).items()):
        selected = NodeSelectorRequirement(key=key, operator="In", values=(value,))
        yield from requirement_problems(selected, known)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    for term in affinity.required.node_selector_terms if affinity and affinity.required else ():
        if term.match_fields:
            yield "node selector term with matchFields is not supported"
        for one in term.match_expressions:
            yield from requirement_problems(one, known)


def requirement_problems(
    one: NodeSelectorRequirement | NodeRequirement, known: Registration
) -> Iterator[str]:
    """Yield why Karpenter accepts no such requirement, of a pod or of a pool."""
    key, operator = known.key(one.key), one.operator
    if operator not in _OPERATORS:
        yield f"key {key} has an unsupported operator {operator} not in [{' '.join(_OPERATORS)}]"
    if known.restricts(key) or key == HOSTNAME:
        yield _restricted(key, known)
    if operator == "In" and key in known.values and not known.values[key] & {*one.values}:
        allowed = " ".join(f"{name}:{{}}" for name in sorted(known.values[key]))
        values = f"[{' '.join(one.values)}]"
        yield f"no valid values found in {values} for {key}, expected one of: map[{allowed}], got: {values}"
    for field, _, detail in requirement_errors(key, "Exists", ()):
        if field == "key":
            yield f"key {key} is not a qualified name, {detail}"
    for value in one.values:
        for field, _, detail in requirement_errors("a", "In", (value,)):
            if field.startswith("values["):
                yield f"invalid value {value} for key {key}, {detail}"
    if operator == "In" and not one.values:
        yield f"key {key} with operator In must have a value defined"
    if operator in _BOUNDS:
        number = go_integer(one.values[0]) if len(one.values) == 1 else None
        if number is None or number < 0:
            yield f"key {key} with operator {operator} must have a single positive integer value"


def _restricted(key: str, known: Registration) -> str:
    """Karpenter's text about a label that only Karpenter, its provider or a node sets."""
    return (
        f"using label {key} is not allowed as it might interfere with the internal provisioning logic; "
        f"specify a well known label: [{' '.join(sorted(known.known))}], or a custom label that does not "
        f"use a restricted domain: [{' '.join(sorted(known.restricted))}]"
    )


def is_reschedulable(pod: Pod) -> bool:
    """Whether a pod needs another node when its own goes."""
    terminating = pod.metadata.deletion_timestamp is not None
    if not is_active(pod) and not (terminating and owned_by(pod, "StatefulSet", "apps/v1")):
        return False
    return not (owned_by(pod, "DaemonSet", "apps/v1") or owned_by(pod, "Node", "v1"))


def moves_now(pod: Pod, budgets: BudgetSelectors, now: float) -> bool:
    """Whether a pod of a node that goes needs another node now (seconds since 1970)."""
    if not is_reschedulable(pod):
        return False
    if not is_active(pod):
        return True
    if is_protected(pod, now):
        return False
    return tolerates_disruption(pod) or not _blocked(pod, budgets.of(pod))


def tolerates_disruption(pod: Pod) -> bool:
    """Whether a pod stays on a node that Karpenter removes until the end."""
    return not untolerated((DISRUPTED,), pod.spec.tolerations)


def is_protected(pod: Pod, now: float) -> bool:
    """Whether a pod forbids to be disrupted, for ever or for a time after its start."""
    return now < protected_until(pod)


def protected_until(pod: Pod) -> float:
    """Until when a pod forbids to be disrupted (seconds since 1970); infinite for ever."""
    value = pod.metadata.annotations.get(DO_NOT_DISRUPT, "")
    if value in ("", "true"):
        return inf if value else -inf
    try:
        duration = parse_duration(value) / 1e9
    except ValueError:
        return -inf
    start = pod.status.start_time
    if duration <= 0:
        return -inf
    return inf if start is None else seconds(start) + duration


def goes_unready(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Whether a budget lets a pod go because the pod is not ready."""
    unready = any(one.type == "Ready" and one.status == "False" for one in pod.status.conditions)
    return unready and budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"


def _blocked(pod: Pod, matching: Sequence[PodDisruptionBudget]) -> bool:
    """Whether budgets can never let a pod go."""
    if len(matching) != 1:
        return len(matching) > 1
    spec = matching[0].spec
    if goes_unready(pod, matching[0]):
        return False
    return spec.max_unavailable in (0, "0%") or spec.min_available == "100%"
