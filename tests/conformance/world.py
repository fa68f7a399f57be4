"""The cluster of a scenario: its objects, literally, and the steps that change it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from moorage import Scheduler
from moorage.engine.framework import FilterPlugin
from moorage.engine.volume import PVAssumeCache, PVCAssumeCache, VolumeBinder, VolumeError
from moorage.kube import Namespace, Node, ObjectMeta, Pod, decode_object
from moorage.kube.releases import DEFAULT, dependents_off, release_named
from moorage.kube.releases import feature_gates as all_gates
from moorage.store import find_object
from tests.doors.engine import Rotation, VolumeBinding, sources_of, with_annotations
from tests.words import BIND_COMPLETED

from .vectors import MalformedError

Json = dict[str, Any]

STEP_KEYS = {
    "schedule": {"pod"},
    "addNode": {"node"},
    "updateNode": {"node"},
    "removeNode": {"name"},
    "addPod": {"pod"},
    "removePod": {"namespace", "name"},
    "updatePod": {"pod"},
    "addObject": {"object"},
    "updateObject": {"object"},
    "removeObject": {"object"},
    "updateNamespace": {"namespace", "labels"},
}
ANY_STEP = {op: {"snapshot"} for op in STEP_KEYS} | {"schedule": {"snapshot", "apply"}}


WITHOUT_VOLUMES = ("1.34",)
"""Releases whose decisions were recorded without volumes: the program told listers of claims and volumes, but
not the caches of the volume binder. In v1.34.4 itself informers fill these caches, as in all releases."""


class FromTheTop(Rotation):
    """Each run of equal pods begins its searches at the first node, as mode full has it."""

    def take(self, engine: Any) -> Any:
        super().take(engine).placer.decider.start = 0
        return engine


class World:
    """Writes the objects to a scheduler's store, in order, each once; its informers do the rest.

    Attributes
    ----------
    pods : dict of str to Pod
        Every pod that is known, by ``namespace/name``: bound, placed by a step, or waiting.
    """

    def __init__(
        self,
        objects: list[Json],
        from_the_top: bool = False,
        preempts: bool = False,
        feature_gates: Mapping[str, bool] | None = None,
        release: str = DEFAULT,
        **settings: Any,
    ) -> None:
        decoded = [decode_object(one) for one in objects]
        given, of_release = dict(feature_gates or {}), release_named(release)
        # Where upstream's tests set gates, none lacks what it needs.
        gates = all_gates(dependents_off(given, of_release) | given, of_release)
        self.scheduler = Scheduler(controllers=False, feature_gates=gates, **settings)
        for engine in self.scheduler.engines.values():
            engine.runs_post_filter = preempts
        if release in WITHOUT_VOLUMES:
            shared, handle = self.scheduler.handle.plugin_data()[0], self.scheduler.handle
            empty = PVAssumeCache(None), PVCAssumeCache(None)
            shared[sources_of] = dataclasses.replace(
                handle.shared(sources_of), pv_cache=empty[0], pvc_cache=empty[1]
            )
        if from_the_top:
            self.scheduler.context.rotation = FromTheTop(list(self.scheduler.engines.values()))
        self.store = self.scheduler.client
        self.pods: dict[str, Any] = {}
        self.updates = 0
        self.namespaces = {"default"}
        self.store.create(namespace("default"))
        for one in sorted(decoded, key=lambda one: one.kind != "Namespace"):
            self.add(one)

    def apply(self, step: Json) -> bool:
        """Carry out a step that changes the cluster; true if it names a pod that is not there."""
        match step["op"]:
            case "addNode":
                self.add(decode_object(step["node"]))
            case "updateNode":
                self._update(decode_object(step["node"]))
            case "removeNode":
                self._delete("Node", step["name"])
            case "addPod":
                self.add(decode_object(step["pod"]))
            case "removePod":
                return self.remove_pod(f"{step['namespace']}/{step['name']}")
            case "updatePod":
                return self._update_pod(decode_object(step["pod"]))
            case "addObject":
                self.add(decode_object(step["object"]))
            case "updateObject":
                changed = decode_object(step["object"])
                is_there = find_object(self.store, type(changed), changed.name, changed.namespace) is not None
                (self._update if is_there else self.add)(changed)  # as the tracker of a fake client does
            case "removeObject":
                gone = decode_object(step["object"])
                self._delete(gone.kind, gone.name, gone.namespace)
            case "updateNamespace":
                self.add(namespace(step["namespace"], step["labels"]))
        return False

    def pod(self, step: Json) -> Any:
        """The pod that a schedule step is about."""
        check_keys(step)
        return decode_object(step["pod"])

    def announce(self, pods: Sequence[Any]) -> None:
        """Create pods that are going to be scheduled, where extenders may have a say in them: those go up to
        the binding, for which a pod must be in the store. No other pod hears of their nominations."""
        for pod in pods if self.scheduler.handle.extenders else ():
            self.add(replace(pod, status=replace(pod.status, nominated_node_name="")))

    def settle(self, pod: Any, node: str | None) -> None:
        """Report a pod as bound to the node that was chosen, or take back what was announced of it."""
        if node is not None:
            self.place(pod, node)
        elif self.scheduler.handle.extenders:
            self.remove_pod(pod.key)

    def place(self, pod: Any, node: str) -> None:
        """Report a pod as bound to a node, whether the scheduler has assumed it there, has bound it or
        neither."""
        placed = replace(pod, spec=replace(pod.spec, node_name=node))
        if pod.key not in self.pods:
            self.add(placed)
            return
        self.pods[pod.key] = placed
        if not self.store.get(Pod, pod.name, pod.namespace).spec.node_name:
            self.store.bind(pod, node)
        self.scheduler.sync()

    def reserve_volumes(self, pod: Any, node: str) -> Json:
        """Have the volumes of a pod reserved and written, and those matched bound at once. What was decided,
        or why it could not be done. Where Filter does not look at volumes, nothing is."""
        filters = self.scheduler.context.engine_of(pod).profile.at(FilterPlugin)
        if not any(isinstance(plugin, VolumeBinding) for plugin in filters):
            return {}
        handle = self.scheduler.handle
        exact = handle.release.storage_capacity_is_exact
        binder = VolumeBinder(handle.shared(sources_of), exact_capacity=exact)
        known = self.scheduler.informers.lister(Node).get(node)
        volumes, reasons = binder.find_pod_volumes(pod, binder.get_pod_volume_claims(pod), known)
        assert not reasons, reasons
        found = list(volumes.static_bindings or ())
        try:
            if binder.assume_pod_volumes(pod, node, volumes):
                return {}
        except VolumeError as error:
            return {"reserve": str(error)}
        before = {volume.name: volume for volume, _ in found}
        # A volume that has all of the claim already needs no decision.
        static = {
            claim.key: volume.name
            for volume, claim in volumes.static_bindings or ()
            if volume is not before[volume.name]
        }
        dynamic = sorted(claim.key for claim, _ in volumes.dynamic_provisions or ())
        binder.begin(pod, volumes, node)
        for volume, claim in volumes.static_bindings or ():
            bound = with_annotations(claim, {BIND_COMPLETED: "yes"})
            spec, status = replace(claim.spec, volume_name=volume.name), replace(claim.status, phase="Bound")
            self.store.update(replace(bound, spec=spec, status=status))
            self.store.update(replace(volume, status=replace(volume.status, phase="Bound")))
        self.scheduler.sync()
        decided = {name: value for name, value in (("static", static), ("dynamic", dynamic)) if value}
        return {"volumes": decided} if decided else {}

    def add(self, obj: Any) -> None:
        if obj.kind == "Pod":
            self.pods[obj.key] = obj
        if obj.kind == "Namespace":
            self._create_namespace(obj)
        else:
            if obj.namespace and obj.namespace not in self.namespaces:
                # A namespace that is not listed exists as soon as it holds something.
                self._create_namespace(namespace(obj.namespace))
            self.store.create(_without_finalizers(obj))
        self.scheduler.sync()

    def _create_namespace(self, obj: Any) -> None:
        """A namespace with these very labels, new or not."""
        (self._update if obj.name in self.namespaces else self.store.create)(obj)
        self.namespaces.add(obj.name)

    def _update(self, obj: Any) -> None:
        # Every update counts, even one that changes nothing: a store would not report that one.
        self.updates += 1
        held = self.store.get(type(obj), obj.name, obj.namespace).metadata
        if obj.metadata.deletion_timestamp and not held.deletion_timestamp:
            # A store takes this from a deletion alone.
            self.store.delete(type(obj), obj.name, obj.namespace, grace_period_seconds=1)
        meta = replace(
            _without_finalizers(obj).metadata,
            annotations=obj.metadata.annotations | {"update": str(self.updates)},
            deletion_timestamp=None,
            deletion_grace_period_seconds=None,
        )
        self.store.update(replace(obj, metadata=meta))
        self.scheduler.sync()

    def _delete(self, kind: str, name: str, namespace: str = "") -> None:
        self.store.delete(kind, name, namespace)
        self.scheduler.sync()

    def remove_pod(self, key: str) -> bool:
        """Take a pod away; true if it is not there."""
        pod = self.pods.pop(key, None)
        if pod is not None:
            self._delete("Pod", pod.name, pod.namespace)
        return pod is None

    def _update_pod(self, pod: Any) -> bool:
        old = self.pods.get(pod.key)
        if old is None:
            return True
        new = replace(pod, spec=replace(pod.spec, node_name=old.spec.node_name))
        self.pods[pod.key] = new
        self._update(new)
        return False


def _without_finalizers(obj: Any) -> Any:
    """The object as nobody keeps it: what a step removes is gone, and no decision reads finalizers."""
    return replace(obj, metadata=replace(obj.metadata, finalizers=()))


def namespace(name: str, labels: dict[str, str] | None = None) -> Namespace:
    """A namespace with these labels, or with those that every namespace gets."""
    labels = {"kubernetes.io/metadata.name": name} if labels is None else labels
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def check_keys(
    step: Json, keys: Mapping[str, set[str]] = STEP_KEYS, optional: Mapping[str, set[str]] = ANY_STEP
) -> None:
    """Refuse a step with an unknown operation or with fields that the operation does not have."""
    op = step.get("op", "")
    if op not in keys:
        raise MalformedError(f"unknown step {step.get('op')!r}")
    if step.keys() - optional.get(op, set()) != keys[op] | {"op"}:
        raise MalformedError(f"fields of step {op}: {', '.join(sorted(step))}")
