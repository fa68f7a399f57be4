"""The volumes of a pod: its claims by state, and the bindings and provisions on a node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from moorage.kube import PersistentVolume, PersistentVolumeClaim
from moorage.kube.model.storage import CSIStorageCapacity

from ..constants import SELECTED_NODE
from .claims import claim_class, requested_storage
from .matching import ClaimMatcher

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
        others.sort(key=requested_storage)
        return [ClaimMatcher(claim, self.volumes.get(claim_class(claim), ())) for claim in others]
