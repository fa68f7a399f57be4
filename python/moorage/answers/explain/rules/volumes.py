"""Volumes: which claims, disks, zones and limits keep a pod off nodes, and which changes of claims help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace as replace_fields
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster.amounts import offered, quantity_text
from moorage.cluster.helpful_changes import HelpfulChange, Kind, of_pod, put
from moorage.cluster.requirements import requirement_text
from moorage.engine.framework import NotFoundError as NoStateError
from moorage.engine.framework import Status
from moorage.engine.framework.evidence import Evidence, Fact, FindEvidence, RejectedPod, Rows
from moorage.engine.plugins.node_volume_limits import EXCEEDED, NodeVolumeLimits
from moorage.engine.plugins.volume_binding import STATE, VolumeBindingState
from moorage.engine.plugins.volume_restrictions_and_zone import (
    CLAIM_IN_USE,
    ELSEWHERE,
    NO_DISK,
    VolumeZone,
    claim_names,
    conflict,
    topology_of,
)
from moorage.engine.plugins.volume_restrictions_and_zone import STATE as RESTRICTIONS
from moorage.engine.volume import VolumeError, VolumeSources, volume_binder
from moorage.engine.volume.attached_volumes import AttachedVolumes, CSIVolume
from moorage.engine.volume.claims import (
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
from moorage.engine.volume.volume_topology import required_affinity
from moorage.errors import examples, first_of, number_of
from moorage.kube import (
    Node,
    NodeSelector,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from moorage.kube.model.node import HOSTNAME, REGION, ZONE
from moorage.kube.model.storage import CSIDriver, CSIStorageCapacity
from moorage.store.errors import NotFoundError

from ..probe import Probe, claim_values

STORAGE = "storage"
MOST_KEPT, MOST_ZONES, MOST_USERS = 3, 3, 3
"""Maximum numbers of volumes and namespaces, of zones of nodes, and of users of volumes that are named."""

# ---- whether claims can be bound ---------------------------------------------------------------------------


def binding_evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds what is wrong with the claims of the pod."""
    sources = None if probe.volume_binding is None else probe.volume_binding.sources
    if sources is None:
        return lambda rows, status: ()  # nobody knows what another binder reads
    try:
        pod_state: VolumeBindingState = inquiry.state.read(STATE)
    except NoStateError:
        pod_state = VolumeBindingState()
    return _BindingOfClaims(probe, sources, pod_state.claims).find


