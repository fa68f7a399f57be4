"""Which pods Karpenter takes up, which it ignores and why, and which nodes their volumes leave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import inf

from msgspec import Struct

from moorage._core.base.label_syntax import requirement_errors
from moorage._core.provision.label_requirements import RequirementSet, Vocabulary, go_integer
from moorage.engine.volume.claims import BIND_COMPLETED
from moorage.engine.volume.volume_topology import MIGRATED, UNCOUNTED
from moorage.kube import (
    NodeSelectorRequirement,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodSpec,
    StorageClass,
    Taint,
    Volume,
)
from moorage.kube.go_texts import parse_duration
from moorage.kube.model.autoscaling import NodeRequirement
from moorage.kube.model.cluster import seconds
from moorage.kube.model.node import HOSTNAME
from moorage.kube.workloads.disruption import BudgetSelectors
from moorage.kube.workloads.ownership import FINISHED, is_active

from ..providers.instance_type import POOL
from ..providers.known_labels import KnownLabels
from .pod_shape import PodConstraints, untolerated, with_values

MOST_LIKE = 5
"""How many known labels are named in place of a wrong one."""
_ALL_KNOWN = re.compile(r"using label (?P<key>\S+) is .*?well known label: \[(?P<known>[^]]*)")

# ---- which nodes the volumes of a pod leave, and how many of a driver's they are ---------------------------
# Rules: Karpenter v1.15.0, volumetopology.go and pkg/scheduling/volumeusage.go.

DRIVERS = {plugin.name: plugin.driver for plugin in (MIGRATED | UNCOUNTED).values()}
"""CSI driver by in-tree provisioner."""


class VolumeLookupError(Exception):
    """A claim, volume or class that a pod needs is not there; the message is Karpenter's."""


class Storage(Struct, frozen=True):
    """The objects that say where volumes can be."""

    claims: Mapping[str, PersistentVolumeClaim]
    volumes: Mapping[str, PersistentVolume]
    classes: Mapping[str, StorageClass]

    def claim(self, pod: Pod, volume: Volume) -> PersistentVolumeClaim | None:
        """The claim of a volume; None for a volume without one."""
        key = pod.claim_key(volume)
        if key is None:
            return None
        claim = self.claims.get(key)
        if claim is None:
            name = key.partition("/")[2]
            text = f'getting persistent volume claim, persistentvolumeclaims "{name}" not found'
            raise VolumeLookupError(with_values(text, PersistentVolumeClaim=name))
        return claim

    def volume(self, name: str) -> PersistentVolume:
        if name not in self.volumes:
            raise VolumeLookupError(f'persistentvolumes "{name}" not found')
        return self.volumes[name]

    def storage_class(self, name: str) -> StorageClass:
        if name not in self.classes:
            raise VolumeLookupError(f'storageclasses.storage.k8s.io "{name}" not found')
        return self.classes[name]

    def driver(self, claim: PersistentVolumeClaim) -> str:
        """The CSI driver of a claim; "" for one whose volumes are not counted."""
        if claim.spec.volume_name:
            spec = self.volume(claim.spec.volume_name).spec
            if spec.csi is not None:
                return spec.csi.driver
            return MIGRATED["aws_elastic_block_store"].driver if spec.aws_elastic_block_store else ""
        storage_class = self.classes.get(claim.spec.storage_class_name or "")
        return (
            DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
            if storage_class is not None
            else ""
        )


Volumes = Mapping[str, frozenset[str]]
"""Claims by driver."""


def volumes_of(pod: Pod, storage: Storage) -> Volumes:
    """The volumes that count; those whose claims are gone do not."""
    volumes_by_driver: dict[str, frozenset[str]] = {}
    for volume in pod.spec.volumes:
        try:
            claim = storage.claim(pod, volume)
            driver = "" if claim is None else storage.driver(claim)
        except VolumeLookupError:
            continue
        if claim is not None and driver:
            volumes_by_driver[driver] = volumes_by_driver.get(driver, frozenset()) | {claim.key}
    return volumes_by_driver


def joined(volumes: Volumes, more: Volumes) -> Volumes:
    """The union by driver."""
    drivers = {**volumes, **more}
    return {name: volumes.get(name, frozenset()) | more.get(name, frozenset()) for name in drivers}


