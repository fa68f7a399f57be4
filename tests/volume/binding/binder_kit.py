"""The objects of upstream's tests of the volume binder, and a binder over caches that tests fill."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec.structs import replace
from tests import make as kit
from tests.doors.engine import with_annotations
from tests.text_rows import rows
from tests.words import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE

from moorage.compat import CachingVolumeBinder, PodBindingCache
from moorage.engine.volume import (
    BindingInfo,
    DynamicProvision,
    PodVolumes,
    VolumeBinder,
    VolumeSources,
    listed_pods,
    new_pv_assume_cache,
    new_pvc_assume_cache,
)
from moorage.kube import (
    CSIDriver,
    CSIStorageCapacity,
    LabelSelector,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from moorage.store import ConflictError, Indexer, Lister, ObjectClient

T = TypeVar("T", bound=Object)

# ---- nodes and classes -------------------------------------------------------------------------------------

NODE1, NODE2 = (kit.node(name, labels={"nodeKey": name}) for name in ("node1", "node2"))


def storage_class(
    name: str, waits: bool | None, provisioner: str = "kubernetes.io/no-provisioner", *allowed: str
) -> StorageClass:
    """A class, for the nodes that are allowed; None for one that does not say when its claims are bound."""
    terms = [{"matchLabelExpressions": [{"key": "nodeKey", "values": list(allowed)}]}]
    fields: Any = {"allowedTopologies": terms if allowed else []}
    fields |= {"volumeBindingMode": None} if waits is None else {}
    return kit.storage_class(name, provisioner, bool(waits), **fields)


CLASSES = (
    storage_class("waitClass", True),
    storage_class("immediateClass", False),
    storage_class("waitClassWithProvisioner", True, "test-provisioner", "node1", "reference-value"),
    storage_class("topoMismatchClass", True, "test-provisioner", "reference-value"),
)
# ---- claims ------------------------------------------------------------------------------------------------


def claim(
    name: str, size: str, its_class: str, volume: str = "", bound: bool = False, selected: str = ""
) -> PersistentVolumeClaim:
    marks = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"} if bound else {}
    marks |= {SELECTED_NODE: selected} if selected else {}
    meta = {"uid": "pvc-uid", "resourceVersion": "1", "annotations": marks}
    return kit.claim(f"testns/{name}", its_class, volume, size, metadata=meta, accessModes=[])


PROVISIONER = "waitClassWithProvisioner"


def finished(claim: PersistentVolumeClaim, volume: str, version: int = 1) -> PersistentVolumeClaim:
    """The claim as the controller leaves it."""
    bound = with_annotations(claim, {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"})
    return at(replace(bound, spec=replace(bound.spec, volume_name=volume)), version)


# ---- volumes -----------------------------------------------------------------------------------------------


def on(*values: str) -> Any:
    """The affinity of a volume that nodes reach."""
    wanted = {"key": "nodeKey", "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}


def volume(
    name: str,
    size: str = "5G",
    node: str = "node1",
    its_class: str = "waitClass",
    to: PersistentVolumeClaim | None = None,
    version: int = 1,
) -> PersistentVolume:
    spec, marks = ({"nodeAffinity": on(node)} if node else {}), {}
    if to is not None:
        of = {"uid": to.metadata.uid, "resourceVersion": to.metadata.resource_version}
        kind = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        spec["claimRef"] = kind | {"namespace": to.namespace, "name": to.name} | of
        marks = {BOUND_BY_CONTROLLER: "yes"}
    return kit.volume(
        name,
        its_class,
        size,
        **spec,
        accessModes=[],
        metadata={"resourceVersion": str(version), "annotations": marks},
        status={"phase": "Bound" if to and to.spec.volume_name else "Available"},
    )


def at(obj: T, version: int | str) -> T:
    """The object in another version."""
    return replace(obj, metadata=replace(obj.metadata, resource_version=str(version)))


TABLE = rows(Path(__file__).with_name("tables.txt"))


def section(title: str) -> list[tuple[str, str]]:
    """The names and the rest of the lines of a section of `tables.txt`."""
    return [(row.name, row.text) for row in TABLE if row.title.partition(":")[0] == title]


def named() -> dict[str, Any]:
    """Claims and volumes by their names in `tables.txt`."""
    read: dict[str, Any] = {}
    for name, rest in section("objects"):
        kind, own, size, its_class, *words = rest.split()
        fields = dict(word.split("=") for word in words if "=" in word)
        on_node = fields.get("on", "")
        if kind == "claim":
            read[name] = claim(own, size, its_class, fields.get("of", ""), "finished" in words, on_node)
            read[name] = with_annotations(read[name], {"other": "yes"} if "other" in fields else {})
        else:
            pv = volume(own, size, on_node, its_class, read.get(fields.get("to", "")))
            held = pv.spec.claim_ref
            if "without-uid" in words and held is not None:
                pv = replace(pv, spec=replace(pv.spec, claim_ref=replace(held, uid="")))
            read[name] = pv
    return read


NAMED = named()
UNBOUND, UNBOUND2, BOUND = NAMED["unbound"], NAMED["unbound2"], NAMED["bound"]
PROVISIONED, SELECTED = NAMED["provisioned"], NAMED["selected"]
PV_1A, PV_2, PV_BOUND, PV_1A_BOUND = (NAMED[f"pv-{name}"] for name in ("1a", "2", "bound", "1a-bound"))

# ---- pods --------------------------------------------------------------------------------------------------


def pod(*claims: PersistentVolumeClaim | str, node: str = "node1", **source: Any) -> Pod:
    """A pod of claims, or of another source of a volume."""
    names = [claim if isinstance(claim, str) else claim.name for claim in claims]
    sources = [{"persistentVolumeClaim": {"claimName": name}} for name in names]
    sources += [source] if source else []
    volumes = [{"name": f"vol{at}"} | each for at, each in enumerate(sources)]
    return kit.pod("testns/test-pod", on=node, metadata={"uid": "pod-uid"}, containers=(), volumes=volumes)


# ---- the binder --------------------------------------------------------------------------------------------


def capacity(
    name: str,
    amount: str | None = "1Gi",
    largest: str | None = None,
    its_class: str = PROVISIONER,
    topology: LabelSelector | None = LabelSelector(),  # noqa: B008
) -> CSIStorageCapacity:
    sizes = {"capacity": amount, "maximumVolumeSize": largest}
    made: CSIStorageCapacity = kit.make(
        "CSIStorageCapacity", f"default/{name}", storageClassName=its_class, **sizes
    )
    return replace(made, node_topology=topology)


class Api:
    """Updates objects as an API server does."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}

    def update(self, obj: T) -> T:
        key = f"{obj.kind}/{obj.key}"
        if self.objects[key].metadata.resource_version != obj.metadata.resource_version:
            raise ConflictError("the object has been modified")
        new = at(obj, int(obj.metadata.resource_version) + 1)
        self.objects[key] = new
        return new