def _claim_fact(
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


class _BindingOfClaims(Struct):
    """Finds what is wrong with the claims of a pod.

    Attributes
    ----------
    sources : VolumeSources
        What the volume binder reads.
    claims : PodVolumeClaims or None
        The claims as PreFilter has classified them; None where it rejects the pod.
    """

    probe: Probe
    sources: VolumeSources
    claims: PodVolumeClaims | None

    def find(self, rows: Rows, status: Status) -> Iterator[Evidence]:
        """Find the evidence of nodes."""
        if self.claims is None or self.claims.unbound_immediate:
            for fact in self._of_pod():
                yield replace_fields(fact, nodes=len(rows))
            return
        for node in self.probe.nodes(rows):
            yield from self._of_node(self.claims, node, status.reasons)

    # ---- whatever the node

    def _of_pod(self) -> Iterator[Fact]:
        """Yield the claims for which PreFilter rejects the pod."""
        yield from _missing_claims(self.probe)
        for claim in _claims_of(self.probe):
            if not is_fully_bound(claim) or claim.status.phase == "Lost":
                yield self._unbound(claim)
            elif claim.metadata.deletion_timestamp is not None:
                yield _claim_fact(claim.key, f"being deleted since {claim.metadata.deletion_timestamp}")

    def _unbound(self, claim: PersistentVolumeClaim) -> Fact:
        """What is wrong with a claim that has no volume, or has lost it."""
        name, volume = claim_class(claim), claim.spec.volume_name
        if volume:
            return _claim_fact(claim.key, self._lost(claim), name or None, volume=volume)
        text = f"not bound, class {name or '(none)'}"
        try:
            mode = self.probe.lister(StorageClass).get(name).volume_binding_mode if name else None
        except NotFoundError:
            return _claim_fact(claim.key, f"{text}: {self.probe.absent(StorageClass, name)}", name)
        if not name:
            classes = self.probe.lister(StorageClass)
            hint = "" if classes.list() else f": {self.probe.absent(StorageClass)}"
            return _claim_fact(claim.key, text + hint)
        return _claim_fact(claim.key, f"{text}, mode {mode}: a volume is bound before the pod", name)

    def _lost(self, claim: PersistentVolumeClaim) -> str:
        """Say why a claim does not have the volume that it names."""
        name = claim.spec.volume_name
        try:
            volume: PersistentVolume = self.probe.lister(PersistentVolume).get(name)
        except NotFoundError:
            return f"bound to missing volume {name}: {self.probe.absent(PersistentVolume, name)}"
        reference = volume.spec.claim_ref
        uid, wanted = claim.metadata.uid, None if reference is None else reference.uid
        if wanted != uid:
            theirs = f"UID {wanted}" if wanted else "no UID"
            return f"volume {name} is bound to a claim with {theirs}, and this one has UID {uid or '(none)'}"
        return f"not bound to volume {name} yet"

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
                yield _claim_fact(claim.key, f"bound to missing volume {name}", class_name, volume=name)
                continue
            with suppress(VolumeError):
                if not self.sources.reaches(node, volume):
                    required = self.sources.required_on(node, volume)
                    where = _affinity_text(volume, required) + _renamed(required, node)
                    text = f"bound to volume {name}{where}{self._made_early(class_name)}"
                    yield _claim_fact(claim.key, text, class_name, volume=name)

    def _made_early(self, class_name: str | None) -> str:
        """Say that a class makes volumes before pods are placed, where it does."""
        with suppress(NotFoundError):
            storage_class: StorageClass = self.probe.lister(StorageClass).get(class_name or "")
            if storage_class.volume_binding_mode == "Immediate":
                return f"; class {class_name} is Immediate: it makes volumes before pods have nodes"
        return ""

    def _of_capacity(self, claims: PodVolumeClaims, node: Node) -> Iterator[Fact]:
        """Yield the claims for which no storage capacity that the node can use is large enough."""
        for claim in claims.unbound_delayed:
            name = claim_class(claim)
            driver = self.probe.lister(StorageClass).get(name).provisioner
            with suppress(NotFoundError):
                published: CSIDriver = self.probe.lister(CSIDriver).get(driver)
                if published.spec.storage_capacity:
                    fact = self._too_small(claim, name, driver, node)
                    if fact is not None:
                        yield fact

    def _too_small(self, claim: PersistentVolumeClaim, name: str, driver: str, node: Node) -> Fact | None:
        requested = requested_storage(claim)
        listed: list[CSIStorageCapacity] = self.probe.lister(CSIStorageCapacity).list()
        here = [
            (_largest_volume(volume), volume.key)
            for volume in listed
            if volume.storage_class_name == name and volume_binder.has_access(node, volume)
        ]
        values: dict[str, Any] = {"driver": driver, "requested": quantity_text(STORAGE, requested)}
        asks = f"asks for {offered(STORAGE, requested)} of class {name}"
        if not here:
            problem = f"{asks}; driver {driver} has published no CSIStorageCapacity for this class and node"
            return _claim_fact(claim.key, problem, name, **values)
        largest, key = max(here)
        if largest >= requested:
            return None
        values |= {"largest": quantity_text(STORAGE, largest), "capacity": key}
        problem = f"{asks}; the largest CSIStorageCapacity here is {offered(STORAGE, largest)} ({key})"
        return _claim_fact(claim.key, problem, name, **values)

    def _of_unbound(self, claims: PodVolumeClaims, node: Node) -> Iterator[Fact]:
        """Yield the claims for which there is no volume on the node, and none can be made."""
        for claim in claims.unbound_delayed:
            name = claim_class(claim)
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is not None and selected != node.name:
                problem = f"being provisioned for node {selected}"
                if not self.probe.engine.cache.state.has_node(selected):
                    problem += ", and there is no such node"
                yield _claim_fact(claim.key, problem, name, selectedNode=selected)
                continue
            storage_class = self.probe.lister(StorageClass).get(name)
            if storage_class.provisioner in ("", NO_PROVISIONER):
                of_class = claims.volumes.get(name, ())
                free = sum(volume.spec.claim_ref is None for volume in of_class)
                size = quantity_text(STORAGE, requested_storage(claim))
                request = offered(STORAGE, requested_storage(claim))
                text = f"not bound, class {name}: none of its {len(of_class)} volumes ({free} free) fits"
                kept = list(_kept(of_class, claim))
                why = f" ({'; '.join(kept[:MOST_KEPT])})" if kept else ""
                problem = f"{text} {request} on this node{why}, and no driver makes any"
                yield _claim_fact(claim.key, problem, name, requested=size)
            elif not allows_topology(storage_class.allowed_topologies, node.metadata.labels):
                terms = " or ".join(
                    " and ".join(
                        f"{expression.key} in [{', '.join(expression.values)}]"
                        for expression in term.match_label_expressions
                    )
                    for term in storage_class.allowed_topologies
                )
                yield _claim_fact(claim.key, f"not bound; class {name} makes volumes for {terms}", name)


def _largest_volume(capacity: CSIStorageCapacity) -> int:
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


def _missing_claims(probe: Probe) -> Iterator[Fact]:
    """Yield the claims of the pod that do not exist."""
    claims = probe.lister(PersistentVolumeClaim)
    existing = {claim.key for claim in _claims_of(probe)}
    for volume in probe.pod.spec.volumes:
        key = probe.pod.claim_key(volume)
        if key is not None and key not in existing:
            is_made = volume.ephemeral is not None
            hint = "its controller has not made it" if is_made else probe.absent(PersistentVolumeClaim, key)
            name = key.rpartition("/")[2]
            others = tuple(sorted(claim.namespace for claim in claims.list() if claim.name == name))
            if others:
                where = examples(others, MOST_KEPT)
                hint += f"; a claim {name} is in namespace {where}, and pods use those of theirs"
            yield _claim_fact(key, f"there is no such claim: {hint}", otherNamespaces=list(others) or None)


def _claims_of(probe: Probe) -> Iterator[PersistentVolumeClaim]:
    """Yield the existing claims of the pod, those of ephemeral volumes too."""
    for key in probe.pod.claim_keys():
        with suppress(NotFoundError):
            yield probe.lister(PersistentVolumeClaim).get(key)


# ---- disks, zones and limits -------------------------------------------------------------------------------


def restriction_evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the pods that use a disk or a claim of the pod alone."""

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        if status.reasons == CLAIM_IN_USE.reasons:
            names, namespace = inquiry.state.read(RESTRICTIONS).names, inquiry.pod.namespace
            for other in inquiry.search.state.pods():
                for name in sorted(names & claim_names(other)) if other.namespace == namespace else ():
                    text, values = f"uses claim {name}", {"claim": name}
                    yield Fact("pod", other.key, text, values=values, nodes=len(rows))
            return
        if status.reasons != NO_DISK.reasons:
            for claim in _missing_claims(probe):
                yield replace_fields(claim, nodes=len(rows))
            return
        for row in rows.tolist():
            for other in (*inquiry.pods_on(row), *inquiry.nominated_on(row)):
                pairs = product(inquiry.pod.spec.volumes, other.spec.volumes)
                if any(conflict(mine, theirs) for mine, theirs in pairs):
                    yield Fact("pod", other.key, "uses the same disk")

    return find


def zone_evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the volumes of other zones and regions."""
    plugin = probe.filter_of(VolumeZone)
    assert plugin is not None

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        for claim in _claims_of(probe):
            name, storage_class = claim.spec.volume_name, claim_class(claim) or None
            if not name:
                if status.reasons != ELSEWHERE.reasons:
                    text = f"not bound, class {storage_class or '(none)'}"
                    yield _claim_fact(claim.key, text, storage_class, len(rows))
                continue
            try:
                topology = topology_of(probe.lister(PersistentVolume).get(name))
            except NotFoundError:
                text = f"bound to missing volume {name}"
                yield _claim_fact(claim.key, text, storage_class, len(rows), volume=name)
                continue
            elsewhere = plugin.mask_elsewhere(tuple(topology.items()))[rows]
            if topology and elsewhere.any():
                zones = ", ".join(f"{key} in [{', '.join(sorted(each))}]" for key, each in topology.items())
                labels = [inquiry.node(row).metadata.labels for row in rows[elsewhere].tolist()]
                theirs = sorted({each.get(key, "") for each in labels for key in topology} - {""})
                text = f"bound to volume {name}, whose labels say {zones}"
                text += f"; nodes have {examples(theirs, MOST_ZONES)}" if theirs else ""
                nodes = int(np.count_nonzero(elsewhere))
                yield _claim_fact(claim.key, text, storage_class, nodes, volume=name)

    return find


def _exceeded(
    attached: AttachedVolumes, node: str, pods: Sequence[Pod], added: frozenset[CSIVolume]
) -> Iterator[Fact]:
    """Yield the drivers whose limit a node would exceed, with the pods whose volumes count, and the
    VolumeAttachments whose volume no pod there uses any more."""
    used = attached.in_use(node, pods)
    for driver, (limit, count, more) in sorted(attached.exceeded(node, pods, added).items()):
        listed = (key for volume, users in used.items() if volume[0] == driver for key in users)
        keys = list(dict.fromkeys(listed))
        unused = [
            name
            for volume, name in attached.attachments_to(node).items()
            if volume[0] == driver and not used[volume]
        ]
        values = {
            "node": node,
            "limit": limit,
            "inUse": count,
            "wanted": more,
            "pods": keys,
            "attachments": [attachment for attachment, _ in unused],
            "attachedVolumes": [volume for _, volume in unused],
        }
        by = f" by {first_of(keys, MOST_USERS)}" if keys else ""
        if unused:
            left = first_of([f"{name} of volume {volume}" for name, volume in unused], MOST_USERS)
            users = f" {count - len(unused)}{by}," if keys else ""
            kind = number_of(len(unused), "by VolumeAttachment", "by VolumeAttachments")
            by = f":{users} {kind} {left} (no pod there uses it any more)"
        text = f"limit {limit} on {node}, {count} in use{by}, {more} more wanted"
        yield Fact("volume-limit", driver, text, values=values)


def limit_evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the limits that nodes would exceed, and the drivers that they lack."""
    plugin = probe.filter_of(NodeVolumeLimits)
    assert plugin is not None
    attached = plugin.attached()
    wanted = plugin.wanted(inquiry.state, inquiry.pod, attached)

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        if isinstance(wanted, Status):
            return
        volumes, required = wanted
        for row in rows.tolist():
            name = inquiry.node(row).name
            if status.reasons == EXCEEDED.reasons:
                pods = [*inquiry.pods_on(row), *inquiry.nominated_on(row)]
                yield from _exceeded(attached, name, pods, volumes)
            for driver in required:
                if attached.lacks(name, driver):
                    yield Fact("driver", driver[0], "not installed on the node")

    return find


# ---- changes of claims: a smaller size, another class, another claim ---------------------------------------

MOST_NAMES, MOST_CLASSES = 3, 3
"""Maximum numbers of other claims, those with the most similar names, and of other classes that are tried."""


def changes(probe: Probe) -> Iterator[HelpfulChange]:
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
    return [claim for claim in _claims_of(probe) if not claim.spec.volume_name]


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
    largest = _largest_volume(capacity)
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
    for claim in _claims_of(probe) if any(probe.pod.claim_keys()) else ():
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