def volume_alternatives(pod: Pod, storage: Storage, vocabulary: Vocabulary) -> Sequence[RequirementSet]:
    """What nodes must have so that all volumes of a pod are accessible; alternatives, none without volumes.

    Raises
    ------
    VolumeLookupError
        An object is not there.
    """
    alternatives: list[RequirementSet] = []
    for volume in pod.spec.volumes:
        terms = list(_terms(pod, volume, storage, vocabulary))
        if not terms:
            continue
        if not alternatives:
            alternatives = terms
            continue
        pairs = [(alternative, other) for alternative in alternatives for other in terms]
        compatible = [pair for pair in pairs if pair[0].intersects(pair[1])]
        alternatives = [each.meet(other) for each, other in compatible or pairs]
    return alternatives


def _terms(pod: Pod, volume: Volume, storage: Storage, vocabulary: Vocabulary) -> Iterator[RequirementSet]:
    claim = storage.claim(pod, volume)
    if claim is None:
        return
    if claim.spec.volume_name:
        yield from _volume_terms(storage.volume(claim.spec.volume_name), vocabulary)
    elif claim.spec.storage_class_name:
        for term in storage.storage_class(claim.spec.storage_class_name).allowed_topologies:
            if term.match_label_expressions:
                yield vocabulary.set_of(
                    [
                        vocabulary.requirement(
                            match_label_expression.key, "In", match_label_expression.values
                        )
                        for match_label_expression in term.match_label_expressions
                    ]
                )


def _volume_terms(volume: PersistentVolume, vocabulary: Vocabulary) -> Iterator[RequirementSet]:
    spec = volume.spec
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    on_host = spec.local is not None or spec.host_path is not None
    for term in required.node_selector_terms if required is not None else ():
        kept = [
            match_expression
            for match_expression in term.match_expressions
            if not (on_host and match_expression.key == HOSTNAME)
        ]
        if kept or (on_host and term.match_expressions):
            yield vocabulary.of_terms(kept)


def claim_problems(pod: Pod, storage: Storage) -> str:
    """Why Karpenter ignores a pod for its claims; "" if it does not."""
    try:
        for volume in pod.spec.volumes:
            claim = storage.claim(pod, volume)
            if claim is not None and (problem := _claim_problem(claim, storage)):
                return problem
    except VolumeLookupError as error:
        return str(error)
    return ""


def _claim_problem(claim: PersistentVolumeClaim, storage: Storage) -> str:
    name, class_name = claim.spec.volume_name, claim.spec.storage_class_name or ""
    about = {"PersistentVolumeClaim": claim.key, "StorageClass": class_name}
    if claim.metadata.deletion_timestamp is not None:
        return with_values("persistentvolumeclaim is being deleted", PersistentVolumeClaim=claim.key)
    if claim.status.phase == "Lost":
        text = "persistentvolumeclaim bound to non-existent persistentvolume"
        return with_values(text, PersistentVolumeClaim=claim.key, PersistentVolume=name)
    if name:
        bound = storage.volumes.get(name)
        if bound is None or bound.metadata.deletion_timestamp is not None:
            why = "persistentvolume is being deleted" if bound else f'persistentvolumes "{name}" not found'
            return with_values(f"failed to validate pvc, {why}", PersistentVolume=name, **about)
        if BIND_COMPLETED not in claim.metadata.annotations:
            text = "pvc is considered unbound because it does not contain annotation"
            values = {"annotation": BIND_COMPLETED, "PersistentVolumeClaim": claim.name}
            return with_values(text, PersistentVolume=name, **values)
        return ""
    if not class_name:
        return with_values("unbound pvc must define a storage class", **about)
    if class_name not in storage.classes:
        why = f'failed to get storage class, storageclasses.storage.k8s.io "{class_name}" not found'
        return with_values(f"failed to validate pvc, {why}", **about)
    if storage.classes[class_name].volume_binding_mode == "Immediate":
        why = "pvc with immediate volume binding mode must be bound"
        return with_values(f"failed to validate pvc, {why}", **about)
    return ""


# ---- which pods Karpenter takes up, and which it ignores and why -------------------------------------------
# Rules: Karpenter v1.15.0, pkg/utils/pod/scheduling.go, pkg/controllers/provisioning/provisioner.go
# (Validate), pkg/apis/v1/nodeclaim_validation.go.

GROUP = "karpenter.sh"
DO_NOT_DISRUPT = f"{GROUP}/do-not-disrupt"
_OPERATORS = ("DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn")
_BOUNDS = ("Gt", "Lt", "Gte", "Lte")
DISRUPTED = Taint(key=f"{GROUP}/disrupted", effect="NoSchedule")
"""The taint that Karpenter gives to nodes that it removes."""


def owned_by(pod: Pod, kind: str, api_version: str) -> bool:
    return any(
        owner_reference.kind == kind and owner_reference.api_version == api_version
        for owner_reference in pod.metadata.owner_references
    )


