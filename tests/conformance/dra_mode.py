"""Mode dra: as full, with what comes of the claims: allocations, writes, binding, deallocation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from moorage.engine.framework import CycleState, NotFoundError, Status, StatusError
from moorage.kube import AllocatedDeviceStatus, Condition, ResourceClaim, decode_object, object_to_dict
from moorage.saved_fields import SavedFields
from moorage.store import ApiError, ObjectStore
from tests.doors.engine import (
    Started,
    binding_cycle,
    prepare_for_binding_cycle,
    resume_binding_cycles,
)
from tests.doors.kube import decode, plain
from tests.doors.store import conflict

from .world import ANY_STEP, STEP_KEYS, World, check_keys

FINALIZER = "resource.kubernetes.io/delete-protection"
STATE = "DynamicResources"
"""The name of the plugin, and the key of its state in a cycle."""

Json = dict[str, Any]

NOW = 1_767_225_600.0  # 2026-01-01
BINDING_TIMEOUT = "1s"
DRA_STEPS: dict[str, set[str]] = STEP_KEYS | {
    "releaseClaims": {"namespace", "name"},
    "deleteClaim": {"namespace", "name"},
    "reportDevices": {"namespace", "name", "conditions"},
}
OPTIONAL: Mapping[str, set[str]] = ANY_STEP | {"schedule": {"conditions", "failWrite"}}
KINDS = ("ResourceClaim", "ResourceSlice", "DeviceClass")


class RecordingClient(SavedFields):
    """Writes to a store, records the writes, and refuses one if it is told to."""

    fields = ("generated",)

    def __init__(self, world: DraWorld) -> None:
        self.world = world
        self.store: ObjectStore = world.store
        self.writes: list[str] = []
        self.refused: Json = {}
        self.counts: dict[str, int] = {}
        self.conditions: tuple[Condition, ...] = ()
        self.generated = 0

    def begin(self, step: Json) -> None:
        self.writes, self.counts, self.refused = [], {}, step.get("failWrite", {})
        self.conditions = tuple([decode(one, Condition) for one in step.get("conditions", ())])

    def _write(self, kind: str, key: str, more: str = "") -> None:
        self.writes.append(f"{kind} {key}{more}")
        self.counts[kind] = self.counts.get(kind, 0) + 1
        refused = self.refused
        if refused.get("write") != kind or refused.get("nth") != self.counts[kind]:
            return
        name = key.partition("/")[2]
        resource = "pods" if kind == "patchPod" else "resourceclaims.resource.k8s.io"
        match refused["reason"]:
            case "internal":
                raise ApiError("Internal error occurred: no luck")
            case "forbidden":
                raise ApiError(f'{resource} "{name}" is forbidden: not allowed')
            case "conflict":
                raise conflict(resource, name, "the object has been modified")

    def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        return self.store.get(kind, name, namespace)

    def bind(self, pod: Any, node: str) -> None:
        self.store.bind(pod, node)

    def create(self, obj: Any) -> Any:
        self.generated += 1
        name = f"{obj.metadata.generate_name}g{self.generated}"
        self._write("create", f"{obj.namespace}/{name}")
        return self.store.create(replace(obj, metadata=replace(obj.metadata, name=name)))

    def update(self, obj: Any) -> Any:
        self._write("update", obj.key)
        return self.store.update(obj)

    def delete(self, kind: Any, name: str, namespace: str = "") -> Any:
        self._write("delete", f"{namespace}/{name}")
        return self.store.delete(kind, name, namespace)

    def patch(
        self, kind: Any, name: str, namespace: str, patch: Any, *, type: Any = "merge", subresource: str = ""
    ) -> Any:
        key = f"{namespace}/{name}"
        if kind is not ResourceClaim:
            self._write("patchPod", key)
            self.world.pod_patches.append(patch)
            return self.store.patch(kind, name, namespace, patch, type=type, subresource=subresource)
        if type == "strategic":
            uids = json.dumps(patch["metadata"]["uid"]), json.dumps(patch["status"]["reservedFor"][0]["uid"])
            item = f'[ {{"$patch": "delete", "uid": {uids[1]}}} ]'
            text = f'{{"metadata": {{"uid": {uids[0]}}}, "status": {{ "reservedFor": {item} }}}}'
            self._write("patch", key, f" {text}")
            return self.store.patch(kind, name, namespace, patch, type=type, subresource=subresource)
        self._write("updateStatus", key)
        before = self.store.get(ResourceClaim, name, namespace)
        written = self.store.patch(kind, name, namespace, patch, type=type, subresource=subresource)
        if self.conditions and before.status.allocation is None:
            self.world.report_devices(written, self.conditions)
            self.world.scheduler.sync()
        return written


class DraWorld(World):
    """A world with the claims of pods, and drivers that report about devices."""

    def __init__(self, objects: list[Json], **settings: Any) -> None:
        self.shares: dict[str, str] = {}
        self.pod_patches: list[Any] = []
        self.given_shares: set[str] = set()
        super().__init__(objects, wait=lambda seconds: None, **settings)  # no controller of claims
        self.recording = RecordingClient(self)
        self.engine: Any | None = None
        for engine in self.scheduler.engines.values():
            engine.handle.now = lambda: NOW + self.scheduler.handle.clock()
            for plugin in engine.profile.plugins:
                if plugin.name == STATE:
                    plugin.args = {**plugin.args, "bindingTimeout": BINDING_TIMEOUT}
            engine.handle.client = self.recording  # type: ignore[assignment]

    def add(self, obj: Any) -> None:
        if not isinstance(obj, ResourceClaim):
            super().add(obj)
            return
        allocation, meta = obj.status.allocation, obj.metadata
        for result in () if allocation is None else allocation.devices.results:
            self.given_shares.add(result.share_id or "")
        uid = meta.uid or f"claim/{obj.namespace}/{obj.name}"
        deleted = meta.deletion_timestamp is not None
        obj = replace(obj, metadata=replace(meta, uid=uid, deletion_timestamp=None))
        if obj.key in self.claims():
            stored = self.store.get(ResourceClaim, obj.name, obj.namespace)
            if stored.metadata.uid == uid:
                self.store.update(obj)
            else:
                self._remove_claim(stored)
                self.store.create(obj)
        else:
            self.store.create(obj)
        if deleted:
            self.store.delete(ResourceClaim, obj.name, obj.namespace)
        self.scheduler.sync()

    def _update(self, obj: Any) -> None:
        self.add(obj) if isinstance(obj, ResourceClaim) else super()._update(obj)

    def _delete(self, kind: str, name: str, namespace: str = "") -> None:
        if kind == "ResourceClaim":
            self._remove_claim(self.store.get(ResourceClaim, name, namespace))
            self.scheduler.sync()
        else:
            super()._delete(kind, name, namespace)

    def _remove_claim(self, claim: ResourceClaim) -> None:
        if claim.metadata.finalizers:
            self.store.update(replace(claim, metadata=replace(claim.metadata, finalizers=())))
        if claim.key in self.claims():
            self.store.delete(ResourceClaim, claim.name, claim.namespace)

    def claims(self) -> dict[str, ResourceClaim]:
        return {claim.key: claim for claim in self.store.list(ResourceClaim)[0]}

    def apply(self, step: Json) -> bool:
        key = f"{step.get('namespace')}/{step.get('name')}"
        match step["op"]:
            case "releaseClaims":
                self._release(key)
            case "deleteClaim":
                if key not in self.claims():
                    return True
                self.store.delete(ResourceClaim, step["name"], step["namespace"])
            case "reportDevices":
                claim = self.claims().get(key)
                conditions = tuple([decode(one, Condition) for one in step["conditions"]])
                absent = claim is None or not self.report_devices(claim, conditions)
                self.scheduler.sync()
                return absent
            case _:
                return super().apply(step)
        self.scheduler.sync()
        return False

    def report_devices(self, claim: ResourceClaim, conditions: tuple[Condition, ...]) -> bool:
        """Report conditions for each allocated device with binding conditions; whether there is one."""
        allocation = claim.status.allocation
        results = () if allocation is None else allocation.devices.results
        devices = tuple(
            [
                AllocatedDeviceStatus(
                    driver=one.driver,
                    pool=one.pool,
                    device=one.device,
                    share_id=one.share_id,
                    conditions=conditions,
                )
                for one in results
                if one.binding_conditions
            ]
        )
        if devices:
            self.store.update(replace(claim, status=replace(claim.status, devices=devices)))
        return bool(devices)

    def _release(self, key: str) -> None:
        """What the claim controller does when the pod is gone."""
        namespace, _, name = key.partition("/")
        for claim in self.claims().values():
            if claim.namespace != namespace:
                continue
            reserved = tuple([one for one in claim.status.reserved_for if one.name != name])
            had = len(reserved) != len(claim.status.reserved_for)
            owned = any(one.kind == "Pod" and one.name == name for one in claim.metadata.owner_references)
            if not (had or owned):
                continue
            status, meta = replace(claim.status, reserved_for=reserved), claim.metadata
            if not reserved:
                status = replace(status, allocation=None, devices=())
                finalizers = tuple([one for one in meta.finalizers if one != FINALIZER])
                meta = replace(meta, finalizers=finalizers)
            claim = self.store.update(replace(claim, status=status, metadata=meta))
            if not reserved and not meta.finalizers and owned and claim.key in self.claims():
                self.store.delete(ResourceClaim, claim.name, claim.namespace)

    # ---- what is shown -------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Json]:
        """All claims as results show them."""
        return {key: self._shown(claim) for key, claim in sorted(self.claims().items())}

    def _shown(self, claim: ResourceClaim) -> Json:
        value = object_to_dict(claim)
        status = value.get("status", {})
        allocation = status.get("allocation", {})
        allocation.pop("allocationTimestamp", None)
        for result in allocation.get("devices", {}).get("results", ()):
            for name in ("request", "driver", "pool", "device"):
                result.setdefault(name, "")  # upstream writes them even if they are empty
        shown: Json = {"status": status}
        if claim.metadata.finalizers:
            shown["finalizers"] = list(claim.metadata.finalizers)
        if claim.metadata.deletion_timestamp is not None:
            shown["deleting"] = True
        return shown

    def with_shares(self, shown: Json) -> Json:
        """The shares of a claim, numbered in the order in which they are shown."""
        status = shown.get("status", {})
        for one in (
            *status.get("allocation", {}).get("devices", {}).get("results", ()),
            *status.get("devices", ()),
        ):
            if "shareID" in one and one["shareID"] not in self.given_shares:
                one["shareID"] = self.shares.setdefault(one["shareID"], f"share-{len(self.shares) + 1}")
        return shown

    def versions(self) -> dict[str, str]:
        return {key: claim.metadata.resource_version for key, claim in self.claims().items()}

    def changed(self, before: dict[str, str]) -> Json:
        """The claims that a step wrote, by the resource versions before it."""
        after, versions, out = self.shown(), self.versions(), {}
        for key in sorted({*before, *after}):
            if key not in after:
                out[key] = {"deleted": True}
            elif key not in before:
                out[key] = self.with_shares(after[key]) | self._as_created(key)
            elif before[key] != versions[key]:
                out[key] = self.with_shares(after[key])
        return out

    def _as_created(self, key: str) -> Json:
        claim = self.claims()[key]
        meta = claim.metadata
        return {
            "created": True,
            "generateName": meta.generate_name,
            "annotations": dict(meta.annotations),
            "ownerReferences": plain(meta.owner_references),
            "spec": plain(claim.spec),
        }


class DraCycle:
    """One pod in mode dra."""

    def __init__(self, world: DraWorld, step: Json) -> None:
        check_keys(step, DRA_STEPS, OPTIONAL)
        self.world = world
        self.pod = decode_object(step["pod"])
        world.recording.begin(step)
        world.pod_patches.clear()
        world.add(self.pod)
        context = world.scheduler.context
        self.engine = context.engine_of(self.pod)
        plugins: list[Any] = [*self.engine.profile.plugins]  # it may sleep, and is no DynamicResources then
        self.plugin = next((one for one in plugins if one.name == STATE), None)
        self.states: list[CycleState] = []
        self.engine.framework.new_state = self._new_state  # type: ignore[method-assign]

    def _new_state(self, pod: Any) -> CycleState:
        state = type(self.engine.framework).new_state(self.engine.framework, pod)
        self.states.append(state)
        return state

    def close(self) -> None:
        del self.engine.framework.new_state

    @property
    def state(self) -> CycleState:
        return self.states[-1]

    def pre_enqueue(self) -> Json | None:
        status = None if self.plugin is None else self.plugin.pre_enqueue(self.pod)
        return None if status is None else shown(status.with_plugin(STATE))

    def next_start(self) -> int:
        """Where the search after that of the pod begins; it is made here, and comes to nothing."""
        engine, state = self.engine, self.engine.framework.new_state(self.pod)
        rotation = self.world.scheduler.context.rotation
        rotation.take(engine)
        ran = engine.framework.run_pre_filter_plugins(state, self.pod)
        if ran.rejection is None:
            engine.begin_search(state, self.pod, ran)
            engine.framework.searching(True)
            try:
                engine.decider.find(*state.target)
            except StatusError:
                pass
            finally:
                engine.framework.searching(False)
        return int(rotation.start)

    def rejected_before_error(self, order: list[str]) -> Json:
        """The nodes that are rejected before the first one for which Filter fails with an error."""
        framework, found = self.engine.framework, {}
        state = framework.new_state(self.pod)
        framework.run_pre_filter_plugins(state, self.pod)
        for name in order:
            info = self.world.scheduler.cache.node_info(name)
            assert info is not None
            status = framework.run_filter_plugins(state, self.pod, info)
            if status is None:
                continue
            if not status.is_rejected:
                break
            found[name] = shown(status)
        return found

    def allocations(self, feasible: list[str]) -> Json:
        """Of each feasible node the devices of each claim that was to be allocated."""
        try:
            found: Any = self.state.read(STATE)
        except NotFoundError:
            return {}
        return {
            name: [
                [f"{one.request.full_name}={'/'.join(one.device.id)}" for one in claim.devices]
                for claim in node.results
            ]
            for name in feasible
            if (node := found.found_on(name)) is not None and node.results
        }

    def post_filter(self) -> Json:
        if self.plugin is None:
            return {}
        try:
            status = self.plugin.post_filter(self.state, self.pod, {})[1]
        except StatusError as failed:
            status = failed.status
        assert status is not None
        return shown(status.with_plugin(STATE))

    def bind(self, node: str) -> Json:
        """Reserve and PreBind; the message of the one that failed."""
        context = self.world.scheduler.context
        with context.cache.lock:
            context.rotation.take(self.engine)
            started = prepare_for_binding_cycle(context.bindings, self.engine, self.state, self.pod, node)
        if not isinstance(started, Started):
            assert started.failure is not None
            return {"reserve": started.failure.message}
        outcome = binding_cycle(context.bindings, started)
        while outcome.binding and not outcome.failure:
            context.bindings.let_time_pass()
            ended = resume_binding_cycles(context.bindings, context.bindings.clock())
            if ended:
                (outcome,) = ended
        return {} if outcome.failure is None else {"preBind": outcome.failure.message}


def shown(status: Status) -> Json:
    out: Json = {"plugin": status.plugin, "code": int(status.code)}
    return out | {"reasons": list(status.reasons)}
