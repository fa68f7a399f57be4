"""Volumes, claims and a controller for the tests of the controller, from as little as a test wants to say."""

from __future__ import annotations

import shlex
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace
from tests.doors.controllers import (
    InMemoryProvisioner,
    PersistentVolumeController,
    VolumeOptions,
    new_controller,
)
from tests.words import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE

from moorage.compat import ControllerParameters
from moorage.engine.framework import EventRecorder
from moorage.engine.volume import VolumeError
from moorage.kube import (
    CSIPersistentVolumeSource,
    LabelSelector,
    LabelSelectorRequirement,
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

T = TypeVar("T", bound=Object)
Bindable: TypeAlias = PersistentVolume | PersistentVolumeClaim

NS = "default"
PLUGIN = "kubernetes.io/mock-volume"
EXTERNAL = "vendor.com/my-volume"
MAKERS = {"mock": PLUGIN, "external": EXTERNAL}
PHASES = ("Available", "Bound", "Released", "Failed", "Pending", "Lost")
POLICIES = ("Delete", "Recycle")
MODES = {"RWO": "ReadWriteOnce", "ROX": "ReadOnlyMany", "RWX": "ReadWriteMany"}
MARKS = {
    "bc": {BIND_COMPLETED: "yes"},
    "bbc": {BOUND_BY_CONTROLLER: "yes"},
    "chosen": {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"},
}
ANNOTATIONS = {
    "on": (SELECTED_NODE,),
    "made-by": ("pv.kubernetes.io/provisioned-by",),
    "asks": ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"),
    "migrated-to": ("pv.kubernetes.io/migrated-to",),
    "beta-class": ("volume.beta.kubernetes.io/storage-class",),
}
SELECTORS = {
    "true": LabelSelector(match_labels={"foo": "true"}),
    "bad": LabelSelector(match_expressions=(LabelSelectorRequirement(key="foo", operator="Is"),)),
}


def storage_class(name: str, provisioner: str = PLUGIN, mode: str | None = "Immediate") -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name=name), provisioner=provisioner, volume_binding_mode=mode)


CLASSES = (
    storage_class("gold"),
    storage_class("silver"),
    storage_class("external", EXTERNAL),
    storage_class("unknown", "kubernetes.io/unknown"),
    replace(storage_class("mount"), mount_options=("foo", "bar")),
    storage_class("wait", PLUGIN, "WaitForFirstConsumer"),
    storage_class("external-wait", EXTERNAL, "WaitForFirstConsumer"),
    storage_class("no-mode", PLUGIN, None),
)


class Words:
    """A volume or a claim in words: name, size, and in any order a phase, a reclaim policy, annotations
    (`MARKS`, `ANNOTATIONS`) and fields as ``field=value``."""

    def __init__(self, text: str, phase: str) -> None:
        self.name, self.size, *words = shlex.split(text)
        self.words, self.phase, self.policy = set(words), phase, "Retain"
        self.fields = dict(word.split("=", 1) for word in words if "=" in word)
        self.annotations: dict[str, str] = {}
        for word in words:
            field, _, value = word.partition("=")
            self.phase = word if word in PHASES else self.phase
            self.policy = word if word in POLICIES else self.policy
            self.annotations |= MARKS.get(word, {}) | dict.fromkeys(
                ANNOTATIONS.get(field, ()), MAKERS.get(value, value)
            )

    def common(self) -> dict[str, Any]:
        """What volumes and claims have alike in their specs."""
        modes = self.fields.get("modes", "RWO").split(",")
        mode = {"volume_mode": self.fields["mode"]} if "mode" in self.fields else {}
        return {"access_modes": tuple(MODES[each] for each in modes), **mode}


