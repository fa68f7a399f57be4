"""Volumes in use: whatever happens, they are what a recomputation finds, and what each node says, also behind
watches that drop, repeat and reorder events."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace
from tests.doors.engine import VolumesInUse
from tests.make import node, pod
from tests.store.informers.lossy import LossyClient
from tests.volume.make import attachment, claim, csi_node, storage_class, uses, volume

from moorage.engine.cache import SchedulerCache
from moorage.engine.volume import VolumeError
from moorage.errors import CacheError
from moorage.kube import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Object,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from moorage.store import InformerFactory, NotFoundError, ObjectStore

STORAGE = (
    PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, CSIDriver, CSIStorageCapacity,
    VolumeAttachment,
)  # fmt: skip
NODES, CLAIMS, VOLUMES, DRIVERS = "abc", ("c0", "c1", "c2", "p0-e", "p1-e"), ("v0", "v1", "v2"), ("d0", "d1")
SOURCES = [
    *[{"claim": name} for name in (*CLAIMS, "none", "")],
    {"ephemeral": "e"},
    {"gce": "disk"},
    {"gce": "disk", "read_only": True},
    {"rbd": "image"},
    {"aws": "vol-1"},
    {"csi": "d0"},
    {},
]

node_names = st.sampled_from(NODES)
pods = st.builds(
    lambda name, on, sources: pod(name, on=on, volumes=tuple(uses(**source) for source in sources)),
    st.sampled_from(["p0", "p1", "p2", "p3"]),
    node_names,
    st.lists(st.sampled_from(SOURCES), max_size=3),
)
owners = st.sampled_from([(), (OwnerReference(uid="p0", controller=True),)])
objects = st.one_of(
    st.builds(
        lambda name, of, of_class, owner: claim(name, of, of_class, owners=owner),
        st.sampled_from(CLAIMS),
        st.sampled_from(["", *VOLUMES]),
        st.sampled_from([None, "k0", "k1"]),
        owners,
    ),
    st.builds(
        volume,
        st.sampled_from(VOLUMES),
        st.sampled_from([*[(driver, handle) for driver in DRIVERS for handle in "xy"], "gce", None]),
    ),
    st.builds(
        storage_class,
        st.sampled_from(["k0", "k1"]),
        st.sampled_from([*DRIVERS, "kubernetes.io/gce-pd", "kubernetes.io/azure-file"]),
    ),
    st.builds(
        lambda name, limits: csi_node(name, **limits),
        node_names,
        st.dictionaries(
            st.sampled_from([*DRIVERS, "pd.csi.storage.gke.io"]), st.sampled_from([None, 0, 1, 2, 3])
        ),
    ),
    st.builds(
        attachment,
        st.sampled_from(["a0", "a1"]),
        st.sampled_from(["", *DRIVERS]),
        node_names,
        st.sampled_from([None, *VOLUMES]),
    ),
)


def summary(one: VolumesInUse) -> Any:
    """All that is derived, in an order of its own."""
    disks = {
        disk: {row: sorted(map(repr, held)) for row, held in rows.items()} for disk, rows in one.disks.items()
    }
    found = {row: {uid: pod.key for uid, pod in sorted(held.items())} for row, held in one.pods.items()}
    return (
        found,
        one.claims,
        disks,
        {row: dict(sorted(by.items())) for row, by in one.attached.errors.items()},
    )


class InUse(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.store = ObjectStore()
        self.lossy = LossyClient(self.store, Random(seed))
        self.informers = InformerFactory(self.lossy)
        for kind in STORAGE:
            self.informers.informer(kind)
        self.cache = SchedulerCache()
        self.informers.run_once()
        self.one = VolumesInUse(self.cache.state, self.informers)
        for name in NODES:
            self.cache.add_node(node(name, pods=99))
            self.store.create(csi_node(name, d0=2, d1=1))
        for name in CLAIMS[:3]:
            self.store.create(claim(name, f"v{name[1:]}", "k0"))
            self.store.create(volume(f"v{name[1:]}", ("d0", "x")))
        self.store.create(storage_class("k0"))
        self.store.create(attachment("a0", "d0", "a", "v0"))

    # ---- what happens --------------------------------------------------------------------------------------

    @rule(one=objects, is_heard=st.booleans())
    def write(self, one: Object, is_heard: bool) -> None:
        with suppress(NotFoundError):
            self.store.delete(type(one), one.name, one.namespace)
        self.store.create(one)
        if is_heard:
            self.informers.run_once()

    @rule(one=objects)
    def delete(self, one: Object) -> None:
        with suppress(NotFoundError):
            self.store.delete(type(one), one.name, one.namespace)
        self.informers.run_once()

    @rule(one=pods, assumed=st.booleans())
    def place(self, one: Pod, assumed: bool) -> None:
        with suppress(CacheError):  # it is there
            (self.cache.assume_pod if assumed else self.cache.add_pod)(one)

    @rule(at=st.integers(0, 9), moved=st.booleans())
    def confirm_or_remove(self, at: int, moved: bool) -> None:
        known = self.cache.state.pods()
        if not known:
            return
        held = known[at % len(known)]
        if not self.cache.is_assumed_pod(held):
            self.cache.remove_pod(held)
        elif moved:
            self.cache.add_pod(replace(held, metadata=replace(held.metadata, labels={"x": "y"})))
        else:
            self.cache.forget_pod(held)

    @rule(at=st.integers(0, 9), sources=st.lists(st.sampled_from(SOURCES), max_size=2))
    def update(self, at: int, sources: Any) -> None:
        known = [held for held in self.cache.state.pods() if not self.cache.is_assumed_pod(held)]
        if known:
            held = known[at % len(known)]
            volumes = tuple(uses(**source) for source in sources)
            self.cache.update_pod(held, replace(held, spec=replace(held.spec, volumes=volumes)))

    @rule(name=node_names)
    def node_comes_or_goes(self, name: str) -> None:
        if self.cache.state.has_node(name):
            self.cache.remove_node(node(name))
        else:
            self.cache.add_node(node(name, pods=99))

    @rule(one=pods, name=node_names, looks=st.booleans(), keeps=st.booleans(), at=st.integers(0, 9))
    def transaction(self, one: Pod, name: str, looks: bool, keeps: bool, at: int) -> None:
        with self.cache.transaction() as transaction:
            self.place(one, True)
            self.confirm_or_remove(at, False)
            if looks:
                self.one.refresh()
            self.node_comes_or_goes(name)
            if keeps:
                transaction.commit()

    @rule(lists_again=st.booleans())
    def hear(self, lists_again: bool) -> None:
        if lists_again:
            self.lossy.expire()
        self.informers.run_once()

    # ---- what is so then -----------------------------------------------------------------------------------

    def rows(self) -> npt.NDArray[np.int32]:
        table = self.cache.state.table
        return np.array([row for row in range(table.used) if table.is_present(row)], dtype=np.int32)

    @invariant()
    def is_what_a_recomputation_finds(self) -> None:
        if not hasattr(self, "one"):
            return
        self.one.refresh()
        other = VolumesInUse(self.cache.state, self.informers)
        other.refresh()
        assert summary(self.one) == summary(other)
        rows = self.rows()
        for wanted in WANTED:
            mine, theirs = (one.attached.rows_over_limit(rows, wanted).tolist() for one in (self.one, other))
            assert mine == theirs

    @invariant()
    def is_what_the_nodes_say(self) -> None:
        if not hasattr(self, "one"):
            return
        table, attached, rows = self.cache.state.table, self.one.attached, self.rows()
        infos = [self.cache.node_info(table.row_name(row)) for row in rows.tolist()]
        for wanted in WANTED:
            over = attached.rows_over_limit(rows, wanted).tolist()
            for row, info, exceeds in zip(rows.tolist(), infos, over, strict=True):
                assert info is not None
                try:
                    assert bool(attached.exceeded(info.name, info.pods, wanted)) == exceeds
                except VolumeError:
                    assert row in attached.errors
        for driver in ((name, is_named) for name in (*DRIVERS, GCE) for is_named in (False, True)):
            without = attached.rows_without(driver).take(rows).tolist()
            assert without == [attached.lacks(info.name, driver) for info in infos if info is not None]
        limited = attached.is_limited(rows).tolist()
        assert limited == [bool(attached.limits_of(info.name)) for info in infos if info is not None]


GCE = "pd.csi.storage.gke.io"
WANTED: list[frozenset[tuple[str, str]]] = [
    *[frozenset((driver, f"new{at}") for at in range(n)) for driver in (*DRIVERS, GCE) for n in (1, 2, 3)],
    frozenset(),
    frozenset({("d0", "x"), ("d0", "y"), ("d1", "x")}),
    frozenset({("d0", "x"), ("d0", "new")}),
    frozenset({(GCE, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk")}),
]

TestInUse = InUse.TestCase
TestInUse.settings = settings(deadline=None, max_examples=100, stateful_step_count=30)


# ---- single cases ------------------------------------------------------------------------------------------


def in_use(cache: SchedulerCache, *objects: Object) -> VolumesInUse:
    store = ObjectStore()
    informers = InformerFactory(store)
    for kind in STORAGE:
        informers.informer(kind)
    for one in objects:
        store.create(one)
    informers.run_once()
    found = VolumesInUse(cache.state, informers)
    found.refresh()
    return found


def test_claims_on_nodes_that_are_gone_are_not_in_use() -> None:
    cache = SchedulerCache()
    cache.add_node(node("a"))
    for name, on in (("p", "a"), ("q", "a"), ("r", "gone")):
        cache.add_pod(pod(name, on=on, volumes=(uses(claim="c"), uses(ephemeral="e"))))
    one = in_use(cache, claim("c"))
    assert one.claims == {"default/c": 2}
    cache.remove_node(node("a"))
    one.refresh()
    assert one.claims == {}


def test_a_log_that_was_lost_is_made_good() -> None:
    cache = SchedulerCache()
    cache.add_node(node("a"))
    one = in_use(cache)
    cache.add_pod(pod("p", on="a", volumes=(uses(claim="c"),)))
    for _ in range(cache.state.log.capacity + 1):
        cache.update_node(node("a"), node("a"))
    one.refresh()
    assert one.claims == {"default/c": 1}


def test_what_a_pod_wants() -> None:
    owned = claim("p-e", "v1", owners=(OwnerReference(uid="p", controller=True),))
    objects = [
        claim("bound", "v0"),
        claim("unbound", of_class="k"),
        claim("plain"),
        owned,
        claim("q-e"),
        volume("v0", ("d0", "x")),
        volume("v1", "gce", zone="z-1-a__z-1-b"),
        storage_class("k", "kubernetes.io/aws-ebs"),
    ]
    attached = in_use(SchedulerCache(), *objects).attached
    every = pod(
        "p",
        volumes=(
            uses(claim="bound"),
            uses(claim="unbound"),
            uses(claim="plain"),
            uses(ephemeral="e"),
            uses(aws="aws://z/vol-1"),
            uses(azure="/subscriptions/1"),
            uses(csi="inline"),
        ),
    )
    assert attached.volumes_of_new_pod(every) == {
        ("d0", "x"),
        ("ebs.csi.aws.com", "\0default/unbound"),
        (GCE, "projects/UNSPECIFIED/regions/z-1/disks/disk"),
        ("ebs.csi.aws.com", "vol-1"),
        ("disk.csi.azure.com", "/subscriptions/1"),
    }
    with pytest.raises(VolumeError, match=r'^looking up PVC default/x: persistentvolumeclaim "x" not found$'):
        attached.volumes_of_new_pod(pod("p", volumes=(uses(claim="x"),)))
    with pytest.raises(
        VolumeError, match=r"^PVC default/q-e was not created for pod default/q \(pod is not owner\)$"
    ):
        attached.volumes_of_new_pod(pod("q", volumes=(uses(ephemeral="e"),)))
    with pytest.raises(VolumeError, match=r"^PersistentVolumeClaim had no name$"):
        attached.volumes_of_new_pod(pod("q", volumes=(uses(claim=""),)))
    with pytest.raises(VolumeError, match=r"^converting volume\(\) from inline to csi: .*aws://z/other\)$"):
        attached.volumes_of_new_pod(pod("q", volumes=(uses(aws="aws://z/other"),)))


def test_attachments_count_beside_the_volumes_of_pods() -> None:
    """One of a pod's own volumes counts once; one that is attached already is new all the same."""
    cache = SchedulerCache()
    cache.add_node(node("a"))
    cache.add_pod(pod("p", on="a", volumes=(uses(claim="c"),)))
    limits = csi_node("a", d0=2)
    objects = [claim("c", "v0"), volume("v0", ("d0", "x")), volume("v1", ("d0", "y")), limits]
    rows = np.zeros(1, dtype=np.int32)
    one = in_use(cache, *objects, attachment("a0", "d0", "a", "v0"))
    assert not one.attached.rows_over_limit(rows, {("d0", "y")})[0]
    one = in_use(cache, *objects, attachment("a0", "d0", "a", "v1"))
    assert one.attached.rows_over_limit(rows, {("d0", "y")})[0]
    assert not one.attached.rows_over_limit(rows, {("d0", "x")})[0]


