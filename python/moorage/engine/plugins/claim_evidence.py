"""Evidence about a pod's claims and their volumes: of VolumeBinding and VolumeZone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from msgspec import Struct

from moorage.errors import examples
from moorage.kube import Node, NodeSelector, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.kube.model.node import HOSTNAME
from moorage.kube.model.storage import CSIDriver, CSIStorageCapacity
from moorage.store.errors import NotFoundError

from ..framework.evidence import Evidence, Fact, FindEvidence, RejectedPod, Rows, offered, quantity_text
from ..framework.status import Status
from ..volume import VolumeError, VolumeSources, volume_binder
from ..volume.claims import (
    NO_PROVISIONER,
    SELECTED_NODE,
    PodVolumeClaims,
    allows_topology,
    claim_class,
    claimed_size,
    is_fully_bound,
    parse_bytes,
    requested_storage,
    storage_capacity,
    volume_size,
)
from ..volume.volume_topology import required_affinity
from .node_affinity_and_taints import requirement_text

STORAGE = "storage"
MOST_KEPT = 3
"""Maximum number of volumes, and of namespaces, that are named."""


def claim_fact(
    claim: str, problem: str, storage_class: str | None = None, nodes: int = 1, **values: object
) -> Fact:
    """Return that a claim keeps the pod off.

    Parameters
    ----------
    claim : str
        ``namespace/name``.
    values : object
        What was compared, by its name in JSON. Where storage capacity is compared: what the claim asks for,
        the largest volume that a CSIStorageCapacity of its class allows on the node, and that object.
    """
    facts = {"problem": problem, "storageClass": storage_class, **values}
    facts = {name: value for name, value in facts.items() if value is not None}
    return Fact("claim", claim, problem, values=facts, nodes=nodes)


class Claims(Struct):
    """Finds what is wrong with the claims of a pod.

    Attributes
    ----------
    sources : VolumeSources
        What the volume binder reads.
    listers : callable
        Returns the lister of a kind.
    claims : PodVolumeClaims or None
        The claims as PreFilter has classified them; None where it rejects the pod.
    """

    inquiry: RejectedPod
    sources: VolumeSources
    listers: Any
    claims: PodVolumeClaims | None

    def finder(self) -> FindEvidence:
        """Return the function that finds the evidence of nodes."""

        def find(rows: Rows, status: Status) -> Iterator[Evidence]:
            if self.claims is None or self.claims.unbound_immediate:
                for fact in self._of_pod():
                    yield replace(fact, nodes=len(rows))
                return
            for row in rows.tolist():
                yield from self._of_node(self.claims, self.inquiry.node(row), status.reasons)

        return find

    # ---- whatever the node

    def _of_pod(self) -> Iterator[Fact]:
        """Yield the claims for which PreFilter rejects the pod."""
        claims = self.listers(PersistentVolumeClaim)
        yield from missing_claims(self.inquiry.pod, claims)
        for claim in claims_of(self.inquiry.pod, claims):
            if not is_fully_bound(claim) or claim.status.phase == "Lost":
                yield self._unbound(claim)
            elif claim.metadata.deletion_timestamp is not None:
                yield claim_fact(claim.key, f"being deleted since {claim.metadata.deletion_timestamp}")

    def _unbound(self, claim: PersistentVolumeClaim) -> Fact:
        """What is wrong with a claim that has no volume, or has lost it."""
        name, volume = claim_class(claim), claim.spec.volume_name
        if volume:
            return claim_fact(claim.key, self._lost(claim), name or None, volume=volume)
        text = f"not bound, class {name or '(none)'}"
        try:
            mode = self.listers(StorageClass).get(name).volume_binding_mode if name else None
        except NotFoundError:
            return claim_fact(
                claim.key, f"{text}: {_hint(self.listers(StorageClass), 'StorageClass', name)}", name
            )
        if not name:
            classes = self.listers(StorageClass)
            hint = "" if classes.list() else f": {_hint(classes, 'StorageClass', '')}"
            return claim_fact(claim.key, text + hint)
        return claim_fact(claim.key, f"{text}, mode {mode}: a volume is bound before the pod", name)

    def _lost(self, claim: PersistentVolumeClaim) -> str:
        """Say why a claim does not have the volume that it names."""
        name = claim.spec.volume_name
        try:
            volume: PersistentVolume = self.listers(PersistentVolume).get(name)
        except NotFoundError:
            return f"bound to missing volume {name}: {_hint(self.listers(PersistentVolume), PV, name)}"
        reference = volume.spec.claim_ref
        uid, wanted = claim.metadata.uid, None if reference is None else reference.uid
        if wanted != uid:
            theirs = f"UID {wanted}" if wanted else "no UID"
            return f"volume {name} is bound to a claim with {theirs}, and this one has UID {uid or '(none)'}"
        return f"not bound to volume {name} yet"

    def has_node(self, name: str) -> bool:
        """Whether there is a node of a name."""
        return self.inquiry.search.state.has_node(name)

    # ---- on a node

    def _of_node(self, claims: PodVolumeClaims, node: Node, reasons: Iterable[str]) -> Iterator[Fact]:
        for reason in reasons:
            if reason in (volume_binder.NODE_CONFLICT, volume_binder.VOLUME_MISSING):
                yield from self._of_bound(claims, node)
            elif reason == volume_binder.NOT_ENOUGH_SPACE:
                yield from self._of_capacity(claims, node)
            elif reason == volume_binder.BIND_CONFLICT:
                yield from self._of_unbound(claims, node)

    def _of_bound(self, claims: PodVolumeClaims, node: Node) -> Iterator[Fact]:
        for claim in claims.bound:
            name, class_name = claim.spec.volume_name, claim_class(claim) or None
            try:
                volume = self.sources.pv_cache.get_pv(name)
            except VolumeError:
                yield claim_fact(claim.key, f"bound to missing volume {name}", class_name, volume=name)
                continue
            with suppress(VolumeError):
                if not self.sources.reaches(node, volume):
                    required = self.sources.required_on(node, volume)
                    where = _affinity_text(volume, required) + _renamed(required, node)
                    text = f"bound to volume {name}{where}{self._made_early(class_name)}"
                    yield claim_fact(claim.key, text, class_name, volume=name)

    def _made_early(self, class_name: str | None) -> str:
        """Say that a class makes volumes before pods are placed, where it does."""
        with suppress(NotFoundError):
            storage_class: StorageClass = self.listers(StorageClass).get(class_name or "")
            if storage_class.volume_binding_mode == "Immediate":
                return f"; class {class_name} is Immediate: it makes volumes before pods have nodes"
        return ""

    def _of_capacity(self, claims: PodVolumeClaims, node: Node) -> Iterator[Fact]:
        """Yield the claims for which no storage capacity that the node can use is large enough."""
        for claim in claims.unbound_delayed:
            name = claim_class(claim)
            driver = self.listers(StorageClass).get(name).provisioner
            with suppress(NotFoundError):
                published: CSIDriver = self.listers(CSIDriver).get(driver)
                if published.spec.storage_capacity:
                    fact = self._too_small(claim, name, driver, node)
                    if fact is not None:
                        yield fact

    def _too_small(self, claim: PersistentVolumeClaim, name: str, driver: str, node: Node) -> Fact | None:
        requested = requested_storage(claim)
        listed: list[CSIStorageCapacity] = self.listers(CSIStorageCapacity).list()
        here = [
            (largest_volume(volume), volume.key)
            for volume in listed
            if volume.storage_class_name == name and volume_binder.has_access(node, volume)
        ]
        values: dict[str, Any] = {"driver": driver, "requested": quantity_text(STORAGE, requested)}
        asks = f"asks for {offered(STORAGE, requested)} of class {name}"
        if not here:
            problem = f"{asks}; driver {driver} has published no CSIStorageCapacity for this class and node"
            return claim_fact(claim.key, problem, name, **values)
        largest, key = max(here)
        if largest >= requested:
            return None
        values |= {"largest": quantity_text(STORAGE, largest), "capacity": key}
        problem = f"{asks}; the largest CSIStorageCapacity here is {offered(STORAGE, largest)} ({key})"
        return claim_fact(claim.key, problem, name, **values)

    def _of_unbound(self, claims: PodVolumeClaims, node: Node) -> Iterator[Fact]:
        """Yield the claims for which there is no volume on the node, and none can be made."""
        for claim in claims.unbound_delayed:
            name = claim_class(claim)
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is not None and selected != node.name:
                gone = "" if self.has_node(selected) else ", and there is no such node"
                problem = f"being provisioned for node {selected}{gone}"
                yield claim_fact(claim.key, problem, name, selectedNode=selected)
                continue
            storage_class = self.listers(StorageClass).get(name)
            if storage_class.provisioner in ("", NO_PROVISIONER):
                of_class = claims.volumes.get(name, ())
                free = sum(volume.spec.claim_ref is None for volume in of_class)
                size = quantity_text(STORAGE, requested_storage(claim))
                request = offered(STORAGE, requested_storage(claim))
                text = f"not bound, class {name}: none of its {len(of_class)} volumes ({free} free) fits"
                kept = list(_kept(of_class, claim))
                why = f" ({'; '.join(kept[:MOST_KEPT])})" if kept else ""
                problem = f"{text} {request} on this node{why}, and no driver makes any"
                yield claim_fact(claim.key, problem, name, requested=size)
            elif not allows_topology(storage_class.allowed_topologies, node.metadata.labels):
                terms = " or ".join(
                    " and ".join(
                        f"{expression.key} in [{', '.join(expression.values)}]"
                        for expression in term.match_label_expressions
                    )
                    for term in storage_class.allowed_topologies
                )
                yield claim_fact(claim.key, f"not bound; class {name} makes volumes for {terms}", name)


def largest_volume(capacity: CSIStorageCapacity) -> int:
    """Return the largest volume that a capacity allows, in bytes."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return 0 if limit is None else parse_bytes(limit)


