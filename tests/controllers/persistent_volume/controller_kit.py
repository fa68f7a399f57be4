"""Volumes, claims and a controller, as the tables of the controller's tests use them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

import pytest
from msgspec.structs import replace
from tests.doors.controllers import (
    ControllerParameters,
    InMemoryProvisioner,
    InMemoryVolume,
    PersistentVolumeController,
    RecycleEventRecorder,
    VolumeOptions,
    Work,
    new_controller,
)
from tests.doors.engine import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, EventRecorder

from moorage.errors import MoorageError
from moorage.objects import (
    Node,
    Object,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    ResourceRequirements,
    StorageClass,
)
from moorage.store import InformerFactory, ObjectStore
from moorage.volume import VolumeError

T = TypeVar("T", bound=Object)

NS = "default"
PLUGIN = "kubernetes.io/mock-volume"
EXTERNAL = "vendor.com/my-volume"

BBC = {BOUND_BY_CONTROLLER: "yes"}
BC = {BIND_COMPLETED: "yes"}
DP = {"pv.kubernetes.io/provisioned-by": PLUGIN}
DP_EXTERNAL = {"pv.kubernetes.io/provisioned-by": EXTERNAL}
NODE1 = {SELECTED_NODE: "node1"}

FAILED = ("Normal FailedBinding no persistent volumes available for this claim and no storage class is set",)
MISMATCH = ("Warning VolumeMismatch Cannot bind to requested volume",)
CHOSEN = BC | BBC


def made_by(name: str = PLUGIN) -> dict[str, str]:
    """What a claim says whose volume is to be provisioned by that one."""
    return {
        "volume.beta.kubernetes.io/storage-provisioner": name,
        "volume.kubernetes.io/storage-provisioner": name,
    }


CLASSES = (
    StorageClass(metadata=ObjectMeta(name="gold"), provisioner=PLUGIN, volume_binding_mode="Immediate"),
    StorageClass(metadata=ObjectMeta(name="silver"), provisioner=PLUGIN, volume_binding_mode="Immediate"),
    StorageClass(metadata=ObjectMeta(name="external"), provisioner=EXTERNAL, volume_binding_mode="Immediate"),
    StorageClass(
        metadata=ObjectMeta(name="unknown"),
        provisioner="kubernetes.io/unknown",
        volume_binding_mode="Immediate",
    ),
    StorageClass(
        metadata=ObjectMeta(name="mount"),
        provisioner=PLUGIN,
        mount_options=("foo", "bar"),
        volume_binding_mode="Immediate",
    ),
    StorageClass(
        metadata=ObjectMeta(name="wait"), provisioner=PLUGIN, volume_binding_mode="WaitForFirstConsumer"
    ),
    StorageClass(
        metadata=ObjectMeta(name="external-wait"),
        provisioner=EXTERNAL,
        volume_binding_mode="WaitForFirstConsumer",
    ),
    StorageClass(metadata=ObjectMeta(name="no-mode"), provisioner=PLUGIN),
)


def pv(  # noqa: PLR0913
    name: str,
    size: str,
    bound_uid: str = "",
    bound_claim: str = "",
    phase: str = "",
    policy: str = "Retain",
    class_name: str = "",
    *annotations: Mapping[str, str],
    **spec: Any,
) -> PersistentVolume:
    """A volume of access mode ReadWriteOnce; bound to a claim where one is named."""
    meta, status = {}, {}
    if "labels" in spec:
        meta["labels"] = spec.pop("labels")
    if "message" in spec:
        status["message"] = spec.pop("message")
    if "deletion" in spec:
        meta["deletion_timestamp"] = spec.pop("deletion")
        meta["finalizers"] = ("kubernetes.io/pv-protection",)
    reference = None
    if bound_claim:
        reference = ObjectReference(
            kind="PersistentVolumeClaim", api_version="v1", namespace=NS, name=bound_claim, uid=bound_uid
        )
    return PersistentVolume(
        metadata=ObjectMeta(name=name, uid=f"{name}-uid", annotations=_merged(annotations), **meta),
        spec=PersistentVolumeSpec(
            **{
                "capacity": {"storage": size},
                "access_modes": ("ReadWriteOnce",),
                "claim_ref": reference,
                "persistent_volume_reclaim_policy": policy,
                "storage_class_name": class_name,
                **spec,
            }
        ),
        status=PersistentVolumeStatus(phase=phase, **status),
    )


def free(name: str, size: str = "1Gi", class_name: str = "", **spec: Any) -> PersistentVolume:
    """A volume that is available."""
    return pv(name, size, phase="Available", class_name=class_name, **spec)


def pvc(  # noqa: PLR0913
    name: str,
    uid: str,
    size: str,
    bound_volume: str = "",
    phase: str = "Pending",
    class_name: str | None = None,
    *annotations: Mapping[str, str],
    capacity: str | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """A claim of access mode ReadWriteOnce. A Bound one shows access modes and capacity, as large as it asks
    for or as `capacity` says."""
    status = PersistentVolumeClaimStatus(phase=phase)
    if phase == "Bound":
        shown = {"storage": capacity or size}
        status = replace(status, access_modes=("ReadWriteOnce",), capacity=shown)
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name, namespace=NS, uid=uid, labels=dict(labels or {}), annotations=_merged(annotations)
        ),
        spec=PersistentVolumeClaimSpec(
            **{
                "access_modes": ("ReadWriteOnce",),
                "resources": ResourceRequirements(requests={"storage": size}),
                "volume_name": bound_volume,
                "storage_class_name": class_name,
                **spec,
            }
        ),
        status=status,
    )


def _merged(annotations: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {key: value for one in annotations for key, value in one.items()}


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


Call: TypeAlias = Literal["new_provisioner", "provision", "new_deleter", "delete", "recycle"]


class ScriptedProvisioner(InMemoryProvisioner):
    """Notes its calls, each with the name of the volume, and lets some fail."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.calls: list[tuple[Call, str]] = []
        self._failures: defaultdict[Call, deque[Exception]] = defaultdict(deque)

    def fail(self, call: Call, error: Exception | str = "", times: int = 1) -> None:
        """Let the next calls of a kind fail, after those that were to fail before."""
        raised = error if isinstance(error, Exception) else VolumeError(error or f"{call} failed")
        self._failures[call].extend([raised] * times)

    def _called(self, call: Call, name: str) -> None:
        self.calls.append((call, name))
        if self._failures[call]:
            raise self._failures[call].popleft()

    def new_provisioner(self, options: VolumeOptions) -> InMemoryVolume:
        self._called("new_provisioner", options.pv_name)
        return super().new_provisioner(options)

    def new_deleter(self, volume: PersistentVolume) -> InMemoryVolume:
        self._called("new_deleter", volume.name)
        return super().new_deleter(volume)

    def recycle(self, name: str, volume: PersistentVolume, recorder: RecycleEventRecorder) -> None:
        self._called("recycle", name)

    def make(self, options: VolumeOptions, *where: Any) -> PersistentVolume:
        self._called("provision", options.pv_name)
        return super().make(options, *where)

    def remove(self, name: str) -> None:
        self._called("delete", name)
        super().remove(name)


