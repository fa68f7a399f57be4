"""ObjectStore: objects in memory, with the semantics of an API server that its clients rely on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from threading import Condition, RLock
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from moorage.objects.meta import Condition as ObjectCondition
from moorage.objects.meta import Object
from moorage.objects.pod import Pod

from .clock import epoch
from .errors import (
    BadRequestError,
    InvalidObjectError,
    ResourceExpiredError,
    already_exists,
    conflict,
    invalid,
    not_found,
    other_uid,
    stale,
)
from .kinds import is_namespaced, struct_of
from .protocol import EventType, ListResult, Selector, WatchEvent
from .selectors import Predicate, predicate
from .watch import History, Watch

T = TypeVar("T", bound=Object)


class Save:
    """A state of a store to come back to; see `ObjectStore.save`."""

    __slots__ = ("version",)

    def __init__(self, version: int) -> None:
        self.version = version


class _Table(Generic[T]):
    """The objects of one kind, by key, and what happened to them."""

    def __init__(self, struct: type[T], objects: dict[str, T], history: History[T]) -> None:
        self.objects = objects
        self.history = history
        self.namespaced = is_namespaced(struct)


class ObjectStore:
    """Objects by kind, with watches. Thread-safe; objects are shared, as they never change in place.

    As in the API server, one counter numbers all writes, an update with a stale resource version is a
    conflict, and an update that changes nothing writes nothing. Other than there, an object that comes with a
    UID or a creation time (from a dump) keeps it, a deletion takes effect at once (no grace period, no
    finalizers), and nothing is filled in or validated but the name.

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
        self._capacity = history
        self._version = 1
        self._tables: dict[type[Object], _Table[Any]] = {}
        self._saves: list[object] = []
        self._changed = Condition(RLock())

    # ---- reading ----

    def get(self, kind: type[T] | str, name: str, namespace: str = "") -> T:
        """Return one object.

        Raises
        ------
        NotFoundError
        """
        struct = struct_of(kind)
        with self._changed:
            return self._find(struct, f"{namespace}/{name}" if namespace else name)

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
        struct = struct_of(kind)
        match = predicate(struct, namespace, label_selector, field_selector)
        with self._changed:
            return self._list(struct, match)

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
        struct = struct_of(kind)
        match = predicate(struct, namespace, label_selector, field_selector)
        with self._changed:
            history: History[T] = self._table(struct).history
            if resource_version in ("", "0"):
                return Watch(self._changed, history, match, "0", lambda: self._list(struct, match))
            if not (resource_version.isascii() and resource_version.isdigit()):
                raise BadRequestError(f'resourceVersion: Invalid value: "{resource_version}"')
            if int(resource_version) > self._version:
                raise ResourceExpiredError(
                    f"Too large resource version: {resource_version}, current: {self._version}"
                )
            return Watch(self._changed, history, match, resource_version, None)

    def _list(self, struct: type[T], match: Predicate[T] | None) -> ListResult[T]:
        objects: dict[str, T] = self._table(struct).objects
        items = [objects[key] for key in sorted(objects)]
        return [obj for obj in items if match(obj)] if match else items, str(self._version)

    def _table(self, struct: type[T]) -> _Table[T]:
        table = self._tables.get(struct)
        if table is None:
            table = self._tables[struct] = _Table(struct, {}, History(self._capacity, self._saves))
        return table

    def _find(self, struct: type[T], key: str) -> T:
        found: T | None = self._table(struct).objects.get(key)
        if found is None:
            raise not_found(struct, key.rpartition("/")[2])
        return found

    # ---- writing ----

    def create(self, obj: T) -> T:
        """Store a new object; returns it as stored. A resource version that it brings along is replaced.

        Raises
        ------
        AlreadyExistsError
        InvalidObjectError
            It has no name, or a namespace where its kind has none.
        """
        with self._changed:
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

        Raises
        ------
        NotFoundError
        ConflictError
            It has a resource version or a UID, and the stored object has another one.
        """
        with self._changed:
            stored = self._update(obj)
            self._changed.notify_all()
        return stored

    def delete(self, kind: type[T] | str, name: str, namespace: str = "") -> T:
        """Remove an object; returns its last state, with the resource version of the deletion.

        Raises
        ------
        NotFoundError
        """
        struct = struct_of(kind)
        key = f"{namespace}/{name}" if namespace else name
        with self._changed:
            found = self._find(struct, key)
            deleted = self._record("DELETED", self._table(struct), key, found, found)
            self._changed.notify_all()
        return deleted

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
        with self._changed:
            self._bind(pod, node, self._now())
            self._changed.notify_all()

    def bind_many(self, pods: Iterable[Pod], nodes: Iterable[str]) -> None:
        """`bind` each pod to its node; if one fails, none is bound."""
        with self._all_or_nothing():
            now = self._now()
            for pod, node in zip(pods, nodes, strict=True):
                self._bind(pod, node, now)

    def _now(self) -> str:
        return _timestamp(int(self._clock()))

    def _record(
        self, event: EventType, table: _Table[T], key: str, obj: T, previous: T | None, **meta: str
    ) -> T:
        """Every write ends here: number it, do it, remember it."""
        self._version += 1
        version = str(self._version)
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=version, **meta))
        if event == "DELETED":
            del table.objects[key]
        else:
            table.objects[key] = obj
        table.history.append(WatchEvent(event, obj, version, previous))
        return obj

    def _create(self, obj: T, now: str) -> T:
        struct = type(obj)
        table: _Table[T] = self._tables.get(struct) or self._table(struct)
        meta = obj.metadata
        name, namespace = meta.name, meta.namespace
        if not name or (namespace and not table.namespaced):
            raise invalid(struct, meta)
        key = f"{namespace}/{name}" if namespace else name
        if key in table.objects:
            raise already_exists(struct, name)
        uid = meta.uid or f"{self._uid_prefix}{self._version + 1:012x}"
        created = meta.creation_timestamp or now
        return self._record("ADDED", table, key, obj, None, uid=uid, creation_timestamp=created)

    def _update(self, obj: T) -> T:
        struct, key, meta = type(obj), obj.key, obj.metadata
        current = self._find(struct, key)
        held = current.metadata
        if meta.uid and meta.uid != held.uid:
            raise other_uid(obj, held.uid)
        if meta.resource_version and meta.resource_version != held.resource_version:
            raise stale(obj)
        obj = replace(
            obj,
            metadata=replace(
                meta,
                uid=held.uid,
                resource_version=held.resource_version,
                creation_timestamp=held.creation_timestamp,
            ),
        )
        if obj == current:
            return current
        return self._record("MODIFIED", self._table(struct), key, obj, current)

    def _bind(self, pod: Pod, node: str, now: str) -> None:
        if not node:
            raise InvalidObjectError("target.name: Required value")
        key, uid = pod.key, pod.metadata.uid
        current = self._find(Pod, key)
        meta, spec, status = current.metadata, current.spec, current.status
        if uid and uid != meta.uid:
            raise other_uid(pod, meta.uid)
        wrong = ""
        if meta.deletion_timestamp is not None:
            wrong = f"pod {meta.name} is being deleted, cannot be assigned to a host"
        elif spec.node_name:
            wrong = f'pod {meta.name} is already assigned to node "{spec.node_name}"'
        elif spec.scheduling_gates:
            wrong = f"pod {meta.name} has non-empty .spec.schedulingGates"
        if wrong:
            raise conflict("pods/binding", meta.name, wrong)
        bound = replace(
            current,
            spec=replace(spec, node_name=node),
            status=replace(
                status, nominated_node_name="", conditions=_with_pod_scheduled(status.conditions, now)
            ),
        )
        self._record("MODIFIED", self._table(Pod), key, bound, current)

    # ---- coming back to an earlier state ----

    def save(self) -> Save:
        """Return a mark for `undo` or `release`. Marks nest; while one is open, no event is freed."""
        with self._changed:
            mark = Save(self._version)
            self._saves.append(mark)
        return mark

    def undo(self, mark: Save) -> None:
        """Restore contents, resource version and history as they were at `mark`; closes it and those within.

        Events that a watch has not delivered yet vanish; those that it has are followed by their reverse.
        """
        with self._changed:
            self.release(mark)
            for table in self._tables.values():
                for event in table.history.undo(mark.version):
                    if event.previous is None:
                        del table.objects[event.object.key]
                    else:
                        table.objects[event.object.key] = event.previous
            self._version = mark.version
            self._changed.notify_all()

    def release(self, mark: Save) -> None:
        """Close a mark, and those within, without going back."""
        with self._changed:
            del self._saves[self._saves.index(mark) :]

    def clone(self) -> ObjectStore:
        """Return an independent copy, without watches and open marks."""
        copy = ObjectStore(self._clock, history=self._capacity)
        with self._changed:
            copy._uid_prefix, copy._version = self._uid_prefix, self._version
            for struct, table in self._tables.items():
                copy._tables[struct] = _Table(struct, table.objects.copy(), table.history.copy(copy._saves))
        return copy

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        with self._changed:
            mark = self.save()
            try:
                yield
            except BaseException:
                self.undo(mark)
                raise
            self.release(mark)
            self._changed.notify_all()


@lru_cache(16)
def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_pod_scheduled(conditions: tuple[ObjectCondition, ...], now: str) -> tuple[ObjectCondition, ...]:
    """The conditions with PodScheduled true; where it was true before, the time of transition stays."""
    for place, condition in enumerate(conditions):
        if condition.type == "PodScheduled":
            time = condition.last_transition_time if condition.status == "True" else now
            scheduled = ObjectCondition(type="PodScheduled", status="True", last_transition_time=time)
            return (*conditions[:place], scheduled, *conditions[place + 1 :])
    return (*conditions, ObjectCondition(type="PodScheduled", status="True", last_transition_time=now))
