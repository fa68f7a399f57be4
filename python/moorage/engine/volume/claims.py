"""Claims and volumes: their properties, which match, and a pod's own (component-helpers/storage/volume)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, TypeVar

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity, parse
from moorage.errors import MoorageError
from moorage.kube import (
    LabelSelectorMatcher,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    Object,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from moorage.kube.model.meta import QuantityLike
from moorage.kube.model.storage import BETA_STORAGE_CLASS as BETA_STORAGE_CLASS
from moorage.kube.model.storage import CSIStorageCapacity, ObjectReference, TopologySelectorTerm
from moorage.lazy import NamedTuple
from moorage.store import NotFoundError

from ..framework.node_masks import matcher_of

# ---- constants ---------------------------------------------------------------------------------------------
# Annotations of volumes, claims and classes, and values of their fields.

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim: its binding is complete. Only its presence counts."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume or claim: its binding was not made by the user. Only its presence counts."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which its volume is to be provisioned."""
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
"""Annotation of a volume: the plugin that provisioned it."""
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
"""Annotation of a claim: the provisioner of its volume. Both are written."""
"""Annotation of a volume or claim: the CSI driver that replaces the in-tree plugin."""
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: the in-tree plugins that CSI drivers replace on the node, separated by commas."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"

CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG = "kubernetes.io/created-for/pvc/namespace"
"""Tag of a storage asset in a cloud: the namespace of the claim that it was created for."""
CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG = "kubernetes.io/created-for/pvc/name"
"""Tag of a storage asset in a cloud: the name of the claim that it was created for."""
CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG = "kubernetes.io/created-for/pv/name"
"""Tag of a storage asset in a cloud: the name of its PersistentVolume."""
VOLUME_SCHEDULER_SUBSYSTEM = "scheduler_volume"
"""Subsystem of the metrics of volume scheduling."""

YES = "yes"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
FILESYSTEM = "Filesystem"


# ---- claims ------------------------------------------------------------------------------------------------
# Properties and relations of claims and volumes (component-helpers/storage/volume).

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


def requested_storage(claim: PersistentVolumeClaim, saturates: bool = False) -> int:
    """Return the requested storage of a claim in bytes; 0 without a request. See `Quantity.amount`."""
    return parse_bytes(claim.spec.resources.requests.get("storage", 0), saturates)


def storage_capacity(volume: PersistentVolume, saturates: bool = False) -> int:
    """Return the capacity of a volume in bytes; 0 if it is not set. See `Quantity.amount`."""
    return parse_bytes(volume.spec.capacity.get("storage", 0), saturates)


@lru_cache(4096)
def parse_bytes(quantity: QuantityLike, saturates: bool = False) -> int:
    """Convert a quantity to bytes, rounded up.

    Parameters
    ----------
    quantity : str, int or float
        A quantity as in a manifest.
    saturates : bool, optional
        See `Quantity.amount`.
    """
    return parse(quantity).amount(0, saturates)


@lru_cache(4096)
def _size(quantity: QuantityLike) -> Quantity:
    return parse(quantity)


def claimed_size(claim: PersistentVolumeClaim) -> Quantity:
    """Return the requested storage of a claim, as sizes are compared: exactly; 0 without a request."""
    return _size(claim.spec.resources.requests.get("storage", 0))


def volume_size(volume: PersistentVolume) -> Quantity:
    """Return the capacity of a volume, as sizes are compared: exactly; 0 if it is not set."""
    return _size(volume.spec.capacity.get("storage", 0))


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
    """Whether a volume's required node affinity matches a node's labels; `matchFields` are not evaluated."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return matches_labels(affinity.required, labels)


def matches_labels(selector: NodeSelector, labels: dict[str, str]) -> bool:
    """Whether a node selector matches a node's labels; `matchFields` are not evaluated."""
    return matcher_of(selector).matches(Node(metadata=ObjectMeta(labels=labels)))