class Recycler(ScriptedProvisioner):
    """Supports every volume."""

    def can_support(self, volume: PersistentVolume) -> bool:
        return True


class World:
    """A store with objects, informers that know of them, and a controller.

    Parameters
    ----------
    objects : Object
        What is in the store.
    plugins : sequence, optional
        By default one plugin, `PLUGIN`.
    client : callable, optional
        Makes the controller's client of the store.
    """

    def __init__(
        self,
        *objects: Object,
        plugins: Sequence[Any] | None = None,
        client: Callable[[ObjectStore], Any] = lambda store: store,
        provisioning: bool = True,
        migrated: Mapping[str, str] | None = None,
        sync_period: float = 15.0,
    ) -> None:
        self.clock = Clock()
        self.store = ObjectStore()
        for obj in (*CLASSES, *objects):
            self.store.create(obj)
        self.plugin = ScriptedProvisioner(PLUGIN)
        self.plugins = [self.plugin] if plugins is None else plugins
        self.client = client(self.store)
        self.provisioning = provisioning
        self.migrated = migrated
        self.sync_period = sync_period
        self.recorder = EventRecorder()
        self.controller = self.restart()

    def restart(self) -> PersistentVolumeController:
        """Another controller, which knows only what the store has."""
        self.informers = InformerFactory(self.store)
        self.controller = new_controller(
            ControllerParameters(
                kube_client=self.client,
                sync_period=self.sync_period,
                volume_plugins=self.plugins,
                cluster_name="cluster",
                volume_informer=self.informers.informer(PersistentVolume),
                claim_informer=self.informers.informer(PersistentVolumeClaim),
                class_informer=self.informers.informer(StorageClass),
                pod_informer=self.informers.informer(Pod),
                node_informer=self.informers.informer(Node),
                event_recorder=self.recorder,
                enable_dynamic_provisioning=self.provisioning,
            ),
            clock=self.clock,
            migrated_plugins=self.migrated,
        )
        return self.controller

    def before_operations(self, act: Callable[[], object]) -> None:
        """Do something when an operation begins."""
        operations = self.controller._volume_operations.operations
        run = operations.run

        def injected(name: str, work: Work) -> bool:
            def later() -> Iterator[float]:
                act()
                yield from work()

            return run(name, later)

        operations.run = injected  # type: ignore[method-assign]

    def volumes(self) -> list[PersistentVolume]:
        return [plain(volume) for volume in self.store.list(PersistentVolume)[0]]

    def claims(self) -> list[PersistentVolumeClaim]:
        return [plain(claim) for claim in self.store.list(PersistentVolumeClaim)[0]]

    def events(self) -> list[str]:
        """Every event so far, as ``type reason note``."""
        return [f"{event.type} {event.reason} {event.note}" for event in self.recorder.events]


