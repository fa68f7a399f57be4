"""The objects of upstream's tests of the volume binder, and a binder over caches that tests fill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from msgspec.structs import replace
from tests.doors.engine import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, with_annotations

from moorage.compat import CachingVolumeBinder, PodBindingCache
from moorage.objects import (
    CSIDriver,
    CSIDriverSpec,
    CSIStorageCapacity,
    EphemeralVolumeSource,
    LabelSelector,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Object,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    Volume,
    VolumeNodeAffinity,
)
from moorage.store import ConflictError, Indexer, Lister, ObjectClient
from moorage.volume import VolumeBinder, VolumeSources, listed_pods, new_pv_assume_cache, new_pvc_assume_cache

T = TypeVar("T", bound=Object)

# ---- nodes and classes -------------------------------------------------------------------------------------

NODE1 = Node(metadata=ObjectMeta(name="node1", labels={"nodeKey": "node1"}))
NODE2 = Node(metadata=ObjectMeta(name="node2", labels={"nodeKey": "node2"}))


def storage_class(
    name: str, mode: str | None, provisioner: str, allowed: tuple[str, ...] = ()
) -> StorageClass:
    terms = (
        TopologySelectorTerm(
            match_label_expressions=(TopologySelectorLabelRequirement(key="nodeKey", values=allowed),)
        ),
    )
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode=mode,
        allowed_topologies=terms if allowed else (),
    )


WAIT, IMMEDIATE = "WaitForFirstConsumer", "Immediate"
CLASSES = (
    storage_class("waitClass", WAIT, "kubernetes.io/no-provisioner"),
    storage_class("immediateClass", IMMEDIATE, "kubernetes.io/no-provisioner"),
    storage_class("waitClassWithProvisioner", WAIT, "test-provisioner", ("node1", "reference-value")),
    storage_class("topoMismatchClass", WAIT, "test-provisioner", ("reference-value",)),
)

# ---- claims ------------------------------------------------------------------------------------------------


def claim(  # noqa: PLR0913
    name: str,
    size: str,
    its_class: str,
    volume: str = "",
    bound: bool = False,
    selected: str = "",
    version: int = 1,
) -> PersistentVolumeClaim:
    marks = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"} if bound else {}
    if selected:
        marks[SELECTED_NODE] = selected
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace="testns",
            uid="pvc-uid",
            resource_version=str(version),
            annotations=marks,
        ),
        spec=PersistentVolumeClaimSpec(
            storage_class_name=its_class,
            volume_name=volume,
            resources=ResourceRequirements(requests={"storage": size}),
        ),
    )


PROVISIONER = "waitClassWithProvisioner"
UNBOUND = claim("unbound-pvc", "1G", "waitClass")
UNBOUND2 = claim("unbound-pvc2", "5G", "waitClass")
PREBOUND = claim("prebound-pvc", "1G", "waitClass", "pv-node1a")
BOUND = claim("bound-pvc", "1G", "waitClass", "pv-bound", bound=True)
IMMEDIATE_UNBOUND = claim("immediate-unbound-pvc", "1G", "immediateClass")
IMMEDIATE_BOUND = claim("immediate-bound-pvc", "1G", "immediateClass", "pv-bound-immediate", bound=True)
PROVISIONED = claim("provisioned-pvc", "1Gi", PROVISIONER)
PROVISIONED2 = claim("provisioned-pvc2", "1Gi", PROVISIONER)
NO_PROVISIONER = claim("no-provisioner-pvc", "1Gi", "waitClass")
TOPO_MISMATCH = claim("topo-mismatch-pvc", "1Gi", "topoMismatchClass")
SELECTED = claim("provisioned-pvc", "1Gi", PROVISIONER, selected="node1")


def finished(one: PersistentVolumeClaim, volume: str, version: int = 1) -> PersistentVolumeClaim:
    """The claim as the controller leaves it."""
    bound = with_annotations(one, {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"})
    return at(replace(bound, spec=replace(bound.spec, volume_name=volume)), version)


# ---- volumes -----------------------------------------------------------------------------------------------


def on(*values: str) -> VolumeNodeAffinity:
    wanted = NodeSelectorRequirement(key="nodeKey", operator="In", values=values)
    terms = (NodeSelectorTerm(match_expressions=(wanted,)),)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))


def volume(
    name: str,
    size: str = "5G",
    node: str = "node1",
    its_class: str = "waitClass",
    to: PersistentVolumeClaim | None = None,
    version: int = 1,
) -> PersistentVolume:
    reference = (
        None
        if to is None
        else ObjectReference(
            kind="PersistentVolumeClaim",
            api_version="v1",
            namespace=to.namespace,
            name=to.name,
            uid=to.metadata.uid,
            resource_version=to.metadata.resource_version,
        )
    )
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name, resource_version=str(version), annotations={BOUND_BY_CONTROLLER: "yes"} if to else {}
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": size},
            storage_class_name=its_class,
            claim_ref=reference,
            node_affinity=on(node) if node else None,
        ),
        status=PersistentVolumeStatus(phase="Bound" if to and to.spec.volume_name else "Available"),
    )


PV_1A = volume("pv-node1a")
PV_1B = volume("pv-node1b", "10G")
PV_2 = volume("pv-node2", "1G", "node2")
PV_BOUND = volume("pv-bound", "1G", to=BOUND)
PV_1A_BOUND = volume("pv-node1a", to=UNBOUND)
PV_1B_BOUND = volume("pv-node1b", "10G", to=UNBOUND2)
PV_BOUND_IMMEDIATE = volume("pv-bound-immediate", "1G", its_class="immediateClass", to=IMMEDIATE_BOUND)
PV_BOUND_IMMEDIATE_2 = replace(
    PV_BOUND_IMMEDIATE, spec=replace(PV_BOUND_IMMEDIATE.spec, node_affinity=on("node2"))
)


def at(obj: T, version: int | str) -> T:
    """The object in another version."""
    return replace(obj, metadata=replace(obj.metadata, resource_version=str(version)))


# ---- pods --------------------------------------------------------------------------------------------------


def pod(*claims: PersistentVolumeClaim | str, node: str = "node1") -> Pod:
    volumes = [
        Volume(
            name=f"vol{place}",
            persistent_volume_claim=PersistentVolumeClaimVolumeSource(
                claim_name=one if isinstance(one, str) else one.name
            ),
        )
        for place, one in enumerate(claims)
    ]
    return Pod(
        metadata=ObjectMeta(name="test-pod", namespace="testns", uid="pod-uid"),
        spec=PodSpec(volumes=tuple(volumes), node_name=node),
    )


def ephemeral_pod() -> Pod:
    one = Volume(name="scratch", ephemeral=EphemeralVolumeSource())
    return replace(pod(), spec=PodSpec(volumes=(one,), node_name="node1"))


# ---- the binder --------------------------------------------------------------------------------------------


EVERYWHERE = LabelSelector()


def driver(opted_in: bool | None = True) -> CSIDriver:
    return CSIDriver(
        metadata=ObjectMeta(name="test-provisioner"), spec=CSIDriverSpec(storage_capacity=opted_in)
    )


def capacity(
    name: str,
    amount: str | None = "1Gi",
    largest: str | None = None,
    its_class: str = PROVISIONER,
    topology: LabelSelector | None = EVERYWHERE,
) -> CSIStorageCapacity:
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="default"),
        storage_class_name=its_class,
        capacity=amount,
        maximum_volume_size=largest,
        node_topology=topology,
    )


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


def lister(struct: type[T]) -> Lister[T]:
    return Lister(struct, Indexer({}))


def put(into: Lister[T], obj: T) -> None:
    into._indexer.put(obj.key, obj)


@dataclass
class Kit:
    """A binder, and what it reads and writes."""

    nodes: Lister[Node] = field(default_factory=lambda: lister(Node))
    pods: Lister[Pod] = field(default_factory=lambda: lister(Pod))
    classes: Lister[StorageClass] = field(default_factory=lambda: lister(StorageClass))
    drivers: Lister[CSIDriver] = field(default_factory=lambda: lister(CSIDriver))
    capacities: Lister[CSIStorageCapacity] = field(default_factory=lambda: lister(CSIStorageCapacity))
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

    def fill(self, *objects: Object) -> Kit:
        """What the informers and the API server have."""
        for obj in objects:
            self.api.objects[f"{obj.kind}/{obj.key}"] = obj
            if isinstance(obj, PersistentVolume):
                self.pvs.add(obj)
            elif isinstance(obj, PersistentVolumeClaim):
                self.pvcs.add(obj)
            elif isinstance(obj, CSIDriver):
                put(self.drivers, obj)
            elif isinstance(obj, CSIStorageCapacity):
                put(self.capacities, obj)
            elif isinstance(obj, Pod):
                put(self.pods, obj)
            else:
                assert isinstance(obj, Node)
                put(self.nodes, obj)
        return self