def allows_topology(terms: Sequence[TopologySelectorTerm], labels: dict[str, str]) -> bool:
    """Whether some term of a class's ``allowedTopologies`` matches a node's labels.

    Parameters
    ----------
    terms : sequence of TopologySelectorTerm
        The terms. Without terms every node matches; a term without expressions matches no node.
    """
    return not terms or any(
        bool(term.match_label_expressions)
        and all(labels.get(rule.key) in rule.values for rule in term.match_label_expressions)
        for term in terms
    )


# ---- matching ----------------------------------------------------------------------------------------------
# Matches volumes to claims (component-helpers/storage/volume, FindMatchingVolume).

_Ranked = tuple[int, PersistentVolume]


def find_matching_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], delay_binding: bool
) -> PersistentVolume | None:
    """Find the volume that the controller binds to a claim.

    It is a pre-bound volume, else the smallest that is large enough; the first of several equal ones.

    Parameters
    ----------
    volumes : iterable of PersistentVolume
        The candidates, in the order in which ties are broken.
    delay_binding : bool
        Whether the claim's class waits for its first consumer; then only a pre-bound volume is found.

    Returns
    -------
    PersistentVolume or None
        None if no volume matches.
    """
    best: tuple[PersistentVolume, Quantity] | None = None
    for volume, size, was_bound in suitable_volumes(claim, volumes):
        if was_bound:
            return volume
        if not delay_binding and (best is None or size < best[1]):
            best = volume, size
    return None if best is None else best[0]


def suitable_volumes(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]
) -> Iterator[tuple[PersistentVolume, Quantity, bool]]:
    """Iterate over the volumes that match a claim on some node.

    Yields
    ------
    size : Quantity
    was_bound : bool
        Whether the volume was bound to the claim beforehand.

    Raises
    ------
    VolumeError
        The claim's selector cannot be read.
    """
    requested, requested_class = claimed_size(claim), claim_class(claim)
    attributes = claim.spec.volume_attributes_class_name or ""
    selects = _selection(claim)
    for volume in volumes:
        spec = volume.spec
        was_bound = spec.claim_ref is not None and is_volume_bound_to_claim(volume, claim)
        if (spec.claim_ref is not None and not was_bound) or not have_equal_modes(volume, claim):
            continue
        size = volume_size(volume)
        if size < requested or volume.metadata.deletion_timestamp is not None:
            continue
        if (spec.volume_attributes_class_name or "") != attributes:
            continue
        if not was_bound:
            if volume.status.phase != "Available" or not selects(volume.metadata.labels):
                continue
            if volume_class(volume) != requested_class or not has_access_modes(volume, claim):
                continue
        yield volume, size, was_bound


