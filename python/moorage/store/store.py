"""ObjectStore: objects in memory, with the semantics of an API server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, overload

from fastrlock.rlock import FastRLock
from msgspec.structs import force_setattr, replace

from moorage import forked_owners
from moorage import store as room
from moorage._core.base.bracket import Bracket
from moorage._core.base.watch_events import Cause, keys_of
from moorage.kube import Object, Pod
from moorage.kube.go_texts import epoch, timestamp
from moorage.kube.model.meta import Condition, with_condition
from moorage.kube.model.workload import PriorityClass
from moorage.kube.releases import DEFAULT_GATES
from moorage.kube.workloads.ownership import Names, generated_names
from moorage.short_repr import ShortRepr

from .errors import (
    BadRequestError,
    ResourceExpiredError,
    already_exists,
    check_current,
    invalid,
    other_uid,
)
from .pod_binding import why_unreadable
from .protocol import ListResult, Patch, PatchType, Selector, WatchEvent
from .tables import FIRST_VERSION, ObjectTable, Save, Tables
from .watch import Changed, Followed, Watch, with_version

if TYPE_CHECKING:
    from moorage.kube.read.python_values import Source

    from .selectors import Predicate


T = TypeVar("T", bound=Object)
_OBJECTS, _KIND = attrgetter("objects"), attrgetter("struct.__name__")


class Server(Protocol):
    """What is asked before something is written that no caller has judged: the policies of an API server.

    Attributes
    ----------
    decides : bool
        Whether it has any that look at bindings and deletions.
    """

    @property
    def decides(self) -> bool: ...

    def admit_bindings(self, pods: Sequence[Pod], nodes: Sequence[str]) -> None:
        """Ask whether pods may be bound to nodes; a ServerError says that one may not."""

    def admit_victims(self, pods: Sequence[Pod | WatchEvent[Pod]]) -> None:
        """Ask whether the scheduler may delete pods; a ServerError says that it may not delete one."""

    def admit_of_scheduler(self, objects: Sequence[T]) -> list[T]:
        """Return objects as they are stored if the scheduler creates them, or raise a ServerError."""

    def copy_to(self, store: ObjectStore) -> Server:
        """Return the same for a copy of the store."""


class ObjectStore(ShortRepr):
    """Objects by kind, with watches. Thread-safe. Objects are immutable, so readers share them.

    As in the API server, one counter numbers all writes, an update with a stale resource version is a
    conflict, and an update that changes nothing writes nothing. The store differs from it in four points. An
    object that has a UID, a creation time or a deletion time (as in a dump) keeps it. Pods are deleted
    without a grace period unless the request has one, since no kubelet ends them, and by one write, while an
    API server marks them first. No field is defaulted. The name alone is validated.

    Parameters
    ----------
    clock : callable
        Returns seconds since 1970, for creation, deletion and transition times. The default is always 0.
    seed : int
        Generated UIDs follow from it and from the order of writes.
    history : int
        The number of events of each kind that can be watched back; by default as in kube-apiserver v1.36.

    Raises
    ------
    ValueError
        `history` is less than 1.

    Attributes
    ----------
    server : Server or None
        What a scheduler over the store gives it; a store alone has none.
    metrics : sequence of Object
        What pods and nodes used when the cluster was read (`Cluster.metrics`).
    undated : set of str
        The UIDs of nodes of a cluster whose creation time is not known: they have that of its beginning.
    policies_not_asked : dict of str to str
        Admission policies of which the input does not tell enough, with what is lacking.
    denied : dict of str to str
        By ``Kind namespace/name``, who could not delete pods or gets no claims, with the server's text.
    served_gates : FeatureGates
        Those of the API server, with its release, for admission.
    names : Names or None
        While a cluster is completed: gives what has a `generateName` a name that does not depend on how many
        objects there are.
    """

    shows = "{0.changes} writes"

    def __init__(
        self, clock: Callable[[], float] = epoch, *, seed: int = 0, history: int = 100 * 1024
    ) -> None:
        if history < 1:
            raise ValueError("history must be at least 1")
        self._clock = clock
        self._uid_prefix = _uid_prefix(seed)
        self._history = history
        self._tables = Tables(history)
        self._lock = FastRLock()
        forked_owners.watch(self, self._lock)
        self._changed = Changed(self._lock)
        self.server: Server | None = None
        self.metrics: Sequence[Object] = ()
        self.undated = frozenset[str]()
        self.names: Names | None = None
        self.served_gates = DEFAULT_GATES
        self.policies_not_asked: dict[str, str] = {}
        self.denied: dict[str, str] = {}

    def now(self) -> float:
        """Return the time of the store's clock, in seconds since 1970."""
        return self._clock()

    @property
    def changes(self) -> int:
        """The number of writes and of calls of `undo` so far; equal numbers mean equal contents."""
        return self._tables.changes

    @property
    def is_unwritten(self) -> bool:
        """Whether nothing was ever written."""
        return self._tables.version == FIRST_VERSION

    def changed_since(self, changes: int) -> list[type[Object]]:
        """Return the kinds that were written after `changes` had a value.

        Parameters
        ----------
        changes : int
            An earlier value of `changes`.
        """
        with self._lock:
            return self._tables.changed_since(changes)

    # ---- reading ----

    def has(self, kinds: Iterable[type[Object]]) -> bool:
        """Return whether there is an object of any of these kinds."""
        with self._lock:
            return any(map(_OBJECTS, filter(None, map(self._tables.written, kinds))))

    def has_kind(self, name: str) -> bool:
        """Return whether there is an object of the kind of a name, which nobody may have imported."""
        with self._lock:
            return name in map(_KIND, filter(_OBJECTS, self._tables.every()))

    def get(self, kind: type[T] | str, name: str, namespace: str = "") -> T:
        """Return one object; see `ObjectClient.get`."""
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
        """List the objects of a kind; see `ObjectClient.list`."""
        with self._lock:
            table = self._tables[kind]
            is_whole = label_selector == field_selector == "" and not (namespace and table.objects)
            match = (
                None
                if is_whole
                else room.selectors.predicate(table.struct, namespace, label_selector, field_selector)
            )
            objects = table.select(match, namespace) if table.objects else []
            return objects, str(self._tables.version)

    def watch(
        self,
        kind: type[T] | str,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: Selector = "",
        field_selector: str = "",
    ) -> Watch[T]:
        """Watch the objects of a kind.

        With selectors, an object that begins to match is ADDED, and one that ceases to match is DELETED.

        Parameters
        ----------
        kind, namespace, label_selector, field_selector
            As for `list`.
        resource_version : str
            The watch begins with the first event after it. With "" or "0" it begins with the objects, as
            ADDED.

        Raises
        ------
        ResourceExpiredError
            The history does not reach back to that version, or the version was undone.
        BadRequestError
            As for `list`, or the version is no number.
        """
        with self._lock:
            table, match = self._chosen(kind, namespace, label_selector, field_selector)
            if resource_version in ("", "0"):
                return Watch(
                    self._changed, table, match, "0", lambda: (table.select(match), str(self._tables.version))
                )
            if not (resource_version.isascii() and resource_version.isdigit()):
                raise BadRequestError(f'resourceVersion: Invalid value: "{resource_version}"')
            if int(resource_version) > self._tables.version:
                raise ResourceExpiredError(
                    f"Too large resource version: {resource_version}, current: {self._tables.version}"
                )
            return Watch(self._changed, table, match, resource_version, None)

    def follow(
        self,
        kind: type[T] | str,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: Selector = "",
        field_selector: str = "",
    ) -> Followed[T]:
        """Follow the objects of a kind, which are chosen as by `list`; see `Watcher`.

        Parameters
        ----------
        resource_version : str, optional
            At which the caller knows the objects already.
        """
        selectors: Any = {"label_selector": label_selector, "field_selector": field_selector}
        with self._lock:
            table, match = self._chosen(kind, namespace, label_selector, field_selector)
            lists = partial(self.list, table.struct, namespace, **selectors)
            return Followed(self._changed, table, match, resource_version, lists)

    def _chosen(
        self, kind: type[T] | str, namespace: str, label_selector: Selector, field_selector: str
    ) -> tuple[ObjectTable[T], Predicate[T] | None]:
        """Return the table of a kind, and what chooses its objects; None for all."""
        table = self._tables[kind]
        if label_selector == namespace == field_selector == "":
            return table, None
        return table, room.selectors.predicate(table.struct, namespace, label_selector, field_selector)

    # ---- writing ----

    @overload
    def create(self, obj: T) -> T: ...

    @overload
    def create(self, obj: Source) -> Object: ...

    def create(self, obj: Object | Source) -> Object:
        """Store a new object; see `ObjectClient.create`.

        Its defaults come with the priority classes of the store, the suffix of a generated name from the
        store's resource version. A pod or node that has something else where a quantity belongs is invalid.
        """
        with self._lock:
            new = obj if isinstance(obj, Object) else self._completed(obj)
            (stored,) = self._create(new, self._now())
            self._changed.notify_all()
        return stored

    def create_equal(self, obj: T, count: int) -> Sequence[T]:
        """Store new objects that differ in the names alone that they get of `generateName`; see `create`."""
        with self._lock:
            stored = self._create(obj, self._now(), count)
            self._changed.notify_all()
        return stored

    def _completed(self, source: Source) -> Object:
        """Return the object of a source with defaults; of its own it has no UID, and no generated name."""
        from moorage.kube.read.load import read_one, with_defaults  # a store of objects reads nothing

        written, text = read_one(source)
        obj = with_defaults(written, text, self.list(PriorityClass)[0])
        meta = replace(obj.metadata, uid=written.metadata.uid, name=written.metadata.name)
        return replace(obj, metadata=meta)

    def create_many(self, objects: Iterable[T]) -> None:
        """Store new objects, one after the other; if one fails, none is stored.

        Unlike `create` this does not read quantities, as `load` has checked those of objects that it read;
        a scheduler names the object that it cannot read.

        Raises
        ------
        AlreadyExistsError, InvalidObjectError
            As for `create`.
        """
        objects, seed = [*objects], 0
        with self.all_or_nothing():
            given = {obj.metadata.uid[: len(self._uid_prefix)] for obj in objects}
            while self._uid_prefix in given:
                seed += 1  # another store has made them: new objects get other UIDs
                self._uid_prefix = _uid_prefix(seed)
            now = self._now()
            for _, group in groupby(objects, type):
                new = list(group)
                stored = self._tables.create(new, self._uid_prefix, now)
                for obj in new[stored:]:  # from the first without a name, or that cannot be stored
                    self._create(obj, now)

    def names_of_new(self, objects: Sequence[Object], keeps: bool = True) -> tuple[str, ...]:
        """Return the names that objects get if they are created next, one after the other.

        Parameters
        ----------
        objects : sequence of Object
            Of one kind, with a name or `generateName`.
        keeps : bool, optional
            Whether objects keep names that they have.
        """
        if not objects:
            return ()
        names: list[str] = []
        taken: set[str] = set()
        with self._lock:
            held = self._tables[type(objects[0])].objects
            for at, obj in enumerate(objects, self._tables.version):
                meta = obj.metadata
                name = meta.name if keeps else ""
                key = _key(name, meta.namespace)
                if not name:
                    for name in self._candidates(obj, str(at)):
                        key = _key(name, meta.namespace)
                        if key in held or key in taken:
                            continue
                        if self.names is None or self.names.take(obj.kind, obj.namespace, name):
                            break
                taken.add(key)
                names.append(name)
        return tuple(names)

    def _candidates(self, obj: Object, seed: str) -> Iterator[str]:
        """Return the names that an object may get."""
        if self.names is not None:
            return self.names.candidates(obj.kind, obj.namespace, obj.metadata.generate_name)
        return generated_names(obj.metadata.generate_name, seed)

    def update(self, obj: T) -> T:
        """Replace an object; see `ObjectClient.update`.

        An object that sets a deletion time itself is invalid, and so is a pod or node that has something else
        where a quantity belongs.
        """
        with self._lock:
            stored = self._update(obj)
            self._changed.notify_all()
        return stored

    def update_many(self, objects: Iterable[T]) -> None:
        """Replace objects, one after the other, as `update` does; if one fails, none is replaced.

        Raises
        ------
        NotFoundError, ConflictError, InvalidObjectError
            As for `update`.
        """
        given = list(objects)
        with self._lock:
            if len(set(map(type, given))) == 1 and self._tables.update(given):  # all are merely replaced
                self._changed.notify_all()
                return
        with self.all_or_nothing():
            for obj in given:
                self._update(obj)

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
        """Change parts of an object, as `update` would; see `ObjectClient.patch`."""
        with self._lock:
            current = self._tables.find(kind, _key(name, namespace))
            stored = self._update(room.patch.apply_patch(current, patch, type, subresource))
            self._changed.notify_all()
        return stored

    def patch_pod_status(
        self, pod: Pod, nominated_node_name: str | None, conditions: Sequence[Condition]
    ) -> Pod:
        """Apply a strategic merge patch of a pod's nomination and conditions, without encoding it as JSON.

        Parameters
        ----------
        pod : Pod
            Its name, namespace and UID count.
        nominated_node_name : str or None
            None leaves the nomination as it is.
        conditions : sequence of Condition
            Each replaces the condition of its type, or is appended.

        Returns
        -------
        Pod
            As stored.

        Raises
        ------
        NotFoundError
            The pod does not exist.
        ConflictError
            The pod has another UID.
        """
        with self._lock:
            current = self._tables.find(Pod, pod.key)
            if pod.metadata.uid not in ("", current.metadata.uid):
                raise other_uid(pod, current.metadata.uid)
            status, merged = current.status, list(current.status.conditions)
            for new in conditions:
                at = next(
                    (at for at, condition in enumerate(merged) if condition.type == new.type), len(merged)
                )
                merged[at : at + 1] = [new]
            node = status.nominated_node_name if nominated_node_name is None else nominated_node_name
            status = replace(status, nominated_node_name=node, conditions=tuple(merged))
            if status == current.status:
                return current
            stored = self._tables.record("MODIFIED", current, current, {}, Cause.NOMINATED, status=status)
            if current.interned is not None and not conditions:  # the class does not depend on a nomination
                force_setattr(stored, "interned", current.interned)
            self._changed.notify_all()
        return stored

    def set_condition(self, objects: Sequence[T], condition: Condition, stays: str = "") -> Sequence[bool]:
        """Set a condition of several objects, where that changes it, as one write.

        Parameters
        ----------
        objects : sequence of Object
            Of one kind, no two of one name. The name and namespace of each count.
        condition : Condition
            Replaces the condition of its type, or is appended. It keeps its transition time if its status
            stays.
        stays : str, optional
            The status with which a condition of its type stays as it is; "" for none.

        Returns
        -------
        sequence of bool
            False for an object that does not exist.
        """
        with self._lock:
            changed = (
                self._tables.set_condition(objects, condition, _with_condition, stays) if objects else []
            )
            self._changed.notify_all()
        return changed

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
        """Remove an object; see `ObjectClient.delete`.

        An object with finalizers stays, marked by a deletion time, until an update removes the last
        finalizer; a second deletion changes nothing. A pod is removed at once, like any other object.

        Parameters
        ----------
        grace_period_seconds : int, optional
            A pod that has a node and has not ended stays, marked by a deletion time, until it is deleted
            again with 0. A later deletion can only shorten the period. Anything else is removed at once.
        """
        with self._lock:
            current = self._tables.find(kind, _key(name, namespace))
            room.deletion.check_preconditions(current, uid, resource_version)
            deleted = self._delete(current, room.deletion.grace_period(current, grace_period_seconds))
            self._changed.notify_all()
        return deleted

    def evict(self, pods: Sequence[Pod | WatchEvent[Pod]], condition: Condition) -> Sequence[bool]:
        """Add a condition to pods and delete them, as one write, in the way in which a scheduler evicts
        victims.

        Parameters
        ----------
        pods : sequence of (Pod or WatchEvent)
            Each pod or the event that makes it, of which the name, namespace and UID count.
        condition : Condition
            Replaces the condition of its type, or is appended.

        Returns
        -------
        sequence of bool
            False for a pod that does not exist.

        Raises
        ------
        ServerError
            The API server refuses one of the deletions; none is made.
        """
        with self._lock:
            if self.server is not None:
                self.server.admit_victims(pods)
            evicted = self._tables.evict(pods, condition, _with_condition, _last_state)
            while len(evicted) < len(pods):
                evicted.append(self._evict_one(pods[len(evicted)], condition))
                evicted += self._tables.evict(pods[len(evicted) :], condition, _with_condition, _last_state)
            self._changed.notify_all()
        return evicted

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod to a node; see `ObjectClient.bind`.

        The pod gets the condition PodScheduled and loses its nomination (kube-apiserver v1.36). The node need
        not exist.
        """
        self.bind_many([pod], [node])

    def bind_many(self, pods: Sequence[Pod], nodes: Sequence[str], keys: Sequence[str] | None = None) -> None:
        """Bind each pod to its node; if one binding fails, no pod is bound.

        Parameters
        ----------
        nodes : sequence of str
            The name of each pod's node.
        keys : sequence of str, optional
            ``namespace/name`` of each pod, of a caller that has them.

        Raises
        ------
        NotFoundError, ConflictError, InvalidObjectError, ServerError
            As for `bind`.
        """
        with self._lock:
            if self.server is not None:
                self.server.admit_bindings(pods, nodes)
            self._tables.bind(pods, nodes, keys_of(pods) if keys is None else keys, self._now())
            self._changed.notify_all()

    def had_placed_pods(self) -> bool:
        """Whether a pod of the store is on a node, or was."""
        with self._lock:
            removed = self._tables[Pod].removed()
            return any(pod.spec.node_name for pod in chain(self.list(Pod)[0], removed))

    def _now(self) -> str:
        """Return the time of the clock in the format of object fields."""
        return timestamp(int(self.now()))

    def _create(self, obj: T, now: str, count: int = 1) -> Sequence[T]:
        """Store new objects; see `create_equal`."""
        struct = type(obj)
        table = self._tables[struct]
        meta = obj.metadata
        name, namespace = meta.name, meta.namespace
        names = (name,) if name or not meta.generate_name else self.names_of_new([obj] * count)
        if not names[0]:
            raise invalid(struct, name, "metadata.name: Required value: name or generateName is required")
        if namespace and not table.namespaced:
            namespace, meta = "", replace(meta, namespace="")
        keys = [_key(each, namespace) for each in names]
        for key in keys:
            if key in table.objects:
                raise already_exists(table.objects[key])
        if why := why_unreadable(obj):
            raise invalid(struct, names[0], why)
        new = [obj]
        if not name or meta is not obj.metadata:
            new = [replace(obj, metadata=replace(meta, name=each)) for each in names]
        self._tables.create(new, self._uid_prefix, now)
        return [table.objects[key] for key in keys]

    def _update(self, obj: T) -> T:
        """Replace an object; see `update`."""
        current = self._tables.find(type(obj), obj.key)
        meta, old = obj.metadata, current.metadata
        check_current(obj, current)
        room.deletion.check_update(obj, old)
        if why := why_unreadable(obj):
            raise invalid(type(obj), obj.name, why)
        meta = replace(
            meta,
            uid=old.uid,
            resource_version=old.resource_version,
            creation_timestamp=old.creation_timestamp,
            deletion_timestamp=old.deletion_timestamp,
            deletion_grace_period_seconds=old.deletion_grace_period_seconds,
        )
        obj = replace(obj, metadata=meta)
        if room.deletion.is_finished(meta, old):
            deleted = self._tables.record("DELETED", current, current, {})
            return with_version(obj, deleted.metadata.resource_version)
        return self._replace(current, obj)

    def _delete(self, current: T, grace: int) -> T:
        """Remove an object, or mark it where finalizers or a grace period delay that."""
        if grace or current.metadata.finalizers:
            meta = room.deletion.marked(current.metadata, self._clock(), grace)
            if room.deletion.is_awaited(meta):
                return self._replace(current, replace(current, metadata=meta))
        return self._tables.record("DELETED", current, current, {})

    def _evict_one(self, held: Pod | WatchEvent[Pod], condition: Condition) -> bool:
        """Evict a pod that may have finalizers; return whether it existed."""
        pod = held.identity if isinstance(held, WatchEvent) else held
        current = self._tables[Pod].objects.get(pod.key)
        if current is None or current.metadata.uid != pod.metadata.uid:
            return False
        conditions = with_condition(current.status.conditions, condition)
        changed = replace(current, status=replace(current.status, conditions=conditions))
        self._delete(self._replace(current, changed), 0)
        return True

    def _replace(self, current: T, obj: T) -> T:
        """Replace `current` by `obj`, if that changes something."""
        return current if obj == current else self._tables.record("MODIFIED", obj, current, {})

    # ---- saving and restoring ----

    def save(self) -> Save:
        """Return a mark of the present state, for `undo` or `release`.

        Marks nest. While one is open, no event is freed.
        """
        with self._lock:
            mark = self._tables.save()
            mark.denied, mark.uid_prefix = self.denied.copy(), self._uid_prefix
            return mark

    def undo(self, mark: Save) -> None:
        """Restore contents, resource version and history as they were at a mark.

        A watch loses the events that it has not delivered yet; those that it has delivered are followed by
        their reverse.

        Parameters
        ----------
        mark : Save
            It is closed, and so are the marks that were made after it.

        Raises
        ------
        MoorageError
            The mark is closed, or is of another store; nothing is restored then.
        """
        with self._lock:
            self._changed.notify_all()
            self._tables.undo(mark)
            self.denied, self._uid_prefix = mark.denied, mark.uid_prefix

    def release(self, mark: Save) -> None:
        """Close a mark without restoring anything.

        Parameters
        ----------
        mark : Save
            Later marks are closed, too.

        Raises
        ------
        MoorageError
            The mark is closed, or is of another store.
        """
        with self._lock:
            self._tables.release(mark)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an ObjectStore cannot be pickled: send its objects, as list() returns them")

    def clone(self, clock: Callable[[], float] | None = None) -> ObjectStore:
        """Return an independent copy of the store, without watches and open marks.

        Parameters
        ----------
        clock : callable, optional
            The clock of the copy; that of this store by default.
        """
        copy = ObjectStore(clock or self._clock, history=self._history)
        copy.metrics, copy.undated = self.metrics, self.undated
        if self.server is not None:
            copy.server = self.server.copy_to(copy)
        copy.served_gates = self.served_gates
        copy.policies_not_asked, copy.denied = self.policies_not_asked, self.denied.copy()
        with self._lock:
            copy._uid_prefix, copy._tables = self._uid_prefix, self._tables.copy()
        return copy

    def is_open(self, mark: Save) -> bool:
        """Whether a mark was neither undone nor released."""
        with self._lock:
            return self._tables.is_open(mark)

    def all_or_nothing(self) -> Bracket[None]:
        """Hold the lock, and undo the writes of the block if an exception ends it."""
        return Bracket(self._lock, _Writes(self))


class _Writes:
    """The writes of a block, all of which are undone if it fails."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._mark: Save | None = None

    def begin(self) -> None:
        """Mark the state before the block."""
        self._mark = self._store.save()

    def end(self, failed: bool) -> None:
        """Keep the writes, or undo them. That can be repeated."""
        if self._mark is not None and self._store.is_open(self._mark):
            self._store._changed.notify_all()
            (self._store.undo if failed else self._store.release)(self._mark)


def _with_condition(obj: Any, version: str, condition: Condition) -> Any:
    """Return an object with a condition and a resource version."""
    status = replace(obj.status, conditions=with_condition(obj.status.conditions, condition))
    return replace(obj, metadata=replace(obj.metadata, resource_version=version), status=status)


def _last_state(pod: Pod, version: str, _: object) -> Pod:
    """Return the last state of a pod, with the resource version of its deletion."""
    return with_version(pod, version)


def _key(name: str, namespace: str) -> str:
    """Return the key of an object."""
    return f"{namespace}/{name}" if namespace else name


def _uid_prefix(seed: int) -> str:
    digest = hashlib.sha1(str(seed).encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-"