def _kept(volumes: Iterable[PersistentVolume], claim: PersistentVolumeClaim) -> Iterator[str]:
    """Say which volumes are kept for claims that are gone, and which free ones are too small for a claim."""
    for volume in volumes:
        reference = volume.spec.claim_ref
        if reference is None:
            if volume_size(volume) < claimed_size(claim):
                yield f"{volume.name} has {offered(STORAGE, storage_capacity(volume))}"
            continue
        key = f"{reference.namespace}/{reference.name}"
        is_other = key == claim.key and reference.uid not in ("", claim.metadata.uid)
        if is_other or volume.status.phase == "Released":
            other = f" with UID {reference.uid}, and this one has UID {claim.metadata.uid or '(none)'}"
            ended = other if is_other else ""
            yield f"{volume.name} is Released: its claimRef still names claim {key}{ended}"


def _affinity_text(volume: PersistentVolume, required: NodeSelector | None) -> str:
    """Return for which nodes a volume is, by the node affinity that is compared."""
    if required is None:
        return ""
    terms = [
        " and ".join(map(requirement_text, (*term.match_expressions, *term.match_fields)))
        for term in required.node_selector_terms
    ]
    is_own = required == required_affinity(volume)
    return f", for {' or '.join(terms)}" + ("" if is_own else ", as translated for its CSI driver")