class ClaimMatcher:
    """Finds the volume for a claim on each of many nodes.

    The candidates are sorted by size and indexed by the node labels that they require.

    Parameters
    ----------
    claim : PersistentVolumeClaim
        A claim whose class waits for its first consumer.
    volumes : iterable of PersistentVolume
        The volumes of the claim's class, in the order in which ties are broken.
    """

    def __init__(self, claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> None:
        suitable = list(suitable_volumes(claim, volumes))
        self.claim = claim
        self._bound_before = [volume for volume, _, was_bound in suitable if was_bound]
        free = sorted(
            (ranked for ranked in suitable if not ranked[2]), key=lambda ranked_volume: ranked_volume[1]
        )
        self._anywhere: list[_Ranked] = []
        self._by_label: dict[str, dict[str, list[_Ranked]]] = {}
        self._others: list[_Ranked] = []
        for rank, (volume, _, _) in enumerate(free):
            affinity = volume.spec.node_affinity
            if affinity is None or affinity.required is None:
                self._anywhere.append((rank, volume))
            elif (required := _required_label(volume)) is None:
                self._others.append((rank, volume))
            else:
                by_value = self._by_label.setdefault(required.key, {})
                for value in dict.fromkeys(required.values):
                    by_value.setdefault(value, []).append((rank, volume))

    def find(self, labels: dict[str, str], excluded: Container[str]) -> PersistentVolume | None:
        """Return the volume for the claim on a node.

        It is a pre-bound volume, else the smallest accessible one; the first of several equal ones.

        Parameters
        ----------
        excluded : container of str
            Names of volumes that are not available.

        Returns
        -------
        PersistentVolume or None
            None if there is none, or if a pre-bound volume is not accessible.
        """
        for volume in self._bound_before:
            if volume.name not in excluded:
                return volume if reaches_node(volume, labels) else None
        best: _Ranked | None = next(
            (ranked_volume for ranked_volume in self._anywhere if ranked_volume[1].name not in excluded), None
        )
        for ranked in self._lists(labels):
            for rank, volume in ranked:
                if best is not None and rank > best[0]:
                    break
                if volume.name not in excluded and reaches_node(volume, labels):
                    best = rank, volume
                    break
        return None if best is None else best[1]

    def _lists(self, labels: dict[str, str]) -> Iterator[list[_Ranked]]:
        for key, by_value in self._by_label.items():
            if key in labels and (ranked := by_value.get(labels[key])):
                yield ranked
        if self._others:
            yield self._others


def _selection(claim: PersistentVolumeClaim) -> Callable[[dict[str, str]], bool]:
    """Return a predicate of volume labels for a claim's selector."""
    selector = claim.spec.selector
    if selector is None:
        return lambda labels: True
    with prefixing(f"error creating internal label selector for claim: {claim.key}", ValueError):
        return LabelSelectorMatcher(selector).matches


def _required_label(volume: PersistentVolume) -> NodeSelectorRequirement | None:
    """The label requirement that every node with access to a volume meets; None without one."""
    affinity = volume.spec.node_affinity
    terms = () if affinity is None or affinity.required is None else affinity.required.node_selector_terms
    if len(terms) != 1:
        return None
    return next((rule for rule in terms[0].match_expressions if rule.operator == "In"), None)


# ---- pod volumes -------------------------------------------------------------------------------------------
# The volumes of a pod: its claims by state, and the bindings and provisions on a node.

Claims = list[PersistentVolumeClaim]


class BindingInfo(NamedTuple):
    """A claim and the volume to which it will be bound."""

    pv: PersistentVolume
    pvc: PersistentVolumeClaim


class DynamicProvision(NamedTuple):
    """A claim whose volume will be provisioned.

    It has the storage capacity that was found, if capacity had to be checked.
    """

    pvc: PersistentVolumeClaim
    node_capacity: CSIStorageCapacity | None = None


@dataclass(slots=True)
class PodVolumes:
    """Bindings and provisions of a pod on one node.

    None means "not decided", which cannot be bound; an empty list means "nothing to do".
    """

    static_bindings: list[BindingInfo] | None = None
    dynamic_provisions: list[DynamicProvision] | None = None


@dataclass
class PodVolumeClaims:
    """The claims of a pod by state, each list in the order of the pod's volumes.

    Attributes
    ----------
    bound : list of PersistentVolumeClaim
        Claims that are fully bound.
    unbound_delayed : list of PersistentVolumeClaim
        Unbound claims whose volumes are chosen with the node.
    unbound_immediate : list of PersistentVolumeClaim
        Unbound claims that the controller has to bind first.
    volumes : dict of str to tuple of PersistentVolume
        For each class of `unbound_delayed`, its volumes when the claims were classified.
    """

    bound: Claims
    unbound_delayed: Claims
    unbound_immediate: Claims
    volumes: dict[str, tuple[PersistentVolume, ...]]

    @cached_property
    def selected(self) -> Claims:
        """Claims with delayed binding and a selected node, on which they are provisioned."""
        return [claim for claim in self.unbound_delayed if SELECTED_NODE in claim.metadata.annotations]

    @cached_property
    def matchers(self) -> list[ClaimMatcher]:
        """The other claims with delayed binding in order of size, each with its candidate volumes."""
        others = [claim for claim in self.unbound_delayed if SELECTED_NODE not in claim.metadata.annotations]
        others.sort(key=claimed_size)
        return [ClaimMatcher(claim, self.volumes.get(claim_class(claim), ())) for claim in others]
