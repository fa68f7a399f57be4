"""Upstream's cases of the assume caches (scheduler_assume_cache_test.go), and what is easily got wrong."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.doors.engine import with_annotations
from tests.volume.binding.binder_kit import PV_1A, PV_1A_BOUND, UNBOUND, at, volume
from tests.words import BETA_STORAGE_CLASS

from moorage.engine.volume import (
    AssumeCache,
    ObjectNameError,
    ObjectNotFoundError,
    PVAssumeCache,
    PVCAssumeCache,
    VolumeError,
    WrongTypeError,
    new_assume_cache,
    new_pv_assume_cache,
    new_pvc_assume_cache,
)
from moorage.kube import Node, PersistentVolume
from moorage.store import DeletedFinalStateUnknown, InformerFactory, ObjectStore


def caches() -> list[tuple[Any, Any]]:
    return [(new_pv_assume_cache(None), PV_1A), (new_pvc_assume_cache(None), UNBOUND)]


@pytest.mark.parametrize("kind", [0, 1], ids=["volumes", "claims"])
@pytest.mark.parametrize(("held", "assumed", "error"), [
    (5, 5, None),
    (5, 6, None),
    (9, 10, None),
    (5, 4, "{} is out of sync (stored: 5, assume: 4)"),
    (5, "a", 'error parsing ResourceVersion "a" for {}: strconv.ParseInt: parsing "a": invalid syntax'),
    ("a", 5, 'error parsing ResourceVersion "a" for {}: strconv.ParseInt: parsing "a": invalid syntax'),
    (5, 2**63, f'error parsing ResourceVersion "{2**63}" for {{}}: strconv.ParseInt: parsing "{2**63}": '
     "value out of range"),
])  # fmt: skip
def test_only_an_object_that_is_not_older_is_assumed(
    kind: int, held: int | str, assumed: int | str, error: str | None
) -> None:
    cache, obj = caches()[kind]
    old, new = at(obj, held), at(obj, assumed)
    cache.add(old)
    if error is None:
        cache.assume(new)
        assert cache.get(obj.key) is new
    else:
        what = 'v1.PersistentVolume "pv-node1a"', 'v1.PersistentVolumeClaim "testns/unbound-pvc"'
        with pytest.raises(VolumeError) as caught:
            cache.assume(new)
        assert str(caught.value) == error.format(what[kind])
        assert cache.get(obj.key) is old
    assert cache.get_api_obj(obj.key) is old


def test_what_is_not_known() -> None:
    cache = new_pv_assume_cache(None)
    cache.add(volume("another"))
    cache.restore("nothing")
    for call in (
        lambda: cache.assume(PV_1A),
        lambda: cache.assume(at(PV_1A, "no number")),
        lambda: cache.get_pv("pv-node1a"),
        lambda: cache.get_api_pv("pv-node1a"),
    ):
        with pytest.raises(ObjectNotFoundError, match=r'^could not find v1\.PersistentVolume "pv-node1a"$'):
            call()
    with pytest.raises(ObjectNameError, match=r"^failed to get object name: object has no meta"):
        cache.assume(cast(Any, "pv-node1a"))
    assert cache.index_values() == ["waitClass"]
    cache.on_delete(DeletedFinalStateUnknown("another", volume("another")))
    assert cache.list_pvs("waitClass") == ()


@pytest.mark.parametrize("index_name", ["", "x"])
def test_objects_without_an_index_are_not_listed(index_name: str, caplog: pytest.LogCaptureFixture) -> None:
    cache: AssumeCache[PersistentVolume] = new_assume_cache(None, "v1.PersistentVolume", index_name, None)
    cache.add(PV_1A)
    assert cache.list(PV_1A) is None
    assert caplog.messages == [f"list index error: Index with name {index_name} does not exist"]


def test_the_class_that_the_beta_annotation_names_counts() -> None:
    cache = new_pv_assume_cache(None)
    annotated = with_annotations(volume("old", its_class="other"), {BETA_STORAGE_CLASS: "local"})
    cache.add(annotated)
    assert cache.list_pvs("local") == (annotated,)
    assert cache.list_pvs("other") == ()


@pytest.mark.parametrize("has_index", [True, False])
def test_versions_are_numbers_and_a_first_one_need_not_be(
    has_index: bool, caplog: pytest.LogCaptureFixture
) -> None:
    plain: AssumeCache[PersistentVolume] = AssumeCache(None, "v1.PersistentVolume", "", lambda obj: ())
    cache = new_pv_assume_cache(None) if has_index else plain
    cache.add(at(PV_1A, 9))
    cache.add(at(PV_1A, 10))
    assert cache.get("pv-node1a").metadata.resource_version == "10"
    odd = at(volume("odd"), "a")
    cache.add(odd)
    with caplog.at_level(logging.ERROR, "moorage.volume"):
        cache.add(at(odd, 3))
        cache.add(cast(Any, 3))
    assert cache.get("odd") is odd
    assert [record.message[:40] for record in caplog.records] == [
        'add failed: error parsing ResourceVersio',
        "add failed: failed to get object name: o",
    ]  # fmt: skip


def test_a_cache_as_it_was_saved() -> None:
    """Its index and its assumed states as well, any number of times."""
    cache = new_pv_assume_cache(None)
    far = volume("far", its_class="other")
    cache.add(PV_1A)
    cache.add(far)
    cache.assume(PV_1A_BOUND)
    saved = cache.save()
    for _ in range(2):
        cache.restore(PV_1A.key)
        assert cache.list_pvs("waitClass") == (PV_1A,)
        cache.assume(at(far, 2))
        cache.remove(PV_1A.key)
        cache.add(volume("near"))
        cache.undo(saved)
        assert cache.list_pvs("waitClass") == (PV_1A_BOUND,)
        assert cache.list_pvs("other") == (far,)
        assert cache.get_api_pv(PV_1A.key) is PV_1A


def test_the_cache_of_volumes_is_an_assume_cache_that_holds_volumes_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = new_pv_assume_cache(None)
    assert isinstance(cache, PVAssumeCache)
    assert isinstance(cache, AssumeCache)
    cache.add(cast(Any, UNBOUND))
    assert caplog.messages[0].startswith("add failed: object is not a v1.PersistentVolume: ")
    with pytest.raises(ObjectNotFoundError):
        cache.get(UNBOUND.key)
    cache.add(PV_1A)
    for value in (PV_1A, at(PV_1A, 2)):
        cache.assume(value)
        assert cache.get(PV_1A.key) is cache.get_pv("pv-node1a") is value
    with pytest.raises(VolumeError, match=r'^v1.PersistentVolume "pv-node1a" is out of sync'):
        cache.assume(PV_1A)


def test_kinds_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    odd = PVCAssumeCache(None)
    odd.add(cast(Any, PV_1A))
    for get in (odd.get_pvc, odd.get_api_pvc):
        with pytest.raises(
            WrongTypeError, match=r"^could not convert object to type v1.PersistentVolumeClaim: "
        ):
            get("pv-node1a")
    with caplog.at_level(logging.ERROR, "moorage.volume"):
        assert new_pv_assume_cache(None).list(cast(Any, UNBOUND)) is None
    assert caplog.records[0].message.startswith("list index error: object is not a v1.PersistentVolume: ")


def test_an_index_of_ones_own() -> None:
    cache: AssumeCache[Node] = new_assume_cache(
        None, "v1.Node", "labels", lambda node: sorted(node.metadata.labels)
    )
    first = Node(metadata=replace(PV_1A.metadata, name="first", labels={"a": "", "b": ""}))
    second = Node(metadata=replace(PV_1A.metadata, name="second", labels={"b": ""}))
    cache.add(first)
    cache.add(second)
    assert cache.list(first) == (first, second)
    assert cache.list(second) == (first, second)
    assert cache.list(Node()) == ()


@pytest.mark.parametrize("kind", [0, 1], ids=["volumes", "claims"])
@pytest.mark.parametrize("happens", ["nothing", "an update", "a deletion", "another of the name"])
def test_a_watch_that_is_too_old(kind: int, happens: str) -> None:
    """Others have written so much that the informer lists again: what it has missed ends the assumption."""
    obj = caches()[kind][1]
    store = ObjectStore(history=1)
    store.create(at(obj, ""))
    informer = InformerFactory(store).informer(type(obj))
    cache: Any = (new_pv_assume_cache, new_pvc_assume_cache)[kind](informer)
    informer.run_once()
    expected: Any = with_annotations(cache.get(obj.key), {"some": "thing"})
    cache.assume(expected)
    if happens == "an update":
        expected = store.update(with_annotations(cache.get_api_obj(obj.key), {"other": "thing"}))
    elif happens != "nothing":
        store.delete(type(obj), obj.name, obj.namespace)
        expected = store.create(at(obj, "")) if happens == "another of the name" else None
    for name in "abc":
        store.create(replace(obj, metadata=replace(obj.metadata, name=name, resource_version="")))
    informer.run_once()
    assert cache.find(obj.key) is expected