def pv(text: str) -> PersistentVolume:
    """A volume, by its `Words`; ``to=claim/uid`` names its claim."""
    words = Words(text, "")
    fields, meta, spec = words.fields, dict[str, Any](), words.common()
    if "foo" in fields:
        meta["labels"] = {"foo": fields["foo"]}
    if "deleting" in words.words:
        meta |= {"deletion_timestamp": "2026-01-01T00:00:00Z", "finalizers": ("kubernetes.io/pv-protection",)}
    if "to" in fields:
        name, _, uid = fields["to"].partition("/")
        kind = {"kind": "PersistentVolumeClaim", "api_version": "v1", "namespace": NS}
        spec["claim_ref"] = ObjectReference(name=name, uid=uid, **kind)
    if "csi" in words.words:
        spec["csi"] = CSIPersistentVolumeSource(driver=PLUGIN, volume_handle=words.name)
    return PersistentVolume(
        metadata=ObjectMeta(name=words.name, uid=f"{words.name}-uid", annotations=words.annotations, **meta),
        spec=PersistentVolumeSpec(
            capacity={} if words.size == "-" else {"storage": words.size},
            persistent_volume_reclaim_policy=fields.get("policy", words.policy),
            storage_class_name=fields.get("class", ""),
            **spec,
        ),
        status=PersistentVolumeStatus(phase=words.phase, message=fields.get("message", "")),
    )


def pvc(text: str) -> PersistentVolumeClaim:
    """A claim, by its `Words`; ``of=volume`` names its volume. A bound one shows access modes and a capacity:
    what it asks for, or what it ``holds``."""
    words = Words(text, "Pending")
    fields, spec = words.fields, words.common()
    shown: dict[str, Any] = {}
    if words.phase == "Bound":
        size = fields.get("holds", words.size)
        shown = {"access_modes": spec["access_modes"], "capacity": {"storage": size}}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=words.name, namespace=NS, uid=fields.get("uid", "uid"), annotations=words.annotations
        ),
        spec=PersistentVolumeClaimSpec(
            resources=ResourceRequirements(requests={"storage": words.size}),
            volume_name=fields.get("of", ""),
            storage_class_name=fields.get("class"),
            selector=SELECTORS[fields["selector"]] if "selector" in fields else None,
            **spec,
        ),
        status=PersistentVolumeClaimStatus(phase=words.phase, **shown),
    )


