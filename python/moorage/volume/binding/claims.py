"""Properties of claims and volumes, and their relation (component-helpers/storage/volume)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Protocol, TypeVar

from msgspec.structs import replace

from moorage.errors import MoorageError
from moorage.objects import (
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
from moorage.objects.model.meta import QuantityLike
from moorage.objects.model.storage import ObjectReference, TopologySelectorTerm
from moorage.store import NotFoundError
from moorage.volume.constants import (
    BETA_STORAGE_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    FILESYSTEM,
    WAIT_FOR_FIRST_CONSUMER,
    YES,
)

T = TypeVar("T", bound=Object)


class VolumeError(MoorageError):
    """Volumes cannot be matched, assumed, bound or provisioned; the text is upstream's."""


@contextmanager
def prefixing(prefix: str, errors: type[Exception] = VolumeError) -> Iterator[None]:
    """Raise VolumeErrors for errors inside of the context, with a prefix before their texts.

    Parameters
    ----------
    prefix : str
        Without the colon.
    errors : type of Exception
        Others are raised as they are.
    """
    try:
        yield
    except errors as error:
        raise VolumeError(f"{prefix}: {error}") from error


class ClassLister(Protocol):
    """Looks up storage classes; listers of informers satisfy it."""

    def get(self, name: str) -> StorageClass: ...


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The storage class of a claim: the beta annotation, else the field; "" where there is none.

    Parameters
    ----------
    claim : PersistentVolumeClaim

    Returns
    -------
    str
    """
    annotated = claim.metadata.annotations.get(BETA_STORAGE_CLASS)
    return (claim.spec.storage_class_name or "") if annotated is None else annotated


def volume_class(volume: PersistentVolume) -> str:
    """The storage class of a volume: the beta annotation, else the field.

    Parameters
    ----------
    volume : PersistentVolume

    Returns
    -------
    str
    """
    return volume.metadata.annotations.get(BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """Requested storage of a claim in bytes; 0 without a request.

    Parameters
    ----------
    claim : PersistentVolumeClaim

    Returns
    -------
    int
    """
    return parse_bytes(claim.spec.resources.requests.get("storage", 0))


def storage_capacity(volume: PersistentVolume) -> int:
    """Capacity of a volume in bytes; 0 if not set.

    Parameters
    ----------
    volume : PersistentVolume

    Returns
    -------
    int
    """
    return parse_bytes(volume.spec.capacity.get("storage", 0))


@lru_cache(4096)
def parse_bytes(quantity: QuantityLike) -> int:
    """Value of a quantity in bytes, rounded up.

    Parameters
    ----------
    quantity : str, int or float
        As in a manifest.

    Returns
    -------
    int
    """
    return parse_value(quantity)


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim has a volume and the binding is complete.

    Parameters
    ----------
    claim : PersistentVolumeClaim

    Returns
    -------
    bool
    """
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_volume_bound_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim, or the user bound it to a claim of that name beforehand: name and
    namespace are equal, and the UID where the volume has one.

    Parameters
    ----------
    volume : PersistentVolume
    claim : PersistentVolumeClaim

    Returns
    -------
    bool
    """
    reference = volume.spec.claim_ref
    if reference is None or (reference.name, reference.namespace) != (claim.name, claim.namespace):
        return False
    return reference.uid in ("", claim.metadata.uid)


def check_owner(pod: Pod, claim: PersistentVolumeClaim) -> None:
    """Check that the claim of an ephemeral volume belongs to its pod (component-helpers/storage/ephemeral,
    VolumeIsForPod).

    Parameters
    ----------
    pod : Pod
    claim : PersistentVolumeClaim
        Found by the name of the pod's ephemeral volume.

    Raises
    ------
    VolumeError
        The claim has another owner.
    """
    owner = claim.metadata.controller()
    if owner is None or owner.uid != pod.metadata.uid:
        raise VolumeError(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")


def is_delay_binding_mode(claim: PersistentVolumeClaim, class_lister: ClassLister) -> bool:
    """Whether a claim is bound when its first consumer is scheduled.

    Parameters
    ----------
    claim : PersistentVolumeClaim
    class_lister : ClassLister
        Storage classes by name.

    Returns
    -------
    bool

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
    """Whether volume and claim have equal volume modes; the default is Filesystem.

    Parameters
    ----------
    volume : PersistentVolume
    claim : PersistentVolumeClaim

    Returns
    -------
    bool
    """
    return (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)


def has_access_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume has all access modes that a claim requests.

    Parameters
    ----------
    volume : PersistentVolume
    claim : PersistentVolumeClaim

    Returns
    -------
    bool
    """
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def get_bind_volume_to_claim(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> tuple[PersistentVolume, bool]:
    """The volume with its binding to a claim, and whether it differs from before.

    A volume that the user bound beforehand, by name alone, gets the claim's UID, but is not marked as bound
    by the controller.

    Parameters
    ----------
    volume : PersistentVolume
    claim : PersistentVolumeClaim

    Returns
    -------
    volume : PersistentVolume
    is_new : bool
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
    """Set annotations of an object.

    Parameters
    ----------
    obj : Object
    changes : dict of str to str
        Other annotations are unchanged.

    Returns
    -------
    Object
    """
    return replace(obj, metadata=replace(obj.metadata, annotations=obj.metadata.annotations | changes))


# ---- where a volume can be ---------------------------------------------------------------------------------


def reaches_node(volume: PersistentVolume, labels: dict[str, str]) -> bool:
    """Whether a volume's required node affinity matches a node's labels; `matchFields` are not evaluated.

    Parameters
    ----------
    volume : PersistentVolume
    labels : dict of str to str
        The node's.

    Returns
    -------
    bool
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
    labels : dict of str to str
        The node's.

    Returns
    -------
    bool
    """
    return _matcher(selector).matches(Node(metadata=ObjectMeta(labels=labels)))


@lru_cache(4096)
def _matcher(selector: NodeSelector) -> NodeSelectorMatcher:
    return NodeSelectorMatcher(selector)


def allows_topology(terms: Sequence[TopologySelectorTerm], labels: dict[str, str]) -> bool:
    """Whether some term of a class's ``allowedTopologies`` matches a node's labels; without terms, every node
    does.

    A term without expressions matches nothing.

    Parameters
    ----------
    terms : sequence of TopologySelectorTerm
    labels : dict of str to str
        The node's.

    Returns
    -------
    bool
    """
    return not terms or any(
        bool(term.match_label_expressions)
        and all(labels.get(one.key) in one.values for one in term.match_label_expressions)
        for term in terms
    )