def _renamed(required: NodeSelector | None, node: Node) -> str:
    """Say that a node has another host name than its own name, by which a volume is for it."""
    own = node.metadata.labels.get(HOSTNAME, "")
    terms = () if required is None else required.node_selector_terms
    expressions = (each for term in terms for each in term.match_expressions if each.key == HOSTNAME)
    wanted = {value for each in expressions for value in each.values}
    return f"; node {node.name} has {HOSTNAME}={own}" if node.name in wanted and own not in wanted else ""


PV, PVC = "PersistentVolume", "PersistentVolumeClaim"
HINTS = {"StorageClass": "storageclass", PV: "pv", PVC: "pvc -A"}
"""What to ask kubectl for."""


def _hint(lister: Any, kind: str, key: str) -> str:
    """Say that the input lacks an object, or has none of its kind, and how to add it."""
    if not lister.list():
        return f"the input has no {kind}; add `kubectl get {HINTS[kind]} -o yaml`"
    namespace, _, name = key.rpartition("/")
    what = f"pvc -n {namespace} {name}" if namespace else f"{HINTS[kind]} {name}"
    return f"the input has no {kind} {key}; if the cluster has it, add `kubectl get {what} -o yaml`"


def missing_claims(pod: Pod, claims: Any) -> Iterator[Fact]:
    """Yield the claims of a pod that do not exist."""
    existing = {claim.key for claim in claims_of(pod, claims)}
    for volume in pod.spec.volumes:
        key = pod.claim_key(volume)
        if key is not None and key not in existing:
            is_made = volume.ephemeral is not None
            hint = "its controller has not made it" if is_made else _hint(claims, PVC, key)
            name = key.rpartition("/")[2]
            others = tuple(sorted(claim.namespace for claim in claims.list() if claim.name == name))
            if others:
                where = examples(others, MOST_KEPT)
                hint += f"; a claim {name} is in namespace {where}, and pods use those of theirs"
            yield claim_fact(key, f"there is no such claim: {hint}", otherNamespaces=list(others) or None)


def claims_of(pod: Pod, claims: Any) -> Iterator[PersistentVolumeClaim]:
    """Yield the existing claims of a pod, those of ephemeral volumes too."""
    for volume in pod.spec.volumes:
        key = pod.claim_key(volume)
        if key is not None:
            with suppress(NotFoundError):
                yield claims.get(key)
