"""Properties and relations of claims and volumes (component-helpers/storage/volume)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Protocol, TypeVar

from msgspec.structs import replace

from moorage.errors import MoorageError
from moorage.kube import (
    Node,
    NodeSelector,
    NodeSelectorMatcher,
    Object,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    parse_value,
)
from moorage.kube.model.meta import QuantityLike
from moorage.kube.model.storage import ObjectReference, TopologySelectorTerm
from moorage.store import NotFoundError

from ..constants import (
    BETA_STORAGE_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    FILESYSTEM,
    WAIT_FOR_FIRST_CONSUMER,
    YES,
)

T = TypeVar("T", bound=Object)


class VolumeError(MoorageError):
    """Volumes cannot be matched, assumed, bound or provisioned; the message is upstream's."""


@contextmanager
def prefixing(prefix: str, errors: type[Exception] = VolumeError) -> Iterator[None]:
    """Convert errors inside the context to VolumeErrors, with a prefix before their messages.

    Parameters
    ----------
    prefix : str
        The prefix, without the colon.
    errors : type of Exception
        Types of errors to convert; others pass unchanged.
    """
    try:
        yield
    except errors as error:
        raise VolumeError(f"{prefix}: {error}") from error


class ClassLister(Protocol):
    """Lookup of storage classes; listers of informers satisfy it."""

    def get(self, name: str) -> StorageClass: ...


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the storage class of a claim: the beta annotation, else the field, else ""."""
    annotated = claim.metadata.annotations.get(BETA_STORAGE_CLASS)
    return (claim.spec.storage_class_name or "") if annotated is None else annotated


def volume_class(volume: PersistentVolume) -> str:
    """Return the storage class of a volume: the beta annotation, else the field."""
    return volume.metadata.annotations.get(BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """Return the requested storage of a claim in bytes; 0 without a request."""
    return parse_bytes(claim.spec.resources.requests.get("storage", 0))


def storage_capacity(volume: PersistentVolume) -> int:
    """Return the capacity of a volume in bytes; 0 if it is not set."""
    return parse_bytes(volume.spec.capacity.get("storage", 0))


@lru_cache(4096)
def parse_bytes(quantity: QuantityLike) -> int:
    """Convert a quantity to bytes, rounded up.

    Parameters
    ----------
    quantity : str, int or float
        A quantity as in a manifest.
    """
    return parse_value(quantity)


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim names a volume and the binding is complete."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_volume_bound_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim, or pre-bound by the user to a claim of that name.

    Name and namespace must be equal, and the UID if the volume's reference has one.
    """
    reference = volume.spec.claim_ref
    if reference is None or (reference.name, reference.namespace) != (claim.name, claim.namespace):
        return False
    return reference.uid in ("", claim.metadata.uid)


def check_owner(pod: Pod, claim: PersistentVolumeClaim) -> None:
    """Check that the claim of an ephemeral volume belongs to its pod.

    Source: component-helpers/storage/ephemeral, VolumeIsForPod.

    Parameters
    ----------
    pod : Pod
        The pod with the ephemeral volume.
    claim : PersistentVolumeClaim
        The claim with the name of the ephemeral volume.

    Raises
    ------
    VolumeError
        The claim has another owner.
    """
    if not claim.metadata.is_controlled_by(pod.metadata.uid):
        raise VolumeError(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")


def is_delay_binding_mode(claim: PersistentVolumeClaim, class_lister: ClassLister) -> bool:
    """Whether a claim is bound when its first consumer is scheduled.

    Parameters
    ----------
    class_lister : ClassLister
        Storage classes by name.

    Raises
    ------
    VolumeError
        The class has no binding mode.
    """
    name = claim_class(claim)
    if not name:
        return False
    try:
        storage_class = class_lister.get(name)
    except NotFoundError:
        return False
    if storage_class.volume_binding_mode is None:
        raise VolumeError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def have_equal_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether volume and claim have equal volume modes; the default is Filesystem."""
    return (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)


def has_access_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume has all access modes that a claim requests."""
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def get_bind_volume_to_claim(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> tuple[PersistentVolume, bool]:
    """Return a volume with its binding to a claim.

    A volume that the user bound beforehand, by name alone, gets the claim's UID but is not marked as bound by
    the controller.

    Returns
    -------
    volume : PersistentVolume
        The volume with the binding.
    is_new : bool
        Whether it differs from the given volume.
    """
    was_bound = is_volume_bound_to_claim(volume, claim)
    reference, meta, bound = volume.spec.claim_ref, claim.metadata, volume
    identity = meta.name, meta.namespace, meta.uid
    if reference is None or (reference.name, reference.namespace, reference.uid) != identity:
        reference = ObjectReference(
            kind=claim.kind,
            api_version=claim.api_version,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        bound = replace(bound, spec=replace(volume.spec, claim_ref=reference))
    if not was_bound and BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        bound = with_annotations(bound, {BOUND_BY_CONTROLLER: YES})
    return bound, bound is not volume


def with_annotations(obj: T, changes: dict[str, str]) -> T:
    """Return an object with changed annotations.

    Parameters
    ----------
    changes : dict of str to str
        Values to set; other annotations are unchanged.
    """
    return replace(obj, metadata=replace(obj.metadata, annotations=obj.metadata.annotations | changes))


# ---- where a volume can be ---------------------------------------------------------------------------------


def reaches_node(volume: PersistentVolume, labels: dict[str, str]) -> bool:
    """Whether a volume's required node affinity matches a node's labels; `matchFields` are not evaluated.

    Parameters
    ----------
    labels : dict of str to str
        Labels of the node.
    """
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return matches_labels(affinity.required, labels)


def matches_labels(selector: NodeSelector, labels: dict[str, str]) -> bool:
    """Whether a node selector matches a node's labels; `matchFields` are not evaluated.

    Parameters
    ----------
    selector : NodeSelector
        The node selector.
    labels : dict of str to str
        Labels of the node.
    """
    return _matcher(selector).matches(Node(metadata=ObjectMeta(labels=labels)))


@lru_cache(4096)
def _matcher(selector: NodeSelector) -> NodeSelectorMatcher:
    return NodeSelectorMatcher(selector)


def allows_topology(terms: Sequence[TopologySelectorTerm], labels: dict[str, str]) -> bool:
    """Whether some term of a class's ``allowedTopologies`` matches a node's labels.

    Parameters
    ----------
    terms : sequence of TopologySelectorTerm
        The terms. Without terms every node matches; a term without expressions matches no node.
    labels : dict of str to str
        Labels of the node.
    """
    return not terms or any(
        bool(term.match_label_expressions)
        and all(labels.get(rule.key) in rule.values for rule in term.match_label_expressions)
        for term in terms
    )
