"""VolumeBinding with a volume binder of v1.14, in a scheduler."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.test_end_to_end import Town, late
from tests.controllers.persistent_volume.test_end_to_end import disk as disk_of
from tests.doors.compat import DecisionsHandler
from tests.doors.engine import VolumeBinding
from tests.make import node, pod
from tests.plugins.volume_binding_kit import LATE, MADE, NODES, asking, bound, disk, waiting
from tests.volume.make import storage_class
from tests.words import BIND_CONFLICT, NODE_CONFLICT, UNBOUND_IMMEDIATE

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.compat import (
    AdaptedBinder,
    CachingVolumeBinder,
    FakeVolumeBinderConfig,
    PodBindingCache,
    new_fake_volume_binder,
    new_volume_binder,
)
from moorage.engine.framework import FrameworkHandle
from moorage.engine.scheduler import Profile
from moorage.kube import Cluster, Node, Object, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.store import ObjectStore

P, Q = "default/p", "default/q"


def of_release_1_14(handle: FrameworkHandle) -> CachingVolumeBinder:
    informer, client = handle.informers.informer, handle.client
    informers = [informer(kind) for kind in (Node, PersistentVolumeClaim, PersistentVolume, StorageClass)]
    return new_volume_binder(client, *informers, 600.0, clock=handle.clock, sleep=handle.wait)  # type: ignore[arg-type]


def profile(make_binder: Any, name: str = "default-scheduler") -> Profile:
    one = VolumeBinding(make_binder=make_binder and AdaptedBinder(make_binder))
    plugins = [one if plugin.name == one.name else plugin for plugin in default_profile().plugins]
    return Profile(plugins, scheduler_name=name)


def binder_of(one: Scheduler, name: str = "default-scheduler") -> Any:
    plugins = one.engines[name].framework.profile.plugins
    (plugin,) = (plugin for plugin in plugins if isinstance(plugin, VolumeBinding))
    return plugin.binder._binder


def scheduler(*objects: Object, make_binder: Any = of_release_1_14, **settings: Any) -> Scheduler:
    pods = [one for one in objects if isinstance(one, Pod)]
    others = [one for one in objects if not isinstance(one, Pod)]
    cluster = Cluster(nodes=NODES, pods=pods, others=others)
    return Scheduler(cluster, profile=profile(make_binder), **settings)


def decisions(one: Scheduler, name: str) -> Any:
    cache: PodBindingCache = binder_of(one).get_bindings_cache()
    return cache.get_decisions(pod(name))


# ---- new_volume_binder -------------------------------------------------------------------------------------


def test_volumes_are_found_assumed_and_bound() -> None:
    """Static ones on one node, and some that are made where the pod goes; the third fits nowhere."""
    claims = waiting("c"), waiting("d"), waiting("e"), waiting("m", "made")
    disks = disk("v", on="z1"), disk("w", on="z2")
    pods = [asking("p", "c"), asking("q", "d", "m"), asking("r", "e")]
    one, today = (
        Scheduler(
            Cluster(nodes=NODES, pods=pods, others=[LATE, MADE, *claims, *disks]), profile=profile(make)
        )
        for make in (of_release_1_14, None)
    )
    result = one.run()
    assert result.placements == today.run().placements
    assert set(result.placements) == {P, Q}
    assert f"2 {BIND_CONFLICT}" in result.unschedulable["default/r"].message
    phases = {held.name: held.status.phase for held in one.client.list(PersistentVolumeClaim)[0]}
    assert phases == {"c": "Bound", "d": "Bound", "m": "Bound", "e": "Pending"}


def test_reasons_of_bound_and_of_immediate_claims() -> None:
    held = bound("c", "v")
    objects = (
        disk("v", on="z9"),
        storage_class("by-hand", "kubernetes.io/no-provisioner"),
        waiting("d", "by-hand"),
    )
    one = scheduler(held, *objects, asking("p", "c"), asking("q", "d"))
    messages = {key: failure.message for key, failure in one.run().unschedulable.items()}
    assert f"2 {NODE_CONFLICT}" in messages[P]
    assert UNBOUND_IMMEDIATE in messages[Q]


def test_what_is_decided_about_a_pod_is_dropped_when_it_is_bound_or_deleted() -> None:
    claims = [waiting(name) for name in "cde"]
    one = scheduler(LATE, *claims, disk("v"), disk("w"), asking("p", "c"), asking("q", "d", "e"))
    result = one.run()
    assert set(result.placements) == {P}
    assert decisions(one, "p") is None, "it has a node"
    assert decisions(one, "q") is not None, "it may be scheduled still"
    one.client.delete(Pod, "q", "default")
    one.sync()
    assert decisions(one, "q") is None


@pytest.mark.parametrize("changes", [{"status": {"phase": "Failed"}}, {"metadata": {"uid": "another"}}])
def test_what_is_decided_about_a_pod_is_dropped_when_it_finishes_or_another_takes_its_name(
    changes: dict[str, dict[str, str]],
) -> None:
    one = scheduler(LATE, waiting("c"), waiting("d"), disk("v"), asking("p", "c", "d"))
    one.run()
    assert set(decisions(one, "p")) == {"a", "b"}
    held = one.client.get(Pod, "p", "default")
    new = replace(held, **{name: replace(getattr(held, name), **fields) for name, fields in changes.items()})
    DecisionsHandler(binder_of(one).get_bindings_cache()).on_update(held, new)
    assert decisions(one, "p") is None


def test_an_attempt_that_fails_takes_back_what_was_assumed() -> None:
    class Refuses(mo.PermitPlugin):
        name = "Refuses"

        def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
            return mo.Status(mo.Code.UNSCHEDULABLE, ("no",)) if pod.name == "p" else None

    cluster = Cluster(
        nodes=NODES,
        pods=[asking("p", "c", priority=1), asking("q", "d")],
        others=[LATE, waiting("c"), waiting("d"), disk("v")],
    )
    plugins = (*profile(of_release_1_14).plugins, Refuses())
    assert set(Scheduler(cluster, profile=Profile(plugins)).run().placements) == {Q}


def test_profiles_share_the_binder() -> None:
    store = ObjectStore()
    store.create_many((*NODES, LATE, waiting("c"), asking("p", "c")))
    profiles = [profile(of_release_1_14), profile(of_release_1_14, "other")]
    one = Scheduler(store, profiles=profiles)
    assert binder_of(one, "other") is binder_of(one)


def test_a_profile_may_be_used_again() -> None:
    again = profile(of_release_1_14)
    cluster = Cluster(nodes=NODES, pods=[asking("p", "c")], others=[LATE, waiting("c"), disk("v")])
    first, second = (Scheduler(cluster, profile=again) for _ in range(2))
    assert isinstance(binder_of(first), CachingVolumeBinder)
    assert isinstance(binder_of(second), CachingVolumeBinder)
    assert binder_of(first) is not binder_of(second)


def test_binding_takes_its_time_in_the_background() -> None:
    """Two pods whose volumes take a while are bound at the same time."""
    nodes = [node(name, labels={"kubernetes.io/hostname": name}) for name in ("n1", "n2")]
    claims = [late(f"of-{name}", "local") for name in "pq"]
    pods = [asking(name, f"of-{name}", scheduler_name="a") for name in "pq"]
    world = Town(nodes, [disk_of("v", "n1"), disk_of("w", "n2"), *claims, *pods], [("nothing", 0)] * 4)
    world.schedulers["a"] = one = Scheduler(
        world.store, profile=profile(of_release_1_14, "a"), clock=lambda: world.now, wait=world.wait
    )
    assert set(one.run().placements) == {P, Q}
    world.check()
    assert world.now == 5.0


# ---- others ------------------------------------------------------------------------------------------------


def with_fake(*objects: Object, **config: Any) -> tuple[Any, Any]:
    """What becomes of pod p where the binder answers what it is told, and that binder."""
    binder = new_fake_volume_binder(FakeVolumeBinderConfig(**config))
    result = scheduler(*objects, make_binder=lambda handle: binder).run()
    return result.placements.get(P) or result.unschedulable[P].message, binder


GOOD = {"find_bound_satisfied": True, "find_unbound_satisfied": True}
ASKING = LATE, waiting("c"), asking("p", "c")
BROKEN = mo.MoorageError("broken")


@pytest.mark.parametrize(
    ("objects", "config", "text"),
    [
        (ASKING, {"find_bound_satisfied": True}, BIND_CONFLICT),
        (ASKING, {"find_unbound_satisfied": True}, NODE_CONFLICT),
        ((bound("c", "v"), disk("v"), asking("p", "c")), {"find_unbound_satisfied": True}, NODE_CONFLICT),
        (ASKING, {"find_err": BROKEN}, "broken"),
        (ASKING, GOOD | {"assume_err": BROKEN}, "broken"),
        (ASKING, GOOD | {"bind_err": BROKEN}, "broken"),
    ],
)
def test_a_binder_that_says_no(objects: tuple[Object, ...], config: dict[str, Any], text: str) -> None:
    assert text in with_fake(*objects, **config)[0]


@pytest.mark.parametrize("all_bound", [False, True])
def test_a_binder_that_says_yes(all_bound: bool) -> None:
    node, binder = with_fake(*ASKING, **GOOD, all_bound=all_bound)
    assert (node in ("a", "b"), binder.assume_called, binder.bind_called) == (True, True, not all_bound)


def test_a_plain_scheduler_loads_no_interface_of_an_earlier_release() -> None:
    code = (
        "import sys, moorage as mo\n"
        "mo.Scheduler(mo.synthetic(nodes=1, pods=1)).run()\n"
        "print([name for name in sys.modules if name.startswith('moorage.compat')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
