"""ObjectStore: objects in memory, with the semantics of an API server that its clients rely on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import TypeVar

from fastrlock.rlock import FastRLock
from msgspec.structs import replace

from moorage.objects.model.meta import Condition as PodCondition
from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Pod
from moorage.objects.workloads.naming import generated_names

from . import deletion
from . import pod_binding as binding
from .clock import epoch, timestamp
from .errors import (
    BadRequestError,
    InvalidObjectError,
    ResourceExpiredError,
    already_exists,
    invalid,
    other_uid,
    stale,
)
from .field_selectors import predicate
from .patches.patch import apply_patch
from .protocol import ListResult, Patch, PatchType, Selector
from .tables import Save, Tables
from .watch import Watch, with_version

T = TypeVar("T", bound=Object)


class ObjectStore:
    """Objects by kind, with watches. Thread-safe; objects are shared, as they never change in place.

    As in the API server, one counter numbers all writes, an update with a stale resource version is a
    conflict, and an update that changes nothing writes nothing. Other than there, an object that comes with a
    UID, a creation or a deletion time (from a dump) keeps it, pods are deleted without a grace period unless
    one is asked for, as there is no kubelet to end them, and nothing is filled in or validated but the name.

    Parameters
    ----------
    clock : callable
        Seconds since 1970; gives creation and transition times. The default stands still.
    seed : int
        UIDs follow from it and from the order of writes.
    history : int
        How many events of each kind can be watched back; by default as many as in kube-apiserver v1.36.
    """

    def __init__(
        self, clock: Callable[[], float] = epoch, *, seed: int = 0, history: int = 100 * 1024
    ) -> None:
        if history < 1:
            raise ValueError("history must be at least 1")
        self._clock = clock
        digest = hashlib.sha1(str(seed).encode(), usedforsecurity=False).hexdigest()
        self._uid_prefix = f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-"
        self._history = history
        self._tables = Tables(history)
        self._lock = FastRLock()
        self._changed = Condition(self._lock)

    @property
    def changes(self) -> int:
        """Grows with each write and each `undo`."""
        with self._lock:
            return self._tables.changes

    def changed_since(self, changes: int) -> list[type[Object]]:
        """Return the kinds that were written since `changes` had that value."""
        with self._lock:
            return self._tables.changed_since(changes)

    # ---- reading ----

    def get(self, kind: type[T] | str, name: str, namespace: str = "") -> T:
        """Return one object.

        Raises
        ------
        NotFoundError
        """
        with self._lock:
            return self._tables.find(kind, _key(name, namespace))

    def list(
        self,
        kind: type[T] | str,
        namespace: str = "",
        *,
        label_selector: Selector = "",
        field_selector: str = "",
    ) -> ListResult[T]:
        """Return the objects of a kind in the order of their keys, and the current resource version.

        Raises
        ------
        BadRequestError
            A selector is malformed, or names a field that the kind cannot be selected by.
        """
        with self._lock:
            table = self._tables[kind]
            match = None
            if namespace or label_selector != "" or field_selector:
                match = predicate(table.struct, namespace, label_selector, field_selector)
            return table.select(match), str(self._tables.version)

    def watch(
        self,
        kind: type[T] | str,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: Selector = "",
        field_selector: str = "",
    ) -> Watch[T]:
        """Return the events after `resource_version`; without one (or with "0"), first the objects, as ADDED.

        Raises
        ------
        ResourceExpiredError
            The history does not reach back to that version, or the version was undone.
        BadRequestError
            As for `list`, or the version is no number.
        """
        with self._lock:
            table = self._tables[kind]
            match, version = None, self._tables.version
            if namespace or label_selector != "" or field_selector:
                match = predicate(table.struct, namespace, label_selector, field_selector)
            if resource_version in ("", "0"):
                return Watch(
                    self._changed, table, match, "0", lambda: (table.select(match), str(self._tables.version))
                )
            if not (resource_version.isascii() and resource_version.isdigit()):
                raise BadRequestError(f'resourceVersion: Invalid value: "{resource_version}"')
            if int(resource_version) > version:
                raise ResourceExpiredError(
                    f"Too large resource version: {resource_version}, current: {version}"
                )
            return Watch(self._changed, table, match, resource_version, None)

    # ---- writing ----

    def create(self, obj: T) -> T:
        """Store a new object; returns it as stored. A resource version that it brings along is replaced.

        One without a name gets its ``generateName`` with a suffix that follows from the resource version.

        Raises
        ------
        AlreadyExistsError
        InvalidObjectError
            It has no name, or a namespace where its kind has none.
        """
        with self._lock:
            stored = self._create(obj, self._now())
            self._changed.notify_all()
        return stored

    def create_many(self, objects: Iterable[T]) -> None:
        """`create` each in turn; if one fails, none is stored."""
        with self._all_or_nothing():
            now = self._now()
            for obj in objects:
                self._create(obj, now)

    def update(self, obj: T) -> T:
        """Replace an object; returns it as stored. UID and creation time stay as they are.

        Where the object is being deleted and nothing but this finalizer or these kept it, it is removed.

        Raises
        ------
        NotFoundError
        ConflictError
            It has a resource version or a UID, and the stored object has another one.
        InvalidObjectError
            It adds finalizers to an object that is being deleted, or says itself that one is.
        """
        with self._lock:
            stored = self._update(obj)
            self._changed.notify_all()
        return stored

    def patch(
        self,
        kind: type[T] | str,
        name: str,
        namespace: str,
        patch: Patch,
        *,
        type: PatchType = "merge",
        subresource: str = "",
    ) -> T:
        """Change parts of an object, as `update` would; returns it as stored.

        Parameters
        ----------
        patch : dict or list of dict
            In the wire's names. A ``resourceVersion`` or ``uid`` in it is a precondition.
        type : {"merge", "strategic", "json"}
            JSON merge patch (RFC 7386), the same with lists merged by keys as kubectl and controllers use it
            (`strategic_merge`), or JSON patch (RFC 6902).
        subresource : {"", "status"}
            "status" changes nothing but the status, "" everything else.

        Raises
        ------
        NotFoundError
            There is no such object, or no such subresource of its kind.
        ConflictError, InvalidObjectError
            As for `update`; also where the patch does not fit the object, or the result its kind.
        BadRequestError
            This is no such patch, or it would make another object of it.
        """
        with self._lock:
            current = self._tables.find(kind, _key(name, namespace))
            stored = self._update(apply_patch(current, patch, type, subresource))
            self._changed.notify_all()
        return stored

    def patch_pod_status(
        self, pod: Pod, nominated_node_name: str | None, conditions: Sequence[PodCondition]
    ) -> Pod:
        """What a strategic merge patch of these parts of a pod's status does, without JSON between.

        Parameters
        ----------
        pod : Pod
            Its name, namespace and UID count.
        nominated_node_name : str or None
            None leaves the nomination.
        conditions : sequence of Condition
            Each replaces the one of its type, or is appended.

        Returns
        -------
        Pod
            As stored.

        Raises
        ------
        NotFoundError
        ConflictError
            The pod has another UID.
        """
        with self._lock:
            current = self._tables.find(Pod, pod.key)
            if pod.metadata.uid not in ("", current.metadata.uid):
                raise other_uid(pod, current.metadata.uid)
            status, merged = current.status, list(current.status.conditions)
            for new in conditions:
                at = next((at for at, one in enumerate(merged) if one.type == new.type), len(merged))
                merged[at : at + 1] = [new]
            node = status.nominated_node_name if nominated_node_name is None else nominated_node_name
            status = replace(status, nominated_node_name=node, conditions=tuple(merged))
            if status == current.status:
                return current
            stored = self._tables.record("MODIFIED", current, current, {}, status=status)
            self._changed.notify_all()
        return stored

    def delete(
        self,
        kind: type[T] | str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> T:
        """Remove an object; returns its last state, with the resource version of the deletion.

        One with finalizers stays, marked by a deletion time, until an update takes away the last of them;
        deleting it again changes nothing. Nobody here stops containers, so pods go as everything else does.

        Parameters
        ----------
        uid, resource_version : str, optional
            Preconditions.
        grace_period_seconds : int, optional
            For how long the object should stay, marked in the same way: until somebody deletes it with 0. A
            later deletion can only shorten it. Without one the object goes at once.

        Raises
        ------
        NotFoundError
        ConflictError
            A precondition is not met.
        """
        with self._lock:
            found = self._tables.find(kind, _key(name, namespace))
            deletion.check_preconditions(found, uid, resource_version)
            meta = deletion.marked(found.metadata, self._clock(), grace_period_seconds or 0)
            if deletion.is_awaited(meta):
                left = self._replace(found, replace(found, metadata=meta))
            else:
                left = self._tables.record("DELETED", found, found, {})
            self._changed.notify_all()
        return left

    def bind(self, pod: Pod, node: str) -> None:
        """Put a pod on a node, as the subresource ``pods/binding`` does (kube-apiserver v1.36).

        The pod gets the condition PodScheduled and loses its nomination; the node need not exist.

        Raises
        ------
        NotFoundError
        ConflictError
            The pod has another UID, is bound, gated or being deleted.
        InvalidObjectError
            No node is named.
        """
        with self._lock:
            self._bind(pod, node, self._now())
            self._changed.notify_all()

    def bind_many(self, pods: Iterable[Pod], nodes: Iterable[str]) -> None:
        """`bind` each pod to its node; if one fails, none is bound."""
        with self._all_or_nothing():
            now = self._now()
            for pod, node in zip(pods, nodes, strict=True):
                self._bind(pod, node, now)

    def _now(self) -> str:
        return timestamp(int(self._clock()))

    def _create(self, obj: T, now: str) -> T:
        struct = type(obj)
        table = self._tables[struct]
        meta = obj.metadata
        name, namespace = meta.name, meta.namespace
        if not name and meta.generate_name:
            candidates = generated_names(meta.generate_name, str(self._tables.version))
            name = next(one for one in candidates if _key(one, namespace) not in table.objects)
        if not name:
            raise invalid(struct, name, "metadata.name: Required value: name or generateName is required")
        if namespace and not table.namespaced:
            raise invalid(struct, name, "metadata.namespace: Forbidden: not allowed on this type")
        key = _key(name, namespace)
        if key in table.objects:
            raise already_exists(table.objects[key])
        uid = meta.uid or f"{self._uid_prefix}{self._tables.version + 1:012x}"
        created = meta.creation_timestamp or now
        set_meta = {"name": name, "uid": uid, "creation_timestamp": created}
        return self._tables.record("ADDED", obj, None, set_meta)

    def _update(self, obj: T) -> T:
        current = self._tables.find(type(obj), obj.key)
        meta, held = obj.metadata, current.metadata
        if meta.uid and meta.uid != held.uid:
            raise other_uid(obj, held.uid)
        if meta.resource_version and meta.resource_version != held.resource_version:
            raise stale(obj)
        deletion.check_update(obj, held)
        meta = replace(
            meta,
            uid=held.uid,
            resource_version=held.resource_version,
            creation_timestamp=held.creation_timestamp,
            deletion_timestamp=held.deletion_timestamp,
            deletion_grace_period_seconds=held.deletion_grace_period_seconds,
        )
        obj = replace(obj, metadata=meta)
        if deletion.is_finished(meta, held):
            gone = self._tables.record("DELETED", current, current, {})
            return with_version(obj, gone.metadata.resource_version)
        return self._replace(current, obj)

    def _replace(self, current: T, obj: T) -> T:
        """Store `obj` in the place of `current`, if that changes something."""
        return current if obj == current else self._tables.record("MODIFIED", obj, current, {})

    def _bind(self, pod: Pod, node: str, now: str) -> None:
        if not node:
            raise InvalidObjectError("target.name: Required value")
        current = self._tables.find(Pod, pod.key)
        parts = binding.bound_parts(pod, current, node, now)
        self._tables.record("MODIFIED", current, current, {}, **parts)

    # ---- coming back to an earlier state ----

    def save(self) -> Save:
        """Return a mark for `undo` or `release`. Marks nest; while one is open, no event is freed."""
        with self._lock:
            return self._tables.save()

    def undo(self, mark: Save) -> None:
        """Restore contents, resource version and history as they were at `mark`; closes it and those within.

        Events that a watch has not delivered yet vanish; those that it has are followed by their reverse.
        """
        with self._lock:
            self._tables.undo(mark)
            self._changed.notify_all()

    def release(self, mark: Save) -> None:
        """Close a mark, and those within, without going back."""
        with self._lock:
            self._tables.release(mark)

    def clone(self) -> ObjectStore:
        """Return an independent copy, without watches and open marks."""
        copy = ObjectStore(self._clock, history=self._history)
        with self._lock:
            copy._uid_prefix, copy._tables = self._uid_prefix, self._tables.copy()
        return copy

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        with self._lock:
            mark = self.save()
            try:
                yield
                self.release(mark)
            except BaseException:
                if self._tables.is_open(mark):
                    self.undo(mark)
                raise
            self._changed.notify_all()


def _key(name: str, namespace: str) -> str:
    return f"{namespace}/{name}" if namespace else name
