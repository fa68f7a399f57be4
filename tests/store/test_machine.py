"""A store, its watches and its informers against dictionaries, under every order of requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests import make
from tests.store.informers.handlers import Replica
from tests.store.observe import KINDS, observe

from moorage.kube import Node, Object, Pod
from moorage.store import (
    AlreadyExistsError,
    ConflictError,
    Informer,
    InvalidObjectError,
    NotFoundError,
    ObjectStore,
    ResourceExpiredError,
)

NAMES = st.sampled_from(["x/a", "x/b", "y/a"])
LABELS = st.sampled_from([{}, {"l": "1"}, {"l": "2"}, {"m": ""}])
FINALIZERS = st.sampled_from([(), ("f/a",), ("f/b", "f/a"), ("f/c",)])
SELECTIONS: list[dict[str, str]] = [
    {},
    {"label_selector": "l"},
    {"label_selector": "l!=2", "field_selector": "spec.nodeName="},
    {"namespace": "y"},
]


def pod(key: str, labels: dict[str, str]) -> Pod:
    return make.pod(key, labels=labels, metadata={"uid": ""})


def with_meta(obj: Any, **changes: Any) -> Any:
    return replace(obj, metadata=replace(obj.metadata, **changes))


def is_kept(obj: Any) -> bool:
    """Whether an object that is being deleted has to stay."""
    return bool(obj.metadata.finalizers or obj.metadata.deletion_grace_period_seconds)


def merged_strategically(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the patch in its order; one that it does not name goes before those that followed it."""
    kept, patched, merged = [each for each in old if each not in new], [*new], list[str]()
    while kept and patched:
        is_before = patched[0] in old and old.index(kept[0]) < old.index(patched[0])
        merged.append((kept if is_before else patched).pop(0))
    return (*merged, *kept, *patched)


class Reader:
    """Reads a watch as a client has to, and keeps what it learns."""

    def __init__(self, store: ObjectStore, selection: dict[str, str]) -> None:
        self.store = store
        self.selection = selection
        self.begin()

    def begin(self) -> None:
        objects, version = self.store.list(Pod, **self.selection)
        self.objects = {obj.key: obj for obj in objects}
        self.watch = self.store.watch(Pod, resource_version=version, **self.selection)

    def take(self, events: list[Any]) -> None:
        for event in events:
            key = event.object.key
            assert (event.type != "ADDED") == (key in self.objects)
            if event.type == "DELETED":
                del self.objects[key]
            else:
                self.objects[key] = event.object

    def read(self) -> None:
        try:
            self.take(self.watch.poll())
        except ResourceExpiredError:
            self.begin()


