"""Assumed volumes and claims behind a watch that drops, repeats and reorders events, shows everything again,
or loses its place: after a new list the caches have what the store has."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace
from tests.doors.engine import with_annotations
from tests.store.informers.lossy import LossyClient
from tests.volume.binding.binder_kit import PV_1A, UNBOUND, at
from tests.volume.make import claim, volume

from moorage.objects import Object, PersistentVolume, PersistentVolumeClaim
from moorage.store import ConflictError, InformerFactory, NotFoundError, ObjectStore
from moorage.volume import PVAssumeCache, PVCAssumeCache, VolumeError

NAMES, CLASSES = ("a", "b", "c"), ("x", "y")
KINDS = st.sampled_from([PersistentVolume, PersistentVolumeClaim])
names, classes = st.sampled_from(NAMES), st.sampled_from(CLASSES)


def make(kind: Any, name: str, its_class: str) -> Any:
    if kind is PersistentVolumeClaim:
        return claim(name, of_class=its_class)
    one = volume(name)
    return replace(one, spec=replace(one.spec, storage_class_name=its_class))


class Caches:
    """Both caches over the informers of a client."""

    def __init__(self, client: Any) -> None:
        self.informers = InformerFactory(client)
        self.of: dict[Any, Any] = {
            PersistentVolume: PVAssumeCache(self.informers.informer(PersistentVolume)),
            PersistentVolumeClaim: PVCAssumeCache(self.informers.informer(PersistentVolumeClaim)),
        }

    def everything(self, kind: Any, keys: Any) -> tuple[dict[str, Object], dict[str, Object]]:
        """All as the informers have it, and all as it is assumed to be, by key."""
        api, latest = {}, {}
        for key in keys:
            with suppress(VolumeError):
                api[key], latest[key] = self.of[kind].get_api_obj(key), self.of[kind].get(key)
        return api, latest

    def listed(self, kind: Any) -> list[dict[str, Object]]:
        """The index: volumes by class, claims by namespace."""
        cache = self.of[kind]
        lists = [cache.list_value(value) for value in (*CLASSES, "default")]
        assert all(len({one.key for one in found}) == len(found) for found in lists)
        return [{one.key: one for one in found} for found in lists]


class LossyCaches(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.store = ObjectStore()
        self.lossy = LossyClient(self.store, Random(seed))
        self.caches = Caches(self.lossy)
        self.assumed: dict[tuple[Any, str], Object] = {}

    def held(self, kind: Any, name: str) -> Any:
        return next((one for one in self.store.list(kind)[0] if one.name == name), None)

    def key(self, kind: Any, name: str) -> str:
        return make(kind, name, "x").key  # type: ignore[no-any-return]

    @rule(kind=KINDS, name=names, its_class=classes)
    def write(self, kind: Any, name: str, its_class: str) -> None:
        write = self.store.create if self.held(kind, name) is None else self.store.update
        write(make(kind, name, its_class))

    @rule(kind=KINDS, name=names)
    def delete(self, kind: Any, name: str) -> None:
        held = self.held(kind, name)
        if held is not None:
            self.store.delete(kind, name, held.namespace)

    @rule(kind=KINDS, name=names, its_class=classes)
    def replace(self, kind: Any, name: str, its_class: str) -> None:
        """Another one of the name, and nobody sees the gap."""
        self.delete(kind, name)
        self.write(kind, name, its_class)

    @rule(kind=KINDS)
    def pump(self, kind: Any) -> None:
        self.caches.informers.informer(kind).run_once()

    @rule(kind=KINDS, name=names, number=st.integers(0, 9))
    def assume(self, kind: Any, name: str, number: int) -> None:
        cache, key = self.caches.of[kind], self.key(kind, name)
        with suppress(VolumeError):
            one = with_annotations(cache.get(key), {"assumed": str(number)})
            cache.assume(one)
            assert cache.get(key) is one
            self.assumed[kind, key] = one

    @rule(kind=KINDS, name=names)
    def write_assumed(self, kind: Any, name: str) -> None:
        """As a binder does; what it believes may be out of date."""
        one = self.assumed.get((kind, self.key(kind, name)))
        if one is not None:
            try:
                self.store.update(one)
            except (ConflictError, NotFoundError):
                self.restore(kind, name)

    @rule(kind=KINDS, name=names)
    def restore(self, kind: Any, name: str) -> None:
        key = self.key(kind, name)
        self.caches.of[kind].restore(key)
        self.assumed.pop((kind, key), None)

    @rule()
    def list_again(self) -> None:
        self.lossy.expire()
        fresh = Caches(self.store)
        fresh.informers.run_once()
        for kind in (PersistentVolume, PersistentVolumeClaim):
            self.caches.informers.informer(kind).run_once()
            keys = [self.key(kind, name) for name in NAMES]
            wanted, _ = fresh.everything(kind, keys)
            api, latest = self.caches.everything(kind, keys)
            assert api == wanted
            for key, one in latest.items():
                assert one is api[key] or one is self.assumed[kind, key]
                assert one.metadata.resource_version == api[key].metadata.resource_version
            by_value = [{key: latest[key] for key in found} for found in fresh.listed(kind)]
            assert self.caches.listed(kind) == by_value


TestLossyCaches = LossyCaches.TestCase
TestLossyCaches.settings = settings(deadline=None, max_examples=150, stateful_step_count=40)


# ---- single cases ------------------------------------------------------------------------------------------


def over_a_store(history: int) -> tuple[ObjectStore, Caches]:
    """A store with a volume and a claim, and the caches."""
    store = ObjectStore(history=history)
    store.create_many([at(PV_1A, ""), at(UNBOUND, "")])
    caches = Caches(store)
    caches.informers.run_once()
    return store, caches


BOTH = pytest.mark.parametrize("obj", [PV_1A, UNBOUND], ids=["volume", "claim"])


@BOTH
@pytest.mark.parametrize("happens", ["nothing", "an update", "a deletion", "another of the name"])
def test_a_watch_that_is_too_old(obj: Any, happens: str) -> None:
    """Others have written so much that the informer lists again: what it has missed ends the assumption."""
    store, caches = over_a_store(history=1)
    cache, kind = caches.of[type(obj)], type(obj)
    assumed = with_annotations(cache.get(obj.key), {"some": "thing"})
    cache.assume(assumed)
    expected: Any = assumed
    if happens == "an update":
        expected = store.update(with_annotations(cache.get_api_obj(obj.key), {"other": "thing"}))
    elif happens != "nothing":
        store.delete(kind, obj.name, obj.namespace)
        expected = store.create(at(obj, "")) if happens == "another of the name" else None
    for name in NAMES:
        store.create(make(kind, name, "x"))
    caches.informers.run_once()
    if expected is None:
        with pytest.raises(VolumeError):
            cache.get(obj.key)
    else:
        assert cache.get(obj.key) is expected