class Listed(Lister[T]):
    """A lister of what tests put into its indexer."""

    def __init__(self, struct: type[T]) -> None:
        self.indexer: Indexer[T] = Indexer({})
        super().__init__(struct, self.indexer)


def put(into: Listed[T], obj: T) -> None:
    into.indexer.put(obj.key, obj)


Found = tuple[list[BindingInfo] | None, list[PersistentVolumeClaim] | None]


def pod_volumes(found: Found) -> PodVolumes:
    """What was found: bindings, and claims to provision."""
    bound, claims = found
    provisions = None if claims is None else [DynamicProvision(claim) for claim in claims]
    return PodVolumes(None if bound is None else list(bound), provisions)


@dataclass
class Kit:
    """A binder, and what it reads and writes."""

    nodes: Listed[Node] = field(default_factory=lambda: Listed(Node))
    pods: Listed[Pod] = field(default_factory=lambda: Listed(Pod))
    classes: Listed[StorageClass] = field(default_factory=lambda: Listed(StorageClass))
    drivers: Listed[CSIDriver] = field(default_factory=lambda: Listed(CSIDriver))
    capacities: Listed[CSIStorageCapacity] = field(default_factory=lambda: Listed(CSIStorageCapacity))
    now: float = 0.0

    def __post_init__(self) -> None:
        self.api = Api()
        self.pvs, self.pvcs = new_pv_assume_cache(None), new_pvc_assume_cache(None)
        self.sources = VolumeSources(
            cast(ObjectClient, self.api),
            self.pvs,
            self.pvcs,
            self.classes,
            self.nodes,
            listed_pods(self.pods),
            self.drivers,
            self.capacities,
        )
        times: Any = {"clock": lambda: self.now, "sleep": self.sleep}
        self.binder = VolumeBinder(self.sources, bind_timeout=10.0, **times)
        self.decisions = PodBindingCache()
        self.old = CachingVolumeBinder(self.sources, self.decisions, bind_timeout=10.0, **times)
        self.actions: dict[float, Any] = {}
        for one in CLASSES:
            put(self.classes, one)
        for node in (NODE1, NODE2):
            put(self.nodes, node)

    def sleep(self, seconds: float) -> None:
        """Time passes, and what is due happens."""
        self.now += seconds
        if self.now in self.actions:
            self.actions.pop(self.now)()

    def cache_of(self, obj: Object) -> Any:
        return self.pvs if isinstance(obj, PersistentVolume) else self.pvcs

    def fill(self, *objects: Object) -> Kit:
        """What the informers and the API server have."""
        for obj in objects:
            self.api.objects[f"{obj.kind}/{obj.key}"] = obj
            if isinstance(obj, PersistentVolume | PersistentVolumeClaim):
                self.cache_of(obj).add(obj)
            else:
                listers: dict[type, Any] = {
                    CSIDriver: self.drivers,
                    CSIStorageCapacity: self.capacities,
                    Pod: self.pods,
                    Node: self.nodes,
                }
                put(listers[type(obj)], obj)
        return self
