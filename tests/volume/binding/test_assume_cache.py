"""Upstream's cases of the assume caches (scheduler_assume_cache_test.go), and what is easily got wrong."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.doors.engine import BETA_STORAGE_CLASS, with_annotations
from tests.volume.binding.binder_kit import (
    BOUND,
    PV_1A,
    PV_1A_BOUND,
    UNBOUND,
    at,
    claim,
    volume,
)

from moorage.objects import Node, PersistentVolume
from moorage.store import DeletedFinalStateUnknown, InformerFactory, ObjectStore
from moorage.volume import (
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


def test_assuming_the_unknown() -> None:
    cache = new_pv_assume_cache(None)
    cache.add(volume("another"))
    with pytest.raises(ObjectNotFoundError, match=r'^could not find v1\.PersistentVolume "pv-node1a"$'):
        cache.assume(PV_1A)
    with pytest.raises(ObjectNameError, match=r"^failed to get object name: object has no meta"):
        cache.assume(cast(Any, "pv-node1a"))
    assert cache.index_values() == ["waitClass"]


@pytest.mark.parametrize("kind", [0, 1], ids=["volumes", "claims"])
def test_restoring_brings_back_the_object_of_the_informer(kind: int) -> None:
    cache, obj = caches()[kind]
    cache.restore("nothing")
    cache.add(obj)
    cache.restore(obj.key)
    assert cache.get(obj.key) is obj
    new = at(obj, 5)
    cache.assume(new)
    assert cache.get(obj.key) is new
    cache.restore(obj.key)
    assert cache.get(obj.key) is obj


def test_what_the_informer_brings() -> None:
    cache = new_pv_assume_cache(None)
    with pytest.raises(ObjectNotFoundError):
        cache.get_pv("nothing")
    volumes = [volume(f"pv{place}") for place in range(10)]
    for one in volumes:
        cache.add(one)
    assert cache.list_pvs("waitClass") == tuple(volumes)
    updated = at(volumes[3], 2)
    cache.on_update(volumes[3], updated)
    cache.on_delete(volumes[7])
    with pytest.raises(ObjectNotFoundError):
        cache.get_api_pv("pv7")
    held = cache.list_pvs("waitClass")
    assert [one.name for one in held] == [f"pv{place}" for place in range(10) if place != 7]
    assert held[3] is updated
    cache.on_delete(DeletedFinalStateUnknown("pv2", volumes[2]))
    assert len(cache.list_pvs("waitClass")) == 8


@pytest.mark.parametrize("index_name", ["", "x"])
def test_objects_without_an_index_are_not_listed(index_name: str, caplog: pytest.LogCaptureFixture) -> None:
    cache: AssumeCache[PersistentVolume] = new_assume_cache(None, "v1.PersistentVolume", index_name, None)
    cache.add(PV_1A)
    assert cache.list(PV_1A) is None
    assert caplog.messages == [f"list index error: Index with name {index_name} does not exist"]


def test_an_object_that_is_not_known_is_not_found_whatever_its_version() -> None:
    with pytest.raises(ObjectNotFoundError):
        new_pv_assume_cache(None).assume(at(PV_1A, "no number"))


def test_classes_are_listed_apart() -> None:
    cache = new_pv_assume_cache(None)
    for place in range(10):
        cache.add(volume(f"pv{place}", its_class="class1"))
        cache.add(volume(f"other{place}", its_class="class2"))
    moved = at(volume("pv4", its_class="class2"), 2)
    cache.add(moved)
    assert cache.remove("pv0") == volume("pv0", its_class="class1")
    assert cache.remove("pv0") is None
    assert [one.name for one in cache.list_pvs("class1")] == [f"pv{n}" for n in (1, 2, 3, 5, 6, 7, 8, 9)]
    assert cache.list_pvs("class2")[-1] is moved
    assert cache.list(volume("any", its_class="class2")) == cache.list_pvs("class2")
    assert cache.list_pvs("class3") == ()


def test_the_class_that_the_beta_annotation_names_counts() -> None:
    cache = new_pv_assume_cache(None)
    annotated = with_annotations(volume("old", its_class="other"), {BETA_STORAGE_CLASS: "local"})
    cache.add(annotated)
    assert cache.list_pvs("local") == (annotated,)
    assert cache.list_pvs("other") == ()


@pytest.mark.parametrize("kind", [0, 1], ids=["volumes", "claims"])
def test_the_same_version_again_does_not_end_an_assumption(kind: int) -> None:
    cache, obj = caches()[kind]
    cache.add(obj)
    assumed = replace(obj, metadata=replace(obj.metadata, annotations={"some": "thing"}))
    cache.assume(assumed)
    cache.add(replace(obj))
    cache.on_update(obj, obj)
    assert cache.get(obj.key) is assumed
    newer = at(obj, 2)
    cache.on_update(obj, newer)
    assert cache.get(obj.key) is newer
    cache.restore(obj.key)
    assert cache.get(obj.key) is newer


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


def test_an_assumed_object_keeps_its_place_in_the_index() -> None:
    cache = new_pv_assume_cache(None)
    cache.add(PV_1A)
    elsewhere = volume("pv-node1a", its_class="other")
    cache.assume(elsewhere)
    assert cache.list_pvs("waitClass") == (elsewhere,)
    assert cache.list_pvs("other") == ()


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


def test_the_cache_of_volumes() -> None:
    cache = new_pv_assume_cache(None)
    held, assumed = volume("pv", its_class="gold"), at(volume("pv", its_class="gold"), 2)
    cache.add(held)
    cache.add(volume("other", its_class="silver"))
    cache.assume(assumed)
    assert cache.get_pv("pv") is assumed
    assert cache.get_api_pv("pv") is held
    assert cache.list_pvs("gold") == (assumed,)
    assert [one.name for one in cache.list_pvs("silver")] == ["other"]
    cache.restore("pv")
    assert (cache.get_pv("pv"), cache.list_pvs("gold")) == (held, (held,))
    for get in (cache.get_pv, cache.get_api_pv):
        with pytest.raises(ObjectNotFoundError, match=r'^could not find v1.PersistentVolume "none"$'):
            get("none")


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


def test_an_informer_fills_the_caches() -> None:
    store = ObjectStore()
    informers = InformerFactory(store)
    volumes = new_pv_assume_cache(informers.informer(PersistentVolume))
    claims = new_pvc_assume_cache(informers.informer(type(BOUND)))
    stored = store.create(at(PV_1A, ""))
    store.create(at(claim("one", "1G", ""), ""))
    informers.run_once()
    assert volumes.get_pv("pv-node1a") is stored
    assert claims.get_pvc("testns/one").namespace == "testns"
    changed = store.update(replace(stored, spec=replace(stored.spec, storage_class_name="x")))
    informers.run_once()
    assert volumes.list_pvs("x") == (changed,)
    store.delete(PersistentVolume, "pv-node1a")
    informers.run_once()
    assert volumes.list_pvs("x") == ()