def plain(obj: T) -> T:
    """An object without what the store fills in: versions and times; for a volume without the UID of one that
    was made."""
    meta = replace(
        obj.metadata, resource_version="", creation_timestamp=None, deletion_grace_period_seconds=None
    )
    if isinstance(obj, PersistentVolume):
        meta = replace(meta, uid=f"{obj.name}-uid")
        reference = obj.spec.claim_ref
        if reference is not None:
            reference = replace(reference, resource_version="")
        return replace(obj, metadata=meta, spec=replace(obj.spec, claim_ref=reference))
    return replace(obj, metadata=meta)


@dataclass(frozen=True)
class Case:
    """One synchronization of the first claim or of the first volume.

    Attributes
    ----------
    name : str
        As upstream's tables number it.
    volumes, claims : sequence
        What there is.
    then_volumes, then_claims : sequence or None
        What there is then; None is the same.
    events : sequence of str
        How the events begin, in order; empty says nothing of them (None: there are none).
    error : str
        How the error begins with which the synchronization ends.
    prepare : callable, optional
        Does something to the world before.
    others : sequence
        Further objects.
    world : mapping
        Further arguments of the world.
    """

    name: str
    volumes: Sequence[PersistentVolume] = ()
    claims: Sequence[PersistentVolumeClaim] = ()
    then_volumes: Sequence[PersistentVolume] | None = None
    then_claims: Sequence[PersistentVolumeClaim] | None = None
    events: Sequence[str] | None = ()
    error: str = ""
    prepare: Callable[[World], object] = lambda world: None
    others: Sequence[Object] = ()
    world: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def make_world(case: Case) -> World:
    return World(*case.volumes, *case.claims, *case.others, **case.world)


def known(world: World) -> PersistentVolumeController:
    """Have the controller know what the store has; returns it."""
    world.informers.run_once()
    assert world.controller._begin()
    return world.controller


def check(case: Case, sync: Callable[[PersistentVolumeController], object]) -> World:
    """Synchronize, and compare everything."""
    world = make_world(case)
    controller = known(world)
    case.prepare(world)
    if case.error:
        with pytest.raises(MoorageError) as raised:
            sync(controller)
        assert str(raised.value).startswith(case.error)
    else:
        sync(controller)
    check_result(world, case)
    return world


def check_result(world: World, case: Case) -> None:
    """Compare what there is, and the events, with what the case says."""
    volumes = case.volumes if case.then_volumes is None else case.then_volumes
    claims = case.claims if case.then_claims is None else case.then_claims
    assert world.volumes() == sorted(map(plain, volumes), key=lambda obj: obj.key)
    assert world.claims() == sorted(map(plain, claims), key=lambda obj: obj.key)
    if case.events or case.events is None:
        expected = case.events or ()
        found = world.events()
        assert [event[: len(text)] for event, text in zip(found, expected, strict=False)] == list(expected)
        assert len(found) == len(expected), found


def check_sync_claim(case: Case) -> World:
    """`check` for the first claim."""
    return check(case, lambda one: one.sync_claim(one._writer.claims.get(case.claims[0].key)))


def check_sync_volume(case: Case) -> World:
    """`check` for the first volume."""
    return check(case, lambda one: one.sync_volume(one._writer.volumes.get(case.volumes[0].key)))
