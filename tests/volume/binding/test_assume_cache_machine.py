"""The assume cache against a slow twin, fed by events that come late, twice, or not at all."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.volume.binding.binder_kit import volume

from moorage.engine.volume import AssumeCache, PVAssumeCache, VolumeError
from moorage.kube import PersistentVolume

names = st.sampled_from(["a", "b", "c"])
classes = st.sampled_from(["x", "y"])
versions = st.integers(1, 12)


class Plain(AssumeCache[PersistentVolume]):
    """Without an index, so that the core takes what the informer brings."""

    def __init__(self) -> None:
        super().__init__(None, "v1.PersistentVolume", "", lambda obj: ())
        self.seen: list[PersistentVolume | None] = []

    def _observe(self, key: str, obj: PersistentVolume | None) -> None:
        assert obj is not None
        assert key == obj.key
        self.seen.append(obj)


class Twin:
    """As the rules say it, without an index: (as the informer has it, as assumed, class), in order."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[PersistentVolume, PersistentVolume, str]] = {}
        self.order: dict[str, list[str]] = {"x": [], "y": []}

    def add(self, obj: PersistentVolume) -> bool:
        its_class = obj.spec.storage_class_name
        if obj.name in self.held:
            _, latest, was = self.held[obj.name]
            if int(obj.metadata.resource_version) <= int(latest.metadata.resource_version):
                return False
            if was != its_class:
                self.order[was].remove(obj.name)
        self.held[obj.name] = (obj, obj, its_class)
        if obj.name not in self.order[its_class]:
            self.order[its_class].append(obj.name)
        return True

    def delete(self, name: str) -> None:
        if name in self.held:
            self.order[self.held.pop(name)[2]].remove(name)

    def assume(self, obj: PersistentVolume) -> bool:
        if obj.name not in self.held:
            return False
        api, latest, its_class = self.held[obj.name]
        if int(obj.metadata.resource_version) < int(latest.metadata.resource_version):
            return False
        self.held[obj.name] = (api, obj, its_class)
        return True

    def restore(self, name: str) -> None:
        if name in self.held:
            api, _, its_class = self.held[name]
            self.held[name] = (api, api, its_class)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cache, self.twin, self.plain = PVAssumeCache(None), Twin(), Plain()

    @rule(brought=st.lists(st.tuples(names, classes, versions), min_size=1, max_size=5))
    def bring(self, brought: list[tuple[str, str, int]]) -> None:
        several = [volume(name, its_class=its_class, version=version) for name, its_class, version in brought]
        stored = [obj for obj in several if self.twin.add(obj)]
        self.plain.seen = []
        assert self.cache.add_all(several) == self.plain.add_all(several) == len(stored)
        assert all(one is other for one, other in zip(self.plain.seen, stored, strict=True))

    @rule(name=names)
    def bring_again(self, name: str) -> None:
        if name in self.twin.held:
            obj = self.twin.held[name][0]
            self.cache.on_update(obj, obj)
            self.plain.on_update(obj, obj)
            self.twin.add(obj)

    @rule(name=names)
    def end(self, name: str) -> None:
        self.cache.on_delete(volume(name))
        self.plain.on_delete(volume(name))
        self.twin.delete(name)

    @rule(name=names, its_class=classes, version=versions)
    def assume(self, name: str, its_class: str, version: int) -> None:
        obj = volume(name, its_class=its_class, version=version)
        if self.twin.assume(obj):
            self.cache.assume(obj)
            self.plain.assume(obj)
        else:
            with pytest.raises(VolumeError):
                self.cache.assume(obj)

    @rule(name=names)
    def restore(self, name: str) -> None:
        self.cache.restore(name)
        self.plain.restore(name)
        self.twin.restore(name)

    @invariant()
    def they_agree(self) -> None:
        for name in ("a", "b", "c"):
            if name in self.twin.held:
                api, latest, _ = self.twin.held[name]
                assert self.cache.get_api_pv(name) is api
                assert self.cache.get_pv(name) is self.plain.get(name) is latest
                assert self.plain.get_api_obj(name) is api
            else:
                assert self.plain.find(name) is None
                with pytest.raises(VolumeError):
                    self.cache.get_pv(name)
        for its_class, order in self.twin.order.items():
            wanted = [self.twin.held[name][1] for name in order]
            listed = list(self.cache.list_pvs(its_class))
            assert all(one is other for one, other in zip(listed, wanted, strict=True))


TestAssumeCacheMachine = Machine.TestCase
TestAssumeCacheMachine.settings = settings(deadline=None)