def test_a_node_over_its_limit_takes_pods_that_bring_nothing_new() -> None:
    cache = SchedulerCache()
    cache.add_node(node("a"))
    for name in "xy":
        cache.add_pod(pod(name, on="a", volumes=(uses(claim=name),)))
    claims = [claim(name, f"v{name}") for name in "xy"]
    volumes = [volume(f"v{name}", ("d0", name)) for name in "xy"]
    attached = in_use(cache, *claims, *volumes, csi_node("a", d0=1)).attached
    rows = np.zeros(1, dtype=np.int32)
    for wanted, exceeds in (({"x"}, False), ({"x", "y"}, False), ({"z"}, True), ({"x", "z"}, True)):
        handles = frozenset(("d0", name) for name in wanted)
        assert attached.rows_over_limit(rows, handles).tolist() == [exceeds]
        assert bool(attached.exceeded("a", cache.state.pods(), handles)) == exceeds


@pytest.mark.parametrize(
    ("source", "disk"),
    [
        ({"gce": "n"}, ("gce", "n")),
        ({"aws": "i"}, ("aws", "i")),
        ({"iscsi": "q"}, ("iscsi", "q")),
        ({"rbd": "i"}, ("rbd", "pool", "i")),
        ({"csi": "d"}, None),
        ({"claim": "c"}, None),
        ({"azure": "u"}, None),
    ],
)
def test_the_disk_of_a_volume_is_named_by_its_source(source: dict[str, Any], disk: Any) -> None:
    cache = SchedulerCache()
    cache.add_node(node("a"))
    cache.add_pod(pod("p", on="a", volumes=(uses(**source),)))
    assert [*in_use(cache).disks] == ([disk] if disk else [])
