"""Finds the volumes of a pod's claims on a node (kube-scheduler v1.36, volumebinding/binder.go)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod, Volume
from moorage.objects.model.selectors import LabelSelectorMatcher
from moorage.objects.model.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from moorage.store import NotFoundError
from moorage.volume.constants import NO_PROVISIONER, SELECTED_NODE

from .assume_cache import ObjectNotFoundError
from .claim_matcher import ClaimMatcher
from .claims import (
    VolumeError,
    allows_topology,
    check_owner,
    claim_class,
    is_delay_binding_mode,
    is_fully_bound,
    parse_bytes,
    reaches_node,
    requested_storage,
)
from .sources import VolumeSources

Claims = list[PersistentVolumeClaim]

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class BindingInfo(NamedTuple):
    """A claim and the volume that it will be bound to."""

    pv: PersistentVolume
    pvc: PersistentVolumeClaim


class DynamicProvision(NamedTuple):
    """A claim whose volume will be provisioned, and the storage capacity found for it, if it had to be
    checked."""

    pvc: PersistentVolumeClaim
    node_capacity: CSIStorageCapacity | None = None


@dataclass(slots=True)
class PodVolumes:
    """Bindings and provisions of a pod on one node. None is "not decided", which cannot be bound; an empty
    list is "nothing to do"."""

    static_bindings: list[BindingInfo] | None = None
    dynamic_provisions: list[DynamicProvision] | None = None


@dataclass
class PodVolumeClaims:
    """The claims of a pod by state, each list in the order of the pod's volumes.

    Attributes
    ----------
    bound : list of PersistentVolumeClaim
        They have their volumes.
    unbound_delayed : list of PersistentVolumeClaim
        Their volumes are chosen with the node.
    unbound_immediate : list of PersistentVolumeClaim
        The controller is to bind them first.
    volumes : dict
        For each class of the delayed ones, its volumes as they were when the claims were looked at.
    """

    bound: Claims
    unbound_delayed: Claims
    unbound_immediate: Claims
    volumes: dict[str, tuple[PersistentVolume, ...]]

    @cached_property
    def selected(self) -> Claims:
        """Claims with delayed binding for which a node was selected: they are provisioned there."""
        return [claim for claim in self.unbound_delayed if SELECTED_NODE in claim.metadata.annotations]

    @cached_property
    def matchers(self) -> list[ClaimMatcher]:
        """The other claims with delayed binding, the smallest first, each with its candidate volumes."""
        others = [claim for claim in self.unbound_delayed if SELECTED_NODE not in claim.metadata.annotations]
        others.sort(key=requested_storage)
        return [ClaimMatcher(claim, self.volumes.get(claim_class(claim), ())) for claim in others]


# ---- a pod's claims ----------------------------------------------------------------------------------------


def claim_key(pod: Pod, volume: Volume) -> str | None:
    """Key of the claim of a pod's volume; None for other volumes."""
    if volume.persistent_volume_claim is not None:
        return f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
    return None if volume.ephemeral is None else f"{pod.namespace}/{pod.name}-{volume.name}"


def claim_of(sources: VolumeSources, pod: Pod, volume: Volume) -> PersistentVolumeClaim | None:
    """The claim of a pod's volume; None for other volumes.

    Raises
    ------
    VolumeError
        It is not there, or is another pod's ephemeral volume.
    """
    key = claim_key(pod, volume)
    if key is None:
        return None
    try:
        claim = sources.pvc_cache.get_pvc(key)
    except VolumeError as error:
        raise VolumeError(f'error getting PVC "{key}": {error}') from error
    if volume.persistent_volume_claim is None:
        check_owner(pod, claim)
    return claim


def get_pod_volume_claims(sources: VolumeSources, pod: Pod) -> PodVolumeClaims:
    """Classify the claims of a pod.

    Raises
    ------
    VolumeError
        A claim is not there, or its class does not say when its volumes are bound.
    """
    bound: Claims = []
    delayed: Claims = []
    immediate: Claims = []
    for volume in pod.spec.volumes:
        claim = claim_of(sources, pod, volume)
        if claim is None:
            continue
        if is_fully_bound(claim):
            bound.append(claim)
        elif is_delay_binding_mode(claim, sources.class_lister) and not claim.spec.volume_name:
            delayed.append(claim)
        else:
            immediate.append(claim)
    classes = dict.fromkeys(map(claim_class, delayed))
    return PodVolumeClaims(
        bound, delayed, immediate, {name: sources.pv_cache.list_pvs(name) for name in classes}
    )


# ---- on one node -------------------------------------------------------------------------------------------