def objects(text: str) -> list[Bindable]:
    """Volumes and claims, with semicolons between them; names of claims begin with c."""
    parts = filter(None, map(str.strip, text.split(";")))
    return [(pvc if part.startswith("c") else pv)(part) for part in parts]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ScriptedProvisioner(InMemoryProvisioner):
    """Supports every volume, notes its calls, each with the name of the volume, and lets some fail."""

    def __init__(self, name: str = PLUGIN, mount_options: bool = True, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.mount_options = mount_options
        self.calls: list[tuple[str, str]] = []
        self.says = ""
        self._failures: defaultdict[str, deque[Exception]] = defaultdict(deque)

    def fail(self, call: str, error: Exception | str = "", times: int = 1) -> None:
        """Let the next calls of a kind fail, after those that were to fail before."""
        raised = error if isinstance(error, Exception) else VolumeError(error or f"{call} failed")
        self._failures[call].extend([raised] * times)

    def _called(self, call: str, name: str) -> None:
        self.calls.append((call, name))
        if self._failures[call]:
            raise self._failures[call].popleft()

    def can_support(self, volume: PersistentVolume) -> bool:
        return True

    def supports_mount_option(self) -> bool:
        return self.mount_options

    def new_provisioner(self, options: VolumeOptions) -> Any:
        self._called("new_provisioner", options.pv_name)
        return super().new_provisioner(options)

    def new_deleter(self, volume: PersistentVolume) -> Any:
        self._called("new_deleter", volume.name)
        return super().new_deleter(volume)

    def recycle(self, name: str, volume: PersistentVolume, recorder: Any) -> None:
        self._called("recycle", name)
        if self.says:
            recorder("Normal", self.says)

    def make(self, options: VolumeOptions, *where: Any) -> PersistentVolume:
        self._called("provision", options.pv_name)
        return super().make(options, *where)

    def remove(self, name: str) -> None:
        self._called("delete", name)
        super().remove(name)


def parameters(client: Any, informers: InformerFactory, **more: Any) -> ControllerParameters:
    """Those of a controller that writes to a client and reads by informers."""
    return ControllerParameters(
        kube_client=client,
        volume_informer=informers.informer(PersistentVolume),
        claim_informer=informers.informer(PersistentVolumeClaim),
        class_informer=informers.informer(StorageClass),
        pod_informer=informers.informer(Pod),
        node_informer=informers.informer(Node),
        **more,
    )


def settle(informers: InformerFactory, controller: PersistentVolumeController) -> None:
    """Have a controller hear and work until there is nothing to do."""
    while informers.run_once() + controller.run_once():
        pass


class World:
    """A store with objects, informers that know of them, and a controller.

    Parameters
    ----------
    there : Object or str
        What is in the store; a text is for `objects`.
    plugins : sequence, optional
        By default one plugin, `PLUGIN`.
    client : callable, optional
        Makes the controller's client of the store.
    """

    def __init__(
        self,
        *there: Object | str,
        plugins: Sequence[Any] | None = None,
        client: Callable[[ObjectStore], Any] = lambda store: store,
        provisioning: bool = True,
        sync_period: float = 15.0,
        **store: int,
    ) -> None:
        self.clock = Clock()
        self.store = ObjectStore(**store)
        self.store.create_many(list(CLASSES))
        for each in there:
            self.store.create_many(objects(each) if isinstance(each, str) else [each])
        self.plugin = ScriptedProvisioner()
        self.plugins = [self.plugin] if plugins is None else plugins
        self.client = client(self.store)
        self.provisioning, self.sync_period = provisioning, sync_period
        self.recorder = EventRecorder()
        self.controller = self.restart()

    def restart(self) -> PersistentVolumeController:
        """Another controller, which knows only what the store has."""
        self.informers = InformerFactory(self.store)
        self.controller = new_controller(
            parameters(
                self.client,
                self.informers,
                sync_period=self.sync_period,
                volume_plugins=self.plugins,
                cluster_name="cluster",
                event_recorder=self.recorder,
                enable_dynamic_provisioning=self.provisioning,
            ),
            clock=self.clock,
        )
        return self.controller

    def settle(self, later: float = 0.0) -> None:
        """Let the controller work so many seconds later, until nothing happens any more."""
        self.clock.now += later
        settle(self.informers, self.controller)

    def save(self) -> tuple[object, object]:
        """The state of the informers and the controller, for `undo` after that of the store."""
        return self.informers.save(), self.controller.save()

    def undo(self, saved: tuple[object, object]) -> None:
        for part, state in zip((self.informers, self.controller), saved, strict=True):
            part.undo(state)

    def begin(self) -> PersistentVolumeController:
        """Have the controller know what the store has, without looking at it; returns it."""
        self.informers.run_once()
        assert self.controller._begin()
        return self.controller

    def volumes(self) -> list[PersistentVolume]:
        return [plain(held) for held in self.store.list(PersistentVolume)[0]]

    def claims(self) -> list[PersistentVolumeClaim]:
        return [plain(held) for held in self.store.list(PersistentVolumeClaim)[0]]

    def phases(self) -> list[str]:
        """Of volumes, then of claims."""
        return [held.status.phase for held in (*self.volumes(), *self.claims())]

    def check(self, text: str | Sequence[Bindable]) -> None:
        """There are just these volumes and claims."""
        wanted = objects(text) if isinstance(text, str) else text
        for kind, held in ((PersistentVolume, self.volumes()), (PersistentVolumeClaim, self.claims())):
            those = [plain(each) for each in wanted if isinstance(each, kind)]
            assert held == sorted(those, key=lambda each: each.key)

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
