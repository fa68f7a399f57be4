"""Changes of a node class that could make its nodes fit a pod: larger disks, a subnet in another zone. The
types of its pools are made anew for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from msgspec.structs import replace

from moorage._core.base.resources import PodGates
from moorage.cluster.amounts import asked_by
from moorage.cluster.helpful_changes import HelpfulChange, Kind, ObjectEdit, edited
from moorage.errors import either
from moorage.kube import Node, NodePool, PersistentVolume, PersistentVolumeClaim, Pod, Quantity
from moorage.kube.model.autoscaling import NODE_CLASSES, EC2NodeClass, ProviderNodeClass
from moorage.kube.model.meta import ObjectMeta
from moorage.store import ObjectClient, find_object

from .providers.aws.region_types import USUAL_SPEC
from .providers.instance_type import ZONE, InstanceType, ListedTypes
from .providers.kept_by_kubelet import GIB
from .providers.known_labels import CORE, known_labels_of
from .providers.pool_types import KINDS, PoolTypes, Types, types_of_objects
from .providers.type_sources import TypeSources

STORAGE = "ephemeral-storage"
NO_ZONE = f"{ZONE} DoesNotExist"
"""In what Karpenter says of a pod whose volumes are in several zones."""
_NOTHING = Quantity("0")
_KEPT, _EVICTED = {"EC2NodeClass": GIB, "NodeClass": GIB, "GCENodeClass": 100 * GIB}, 0.9
"""What the kubelet keeps of a disk at most, and the share that is left for pods before they are evicted."""


@dataclass(frozen=True)
class NodeClassChanges:
    """Changes of the node classes of pools for a pod.

    Parameters
    ----------
    types : Types or None
        Of the question about the pod.
    """

    types: Types | None
    client: ObjectClient
    pod: Pod
    gates: PodGates

    @property
    def _provided(self) -> Types | None:
        """What the types of a provider are made of."""
        return self.types.sources if isinstance(self.types, PoolTypes) else self.types or TypeSources()

    def types_after(self, edit: ObjectEdit, pool: NodePool) -> Sequence[InstanceType]:
        """Return the types of a pool after a change of its node class."""
        stored = {kind: [*self.client.list(kind)[0]] for kind in KINDS}
        nodes: Sequence[Node] = self.client.list(Node)[0]
        objects = chain.from_iterable(edited(stored, [edit]).values())
        return types_of_objects(self._provided, nodes, objects).by_pool.get(pool.name, ())

    def of(self, pool: NodePool, types: Iterable[InstanceType]) -> Iterator[HelpfulChange]:
        """Yield the changes of a pool's node class that its types leave to wish for."""
        reference, kinds = pool.spec.template.spec.node_class_ref, list(types)
        kind = next((each for each in NODE_CLASSES if each.__name__ == reference.kind), None)
        if kind is None or not isinstance(self._provided, _PROVIDED):
            return
        node_class = find_object(self.client, kind, reference.name)
        if node_class is None:  # one of its name, as it is taken to be
            usual = USUAL_SPEC if kind is EC2NodeClass else {}
            node_class = kind(metadata=ObjectMeta(name=reference.name), spec=usual)
        need = asked_by(self.pod, self.gates).get(STORAGE, _NOTHING)
        if all(each.allocatable({}).get(STORAGE, _NOTHING) < need for each in kinds):
            for text, more in _larger_disks(node_class.kind, need.value()):
                yield _change(node_class, Kind.TYPE, "spec", text, more)
        offered = {offering.zone for each in kinds for offering in each.offerings if offering.available}
        subnets: Sequence[Any] = node_class.status.get("subnets") or ()
        known = CORE | known_labels_of([pool])
        for key, zones in requested_labels(self.client, self.pod) if subnets else ():
            if known.key(key) == ZONE and offered.isdisjoint(zones):
                more = {"subnets": [*subnets, {"id": "", "zone": zones[0], "zoneID": zones[0]}]}
                yield _change(node_class, Kind.OFFERINGS, "status", f"a subnet in {zones[0]}", more)

    def zones_apart(self) -> Iterator[str]:
        """Yield that the pod asks for several zones, if it does."""
        known = CORE | known_labels_of(self.client.list(NodePool)[0])
        zones = [values for key, values in requested_labels(self.client, self.pod) if known.key(key) == ZONE]
        if len(zones) > 1:
            texts = "; ".join(map(either, zones))
            yield f"{self.pod.key} and its volumes ask for several zones, and a node is in one: {texts}"


_PROVIDED = (str, TypeSources, ListedTypes)


def _larger_disks(kind: str, need: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield settings with which nodes have enough storage for pods, in words and as fields."""
    gib = -(-int((need + _KEPT.get(kind, 0)) / _EVICTED) // GIB)
    if kind == "EC2NodeClass":
        yield "instanceStorePolicy: RAID0", {"instanceStorePolicy": "RAID0"}
        disk = {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"volumeSize": f"{gib}Gi"}}
        yield f"a root volume of {gib}Gi in blockDeviceMappings", {"blockDeviceMappings": [disk]}
    elif kind == "NodeClass":
        yield f"ephemeralStorage of {gib}Gi", {"ephemeralStorage": {"size": f"{gib}Gi"}}
    elif kind == "AKSNodeClass":
        size = -(-need // 10**9)
        yield f"osDiskSizeGB: {size}", {"osDiskSizeGB": size}
    else:
        yield f"a boot disk of {gib} GiB in disks", {"disks": [{"boot": True, "sizeGiB": gib}]}


def _change(
    node_class: ProviderNodeClass, kind: Kind, part: str, text: str, more: Mapping[str, Any]
) -> HelpfulChange:
    changed = replace(node_class, **{part: {**getattr(node_class, part), **more}})
    edit = ObjectEdit(type(node_class), node_class.key, lambda _: changed)
    return HelpfulChange(kind, f"give {node_class.full_name} {text}", (edit,))


def requested_labels(client: ObjectClient, pod: Pod) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the labels that a pod asks for itself or by its volumes, with the values that suit it."""
    yield from ((key, (value,)) for key, value in (pod.spec.node_selector or {}).items())
    affinity = pod.spec.affinity
    selectors = [affinity.node_affinity.required if affinity and affinity.node_affinity else None]
    claims = {claim.key: claim.spec.volume_name for claim in client.list(PersistentVolumeClaim)[0]}
    volumes = {volume.name: volume.spec.node_affinity for volume in client.list(PersistentVolume)[0]}
    for key in pod.claim_keys():
        if needs := volumes.get(claims.get(key, "")):
            selectors.append(needs.required)
    for selector in filter(None, selectors):
        for each in selector.node_selector_terms[0].match_expressions:
            if each.operator == "In" and each.values:
                yield each.key, tuple(each.values)