def check_bound_claims(
    sources: VolumeSources, claims: Sequence[PersistentVolumeClaim], node: Node
) -> ObjectNotFoundError | bool:
    """Whether the volumes of bound claims are accessible from a node; the error if one does not exist. The
    first negative result is returned."""
    for claim in claims:
        try:
            volume = sources.pv_cache.get_pv(claim.spec.volume_name)
        except ObjectNotFoundError as error:
            return error
        if not reaches_node(sources.translate(volume, node.name), node.metadata.labels):
            return False
    return True


class Unbound(NamedTuple):
    """The result for claims with delayed binding."""

    volumes: PodVolumes
    satisfied: bool = True
    enough_storage: bool = True


def find_unbound(sources: VolumeSources, claims: PodVolumeClaims, node: Node) -> Unbound:
    """Find volumes on a node for the claims with delayed binding, or check that they can be provisioned
    there.

    Raises
    ------
    VolumeError
        A claim cannot be provisioned for lack of a class.
    """
    if not claims.unbound_delayed:
        return Unbound(PodVolumes())
    if any(claim.metadata.annotations[SELECTED_NODE] != node.name for claim in claims.selected):
        return Unbound(PodVolumes(), satisfied=False)
    bindings: list[BindingInfo] = []
    to_provision, chosen = list(claims.selected), set[str]()
    for matcher in claims.matchers:
        volume = matcher.find(node.metadata.labels, chosen)
        if volume is None:
            to_provision.append(matcher.claim)
        else:
            chosen.add(volume.name)
            bindings.append(BindingInfo(volume, matcher.claim))
    provisions = check_volume_provisions(sources, to_provision, node)
    if isinstance(provisions, bool):
        return Unbound(PodVolumes(bindings or None), satisfied=provisions, enough_storage=not provisions)
    return Unbound(PodVolumes(bindings or None, provisions or None))


def check_volume_provisions(
    sources: VolumeSources, claims: Sequence[PersistentVolumeClaim], node: Node
) -> list[DynamicProvision] | bool:
    """Check that claims can be provisioned on a node.

    Returns
    -------
    list of DynamicProvision or bool
        False if a claim cannot be provisioned on the node; True if it could, but there is not enough storage.

    Raises
    ------
    VolumeError
        A claim has no class, or one that is not there.
    """
    provisions = []
    for claim in claims:
        name = claim_class(claim)
        if not name:
            raise VolumeError(f'no class for claim "{claim.key}"')
        try:
            its_class = sources.class_lister.get(name)
        except NotFoundError as error:
            raise VolumeError(f'failed to find storage class "{name}"') from error
        if its_class.provisioner in ("", NO_PROVISIONER):
            return False
        if not allows_topology(its_class.allowed_topologies, node.metadata.labels):
            return False
        enough = find_capacity(sources, claim, its_class, node)
        if enough is False:
            return True
        provisions.append(DynamicProvision(claim, enough))
    return provisions


def find_capacity(
    sources: VolumeSources, claim: PersistentVolumeClaim, its_class: StorageClass, node: Node
) -> CSIStorageCapacity | Literal[False] | None:
    """Find the first storage capacity that is accessible from a node and large enough for a claim.

    Returns
    -------
    CSIStorageCapacity, False or None
        None if the driver does not publish capacities, False if none suffices.
    """
    drivers, capacities = sources.csi_driver_lister, sources.csi_storage_capacity_lister
    if drivers is None or capacities is None or "storage" not in claim.spec.resources.requests:
        return None
    try:
        driver = drivers.get(its_class.provisioner)
    except NotFoundError:
        return None
    if not driver.spec.storage_capacity:
        return None
    size = requested_storage(claim)
    for capacity in capacities.list():
        fits = capacity.storage_class_name == its_class.name and _is_sufficient(capacity, size)
        if fits and _has_access(node, capacity):
            return capacity
    return False


def _has_access(node: Node, capacity: CSIStorageCapacity) -> bool:
    """Whether a node is in the topology of a capacity; False for a malformed selector."""
    if capacity.node_topology is None:
        return False
    try:
        return LabelSelectorMatcher(capacity.node_topology).matches(node.metadata.labels)
    except ValueError:
        return False


def _is_sufficient(capacity: CSIStorageCapacity, size: int) -> bool:
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return limit is not None and parse_bytes(limit) >= size


def conflict_reasons(bound: ObjectNotFoundError | bool, unbound: Unbound) -> tuple[str, ...]:
    """Reasons why a node is not feasible, in upstream's order; empty if it is."""
    reasons = (
        (NODE_CONFLICT, bound is False),
        (BIND_CONFLICT, not unbound.satisfied),
        (NOT_ENOUGH_SPACE, not unbound.enough_storage),
        (VOLUME_MISSING, isinstance(bound, ObjectNotFoundError)),
    )
    return tuple(reason for reason, holds in reasons if holds)