class StoreMachine(RuleBasedStateMachine):
    @initialize(history=st.sampled_from([1, 3, 1000]))
    def begin(self, history: int) -> None:
        self.store = ObjectStore(history=history)
        self.twin: dict[tuple[type[Object], str], Object] = {}
        self.version = 1
        self.marks: list[tuple[Any, Any, dict[tuple[type[Object], str], Object]]] = []
        self.clones: list[tuple[ObjectStore, Any]] = []
        self.readers = [Reader(self.store, selection) for selection in SELECTIONS]
        self.informers: list[tuple[Informer[Pod], Replica, dict[str, str]]] = []
        for selection in SELECTIONS:
            informer: Informer[Pod] = Informer(self.store, Pod, **selection)
            informer.add_event_handler(replica := Replica())
            self.informers.append((informer, replica, selection))

    def expect(self, obj: Object, stored: Object) -> None:
        """`stored` is `obj` with what the server gives."""
        self.version += 1
        meta = replace(
            obj.metadata,
            uid=stored.metadata.uid,
            creation_timestamp="1970-01-01T00:00:00Z",
            resource_version=str(self.version),
        )
        assert stored == replace(obj, metadata=meta)
        self.twin[type(obj), obj.key] = stored

    @rule(key=NAMES, labels=LABELS, finalizers=FINALIZERS)
    def create(self, key: str, labels: dict[str, str], finalizers: tuple[str, ...]) -> None:
        obj = with_meta(pod(key, labels), finalizers=finalizers)
        try:
            stored = self.store.create(obj)
        except AlreadyExistsError:
            assert (Pod, key) in self.twin
        else:
            assert (Pod, key) not in self.twin
            self.expect(obj, stored)

    @rule(keys=st.lists(NAMES, max_size=3), labels=LABELS)
    def create_many(self, keys: list[str], labels: dict[str, str]) -> None:
        fits = len(set(keys)) == len(keys) and not any((Pod, key) in self.twin for key in keys)
        try:
            self.store.create_many([pod(key, labels) for key in keys])
        except AlreadyExistsError:
            assert not fits
        else:
            assert fits
            for key in keys:
                namespace, _, name = key.partition("/")
                self.expect(pod(key, labels), self.store.get(Pod, name, namespace))

    @rule(name=st.sampled_from("nm"))
    def node(self, name: str) -> None:
        if (Node, name) in self.twin:
            self.store.delete(Node, name)
            del self.twin[Node, name]
            self.version += 1
        else:
            obj = make.node(name)
            self.expect(obj, self.store.create(obj))

    @rule(namespace=st.sampled_from("xy"), labels=LABELS)
    def generate(self, namespace: str, labels: dict[str, str]) -> None:
        obj = with_meta(pod(f"{namespace}/", labels), generate_name="a-")
        stored = self.store.create(obj)
        assert (Pod, stored.key) not in self.twin
        assert len(stored.name) == len("a-xxxxx")
        self.expect(with_meta(obj, name=stored.name), stored)

    def settle(self, held: Any, wanted: Any, stored: Any) -> None:
        """A write was to make `wanted` of `held`."""
        if wanted.metadata.deletion_timestamp and held.metadata.finalizers and not is_kept(wanted):
            self.remove(wanted, stored)
        elif wanted == held:
            assert stored == held
        else:
            self.expect(wanted, stored)

    def remove(self, last: Any, stored: Any) -> None:
        del self.twin[type(last), last.key]
        self.version += 1
        assert stored == with_meta(last, resource_version=str(self.version))

    def allowed(self, held: Any, finalizers: tuple[str, ...]) -> bool:
        return not held.metadata.deletion_timestamp or {*finalizers} <= {*held.metadata.finalizers}

    @rule(key=NAMES, labels=LABELS, finalizers=st.none() | FINALIZERS, stale=st.booleans())
    def update(
        self, key: str, labels: dict[str, str], finalizers: tuple[str, ...] | None, stale: bool
    ) -> None:
        held: Any = self.twin.get((Pod, key))
        obj = pod(key, labels) if held is None else with_meta(held, labels=labels)
        if finalizers is not None:
            obj = with_meta(obj, finalizers=finalizers)
        try:
            # What says that an object is being deleted need not be sent again.
            sent = with_meta(obj, deletion_timestamp=None, deletion_grace_period_seconds=None)
            stored = self.store.update(with_meta(sent, resource_version="1") if stale else sent)
        except NotFoundError:
            assert held is None
        except ConflictError:
            assert stale
        except InvalidObjectError:
            assert not self.allowed(held, obj.metadata.finalizers)
        else:
            assert held is not None
            assert not stale
            assert self.allowed(held, obj.metadata.finalizers)
            self.settle(held, obj, stored)

    @rule(keys=st.lists(NAMES, max_size=3), labels=LABELS, stale=st.booleans())
    def update_many(self, keys: list[str], labels: dict[str, str], stale: bool) -> None:
        one, before = self.store.clone(), self.store.list(Pod)
        held: list[Any] = [self.twin.get((Pod, key)) or pod(key, labels) for key in keys]
        new = [with_meta(obj, labels=labels) for obj in held]
        if stale and new:
            new[-1] = with_meta(new[-1], resource_version="1")
        try:
            for obj in new:
                one.update(obj)
        except (NotFoundError, ConflictError):
            with pytest.raises((NotFoundError, ConflictError)):
                self.store.update_many(new)
            assert self.store.list(Pod) == before
            return
        self.store.update_many(new)
        objects, version = self.store.list(Pod)
        assert (objects, version) == one.list(Pod)
        self.twin |= {(Pod, obj.key): obj for obj in objects}
        self.version = int(version)

    @rule(
        key=NAMES,
        labels=LABELS,
        finalizers=FINALIZERS,
        phase=st.sampled_from(["Running", "Failed"]),
        kind=st.sampled_from(["merge", "strategic", "json"]),
        subresource=st.sampled_from(["", "status"]),
        stale=st.booleans(),
    )
    def patch(  # noqa: PLR0913
        self,
        key: str,
        labels: dict[str, str],
        finalizers: tuple[str, ...],
        phase: str,
        kind: Any,
        subresource: str,
        stale: bool,
    ) -> None:
        held: Any = self.twin.get((Pod, key))
        version = "1" if stale or held is None else held.metadata.resource_version
        meta = {"labels": labels, "finalizers": list(finalizers), "resourceVersion": version}
        patch: Any = {"metadata": meta, "status": {"phase": phase}}
        if kind == "json":
            patch = [
                {"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in meta.items()
            ]
            patch.append({"op": "add", "path": "/status/phase", "value": phase})
        wanted = held
        if held is not None and subresource:
            wanted = replace(held, status=replace(held.status, phase=phase))
        elif held is not None:
            old = held.metadata
            if kind == "strategic":
                finalizers = merged_strategically(old.finalizers, finalizers)
            merged = labels if kind == "json" else old.labels | labels
            wanted = with_meta(held, labels=merged, finalizers=finalizers)
        namespace, _, name = key.partition("/")
        try:
            stored = self.store.patch(Pod, name, namespace, patch, type=kind, subresource=subresource)
        except NotFoundError:
            assert held is None
        except ConflictError:
            assert stale
        except InvalidObjectError:
            assert not self.allowed(held, wanted.metadata.finalizers)
        else:
            assert not stale
            assert self.allowed(held, wanted.metadata.finalizers)
            self.settle(held, wanted, stored)

    @rule(key=NAMES, node=st.sampled_from("nm"))
    def bind(self, key: str, node: str) -> None:
        held: Any = self.twin.get((Pod, key))
        try:
            self.store.bind(pod(key, {}), node)
        except NotFoundError:
            assert held is None
        except ConflictError:
            assert held.spec.node_name or held.metadata.deletion_timestamp
        else:
            assert not held.spec.node_name
            assert not held.metadata.deletion_timestamp
            stored = self.store.get(Pod, held.name, held.namespace)
            assert stored.spec.node_name == node
            self.version += 1
            self.twin[Pod, key] = stored

    @rule(key=NAMES)
    def finalize(self, key: str) -> None:
        held: Any = self.twin.get((Pod, key))
        if held is not None:
            wanted = with_meta(held, finalizers=held.metadata.finalizers[1:])
            self.settle(held, wanted, self.store.update(wanted))

    @rule(
        key=NAMES, grace=st.sampled_from([None, None, 0, 2, 5]), other=st.sampled_from([False, False, True])
    )
    def delete(self, key: str, grace: int | None, other: bool) -> None:
        namespace, _, name = key.partition("/")
        held: Any = self.twin.get((Pod, key))
        uid = "other" if other else ""
        try:
            left = self.store.delete(Pod, name, namespace, uid=uid, grace_period_seconds=grace)
        except NotFoundError:
            assert held is None
        except ConflictError:
            assert other
        else:
            assert not other
            runs = held.metadata.deletion_timestamp or (held.spec.node_name and held.status.phase != "Failed")
            seconds = grace if grace and runs else 0
            if held.metadata.deletion_timestamp:
                seconds = min(seconds, held.metadata.deletion_grace_period_seconds or 0)
            # The clock stands still at 1970.
            time = f"1970-01-01T00:00:0{seconds}Z"
            marked = with_meta(held, deletion_timestamp=time, deletion_grace_period_seconds=seconds)
            if is_kept(marked):
                self.settle(held, marked, left)
            else:
                self.remove(held, left)

    @rule()
    def save(self) -> None:
        state = observe(self.store)
        self.marks.append((self.store.save(), state, dict(self.twin)))

    @precondition(lambda self: self.marks)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.marks) - 1))
        mark, state, self.twin = self.marks[place]
        del self.marks[place:]
        self.store.undo(mark)
        self.version = int(state[0][1])
        assert observe(self.store) == state

    @precondition(lambda self: self.marks)
    @rule()
    def release(self) -> None:
        self.store.release(self.marks.pop()[0])

    @precondition(lambda self: len(self.clones) < 2)
    @rule()
    def clone(self) -> None:
        copy = self.store.clone()
        state = observe(self.store)
        assert observe(copy) == state
        self.clones.append((copy, state))

    @rule(number=st.integers(0, len(SELECTIONS) - 1))
    def run_informer(self, number: int) -> None:
        informer, replica, selection = self.informers[number]
        informer.run_once()
        expected = {obj.key: obj for obj in self.store.list(Pod, **selection)[0]}
        assert informer.indexer.items() == replica.objects == expected
        for namespace in "xy":
            kept = informer.lister.by_namespace(namespace).list()
            assert sorted(obj.key for obj in kept) == [key for key in expected if key[0] == namespace]

    @rule(number=st.integers(0, len(SELECTIONS) - 1))
    def read_all(self, number: int) -> None:
        reader = self.readers[number]
        reader.read()
        objects = self.store.list(Pod, **reader.selection)[0]
        assert reader.objects == {obj.key: obj for obj in objects}

    @invariant()
    def the_store_holds_what_the_twin_holds(self) -> None:
        for kind in KINDS:
            objects, version = self.store.list(kind)
            held = sorted((key, obj) for (struct, key), obj in self.twin.items() if struct is kind)
            assert (objects, version) == ([obj for _, obj in held], str(self.version))
        for namespace in "xy":
            own = [obj for obj in self.store.list(Pod)[0] if obj.namespace == namespace]
            assert self.store.list(Pod, namespace)[0] == own

    def teardown(self) -> None:
        for copy, state in getattr(self, "clones", []):
            assert observe(copy) == state


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(deadline=None, max_examples=150, stateful_step_count=50)
