"""Which nodes the volumes of a pod leave, and how many of a driver's they are.

Rules: Karpenter v1.15.0, volumetopology.go and pkg/scheduling/volumeusage.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from moorage.engine.volume.claims import BIND_COMPLETED
from moorage.engine.volume.volume_topology import MIGRATED, UNCOUNTED
from moorage.kube import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, Volume
from moorage.kube.model.node import HOSTNAME

from ..requirements.requirement_set import RequirementSet, Vocabulary
from ..texts import with_values

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
        found = self.claims.get(key)
        if found is None:
            name = key.partition("/")[2]
            text = f'getting persistent volume claim, persistentvolumeclaims "{name}" not found'
            raise VolumeLookupError(with_values(text, PersistentVolumeClaim=name))
        return found

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
        found = self.classes.get(claim.spec.storage_class_name or "")
        return DRIVERS.get(found.provisioner, found.provisioner) if found is not None else ""


Volumes = Mapping[str, frozenset[str]]
"""Claims by driver."""


def volumes_of(pod: Pod, storage: Storage) -> Volumes:
    """The volumes that count; those whose claims are gone do not."""
    found: dict[str, frozenset[str]] = {}
    for volume in pod.spec.volumes:
        try:
            claim = storage.claim(pod, volume)
            driver = "" if claim is None else storage.driver(claim)
        except VolumeLookupError:
            continue
        if claim is not None and driver:
            found[driver] = found.get(driver, frozenset()) | {claim.key}
    return found


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
        pairs = [(one, other) for one in alternatives for other in terms]
        compatible = [pair for pair in pairs if pair[0].intersects(pair[1])]
        alternatives = [one.meet(other) for one, other in compatible or pairs]
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
                        vocabulary.requirement(one.key, "In", one.values)
                        for one in term.match_label_expressions
                    ]
                )


def _volume_terms(volume: PersistentVolume, vocabulary: Vocabulary) -> Iterator[RequirementSet]:
    spec = volume.spec
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    on_host = spec.local is not None or spec.host_path is not None
    for term in required.node_selector_terms if required is not None else ():
        kept = [one for one in term.match_expressions if not (on_host and one.key == HOSTNAME)]
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
