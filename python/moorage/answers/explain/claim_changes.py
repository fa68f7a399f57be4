"""Changes of claims for storage that place a pod: a smaller size, another class, another claim."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from fractions import Fraction
from functools import partial

from msgspec.structs import replace

from moorage.cluster.helpful_changes import HelpfulChange, Kind, of_pod, put
from moorage.engine.framework.evidence import offered, quantity_text
from moorage.engine.plugins.claim_evidence import STORAGE, claims_of, largest_volume
from moorage.engine.volume.claims import SELECTED_NODE, claim_class, parse_bytes, requested_storage
from moorage.kube import ObjectMeta, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.kube.model.node import HOSTNAME, REGION, ZONE
from moorage.kube.model.storage import CSIStorageCapacity

from .probe import Probe, claim_values

MOST_NAMES, MOST_CLASSES = 3, 3
"""Maximum numbers of other claims, those with the most similar names, and of other classes that are tried."""


def claim_changes(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield the changes of claims that place the pod."""
    yield from _smaller_claims(probe)
    yield from _reprovisioned(probe)
    yield from _near_claims(probe)
    yield from _classes(probe)


def _smaller_claims(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield, for each claim of the pod, the change to the largest size for which a node has storage capacity,
    beside what its other claims of the class take."""
    unbound = unbound_claims(probe)
    for claim in unbound:
        size, name = requested_storage(claim), claim_class(claim)
        others = sum(requested_storage(other) for other in unbound if claim_class(other) == name) - size
        listed = probe.lister(CSIStorageCapacity).list()
        rooms = {_room(capacity, others) for capacity in listed if capacity.storage_class_name == name}
        for smaller in sorted((room for room in rooms if 0 < room < size), reverse=True):
            texts = quantity_text(STORAGE, size), quantity_text(STORAGE, smaller)
            requests = claim.spec.resources.requests | {STORAGE: texts[1]}
            resources = replace(claim.spec.resources, requests=requests)
            edits = put(replace(claim, spec=replace(claim.spec, resources=resources)))
            sizes = offered(STORAGE, size), offered(STORAGE, smaller)
            text = f"lower the request of claim {claim.key} from {sizes[0]} to {sizes[1]}"
            amount, values = float(Fraction(size - smaller, size)), claim_values(claim.key, *texts)
            helpful = [*probe.tried(HelpfulChange(Kind.SMALLER_CLAIM, text, edits, amount, values))]
            yield from helpful
            if helpful:
                break


def unbound_claims(probe: Probe) -> list[PersistentVolumeClaim]:
    """Return the claims of the pod without a volume; [] where nothing binds them."""
    plugin = probe.volume_binding
    if plugin is None or plugin.sources is None:
        return []
    return [claim for claim in _claims(probe) if not claim.spec.volume_name]


def _claims(probe: Probe) -> Iterator[PersistentVolumeClaim]:
    return claims_of(probe.pod, probe.lister(PersistentVolumeClaim))


def _reprovisioned(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield, for each claim that is being provisioned for a node that does not exist, an end to that."""
    for claim in unbound_claims(probe):
        node = claim.metadata.annotations.get(SELECTED_NODE)
        if node is None or probe.engine.cache.state.has_node(node):
            continue
        kept = {key: value for key, value in claim.metadata.annotations.items() if key != SELECTED_NODE}
        edits = put(replace(claim, metadata=replace(claim.metadata, annotations=kept)))
        text = f"remove the annotation {SELECTED_NODE} ({node}) of claim {claim.key}"
        values = claim_values(claim.key, node)
        yield from probe.tried(HelpfulChange(Kind.REPROVISION, text, edits, values=values))


def _room(capacity: CSIStorageCapacity, others: int) -> int:
    """Return the largest volume that a capacity allows beside others, in bytes."""
    largest = largest_volume(capacity)
    return largest if capacity.capacity is None else min(largest, parse_bytes(capacity.capacity) - others)


# ---- claims and classes that do not exist ------------------------------------------------------------------


def _near_claims(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield, for each claim that does not exist, the claims with similar names."""
    listed = probe.lister(PersistentVolumeClaim).by_namespace(probe.pod.namespace).list()
    names = [claim.name for claim in listed]
    for volume in probe.pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is None or source.claim_name in names:
            continue
        old = source.claim_name
        for name in get_close_matches(old, names, MOST_NAMES):
            edits = (of_pod(partial(_with_claim, old=old, new=name)),)
            values = claim_values(f"{probe.pod.namespace}/{old}", old, name)
            text = f"name claim {name} instead of {old}"
            yield from probe.tried(HelpfulChange(Kind.OTHER_CLAIM, text, edits, values=values))


def _with_claim(pod: Pod, old: str, new: str) -> Pod:
    """Return a pod that names another claim."""
    volumes = [
        replace(volume, persistent_volume_claim=replace(source, claim_name=new))
        if (source := volume.persistent_volume_claim) is not None and source.claim_name == old
        else volume
        for volume in pod.spec.volumes
    ]
    return replace(pod, spec=replace(pod.spec, volumes=tuple(volumes)))


def _classes(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield, for each claim of a class that does not exist, the class, and claims of other classes: those of
    other claims of its namespace first."""
    classes = {each.name: each for each in probe.lister(StorageClass).list()}
    for claim in unbound_claims(probe):
        old = claim_class(claim)
        if old in classes or not classes:
            continue
        others = probe.lister(PersistentVolumeClaim).by_namespace(claim.namespace).list()
        used = [claim_class(other) for other in others]
        for name in sorted(classes, key=lambda name: -used.count(name))[:MOST_CLASSES]:
            changed = replace(claim, spec=replace(claim.spec, storage_class_name=name))
            text = f"make claim {claim.key} anew with class {name}" + (f" instead of {old}" if old else "")
            values = claim_values(claim.key, old, name)
            yield from probe.tried(HelpfulChange(Kind.CLAIM_CLASS, text, put(changed), values=values))
            if old:
                like = replace(classes[name], metadata=ObjectMeta(name=old))
                text = f"create StorageClass {old} like {name}"
                yield from probe.tried(HelpfulChange(Kind.STORAGE_CLASS, text, put(like), values=values))


# ---- where volumes are -------------------------------------------------------------------------------------


def volume_labels(probe: Probe) -> dict[str, str]:
    """Return the labels of a node that the volumes of the pod can be used on, but for those of one node."""
    labels = dict[str, str]()
    volumes = {volume.name: volume for volume in probe.lister(PersistentVolume).list()}
    for claim in _claims(probe) if any(probe.pod.claim_keys()) else ():
        volume = volumes.get(claim.spec.volume_name)
        affinity = None if volume is None else volume.spec.node_affinity
        terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
        for requirement in terms[0].match_expressions if terms else ():
            if requirement.operator == "In" and requirement.values and requirement.key != HOSTNAME:
                labels.setdefault(requirement.key, requirement.values[0])
        own = {} if volume is None else volume.metadata.labels
        for key in (ZONE, REGION):
            if key in own:
                labels.setdefault(key, own[key].partition("__")[0])
    return labels