def is_terminal(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def failed_to_schedule(pod: Pod) -> bool:
    """Whether kube-scheduler has said that the pod fits nowhere."""
    return any(
        condition.type == "PodScheduled" and condition.reason == "Unschedulable"
        for condition in pod.status.conditions
    )


def is_provisionable(pod: Pod) -> bool:
    """Whether a pod without a node is one that nodes may come for."""
    daemon = owned_by(pod, "DaemonSet", "apps/v1") or owned_by(pod, "Node", "v1")
    return not (pod.spec.node_name or pod.status.nominated_node_name or daemon)


def problems(pod: Pod, constraints: PodConstraints, storage: Storage) -> str:
    """Why Karpenter ignores a pod; "" if it does not."""
    problems: list[str] | None = constraints.memo.get("problems")
    if problems is None:
        problems = constraints.memo["problems"] = list(_constraint_problems(pod, constraints))
    claims = claim_problems(pod, storage) if pod.spec.volumes else ""
    return "; ".join([*problems, claims] if claims else problems)


def _constraint_problems(pod: Pod, constraints: PodConstraints) -> Iterator[str]:
    pool = constraints.requirements.by_key.get(POOL)
    if pool is not None and pool.operator == "DoesNotExist":
        text = "configured to not run on a Karpenter provisioned node"
        yield with_values(text, requirement=f"{POOL} DoesNotExist")
    yield from _selector_problems(pod.spec, constraints.vocabulary.known_labels)


def _selector_problems(spec: PodSpec, known: KnownLabels) -> Iterator[str]:
    for key, value in sorted((spec.node_selector or {}).items()):
        selected = NodeSelectorRequirement(key=key, operator="In", values=(value,))
        yield from requirement_problems(selected, known)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    for term in affinity.required.node_selector_terms if affinity and affinity.required else ():
        if term.match_fields:
            yield "node selector term with matchFields is not supported"
        for match_expression in term.match_expressions:
            yield from requirement_problems(match_expression, known)


def in_short(problem: str) -> str:
    """Return why Karpenter takes up no pod or pool, shortened: of the known labels that it lists, those stay
    that are most like the wrong one."""
    match = _ALL_KNOWN.search(problem)
    if match is None:
        return problem
    names = get_close_matches(match["key"], match["known"].split(), MOST_LIKE, 0)
    return f"{problem[: match.start('known')]}{' '.join(names)} …{in_short(problem[match.end('known') :])}"


def requirement_problems(
    each: NodeSelectorRequirement | NodeRequirement, known: KnownLabels
) -> Iterator[str]:
    """Yield why Karpenter accepts no such requirement, of a pod or of a pool."""
    key, operator = known.key(each.key), each.operator
    if operator not in _OPERATORS:
        yield f"key {key} has an unsupported operator {operator} not in [{' '.join(_OPERATORS)}]"
    if known.restricts(key) or key == HOSTNAME:
        yield (
            f"using label {key} is not allowed as it might interfere with the internal provisioning logic; "
            f"specify a well known label: [{' '.join(sorted(known.known))}], or a custom label that does not "
            f"use a restricted domain: [{' '.join(sorted(known.restricted))}]"
        )
    if operator == "In" and key in known.values and not known.values[key] & {*each.values}:
        allowed = " ".join(f"{name}:{{}}" for name in sorted(known.values[key]))
        values = f"[{' '.join(each.values)}]"
        yield f"no valid values found in {values} for {key}, expected one of: map[{allowed}], got: {values}"
    for field, _, detail in requirement_errors(key, "Exists", ()):
        if field == "key":
            yield f"key {key} is not a qualified name, {detail}"
    for value in each.values:
        for field, _, detail in requirement_errors("a", "In", (value,)):
            if field.startswith("values["):
                yield f"invalid value {value} for key {key}, {detail}"
    if operator == "In" and not each.values:
        yield f"key {key} with operator In must have a value defined"
    if operator in _BOUNDS:
        number = go_integer(each.values[0]) if len(each.values) == 1 else None
        if number is None or number < 0:
            yield f"key {key} with operator {operator} must have a single positive integer value"


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
    unready = any(
        condition.type == "Ready" and condition.status == "False" for condition in pod.status.conditions
    )
    return unready and budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"


def _blocked(pod: Pod, matching: Sequence[PodDisruptionBudget]) -> bool:
    """Whether budgets can never let a pod go."""
    if len(matching) != 1:
        return len(matching) > 1
    spec = matching[0].spec
    if goes_unready(pod, matching[0]):
        return False
    return spec.max_unavailable in (0, "0%") or spec.min_available == "100%"
