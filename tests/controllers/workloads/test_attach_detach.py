"""VolumeAttachments come and go with the pods that use the volumes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests import make as kit
from tests.conftest import NIGHTLY
from tests.controllers.workloads.make import machine, scheduler, template
from tests.doors.kube import is_healthy
from tests.make import claim, make, manifest, storage_class, volume
from tests.objects.make import owned, pod, workload

from moorage import Scheduler, edit
from moorage.kube import CSINode, Object, PersistentVolumeClaim, Pod, VolumeAttachment

DRIVER = "disk.example.com"
SEEDS = range(200 if NIGHTLY else 6)
Pairs = set[tuple[str, str]]
CLASS = storage_class("disk", DRIVER)


def limits(node: str, count: int | None, driver: str = DRIVER) -> Object:
    allocatable = {} if count is None else {"allocatable": {"count": count}}
    return make("CSINode", node, {"drivers": [{"name": driver, "nodeID": node} | allocatable]})


def disk(name: str, claimed: str = "") -> list[Object]:
    """A volume, and its claim if it has one."""
    source: dict[str, Any] = {"csi": {"driver": DRIVER, "volumeHandle": name}}
    if not claimed:
        return [volume(name, "disk", **source)]
    reference = {"namespace": "default", "name": claimed, "uid": claimed}
    meta = {"uid": claimed, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    return [volume(name, "disk", claimRef=reference, **source), claim(claimed, "disk", name, metadata=meta)]


def attachment(volume: str, node: str) -> Object:
    spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return make("VolumeAttachment", f"att-{volume}-{node}", spec)


def database(replicas: int) -> Object:
    claims = [manifest(claim("d", "disk", metadata={"namespace": ""}))]
    spec: dict[str, Any] = {"podManagementPolicy": "Parallel", "volumeClaimTemplates": claims}
    return kit.workload("StatefulSet", "db", replicas, {"cpu": "100m"}, **spec)


def user(name: str, claim: str, **spec: Any) -> Object:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return pod(name, {"volumes": volumes} | spec)


def running(count: int, node_of: Callable[[int], str], has_attachments: bool) -> list[Object]:
    """A StatefulSet whose pods run, each with a volume."""
    objects = [CLASS, database(count)]
    for at in range(count):
        node, claim = node_of(at), f"d-db-{at}"
        spec = template("db", "100m")["spec"] | {"nodeName": node}
        spec["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]
        meta = owned("StatefulSet", "db", labels={"app": "db"})
        objects += [*disk(f"v{at}", claim), make("Pod", f"db-{at}", spec, metadata=meta)]
        objects += [attachment(f"v{at}", node)] if has_attachments else []
    return objects


def attached(one: Scheduler) -> Pairs:
    one.sync()
    listed: list[VolumeAttachment] = one.client.list(VolumeAttachment)[0]
    assert len({each.name for each in listed}) == len(listed)
    return {(each.spec.node_name, str(each.spec.source.persistent_volume_name)) for each in listed}


def of_claims(one: Scheduler, pairs: Pairs) -> Pairs:
    """The same with the claims of volumes that are made, whose names are those of UIDs."""
    listed = one.client.list(PersistentVolumeClaim)[0]
    made = {each.spec.volume_name: each.key for each in listed if each.spec.volume_name.startswith("pvc-")}
    return {(node, made.get(volume, volume)) for node, volume in pairs}


def in_use(one: Scheduler) -> Pairs:
    """Nodes and volumes of the pods on them, from the objects alone."""
    one.sync()
    claims = {each.key: each.spec.volume_name for each in one.client.list(PersistentVolumeClaim)[0]}
    listed: list[Pod] = one.client.list(Pod)[0]
    nodes = {each.name for each in one.client.list(CSINode)[0]}
    return {
        (each.spec.node_name, claims[key])
        for each in listed
        if each.spec.node_name in nodes and each.status.phase not in ("Succeeded", "Failed")
        for key in each.claim_keys()
        if claims.get(key)
    }


@pytest.mark.parametrize("has_attachments", [True, False])
def test_a_rollout_at_the_limit_goes_on(has_attachments: bool) -> None:
    one = scheduler(machine("n"), limits("n", 2), *running(2, lambda _: "n", has_attachments))
    assert attached(one) == {("n", "v0"), ("n", "v1")}
    one.change.restart("sts/db")
    assert one.run().unschedulable == {}
    assert one.ask.rollouts() == []
    assert attached(one) == {("n", "v0"), ("n", "v1")}


def test_what_no_pod_uses_stays_attached_until_one_has_used_it() -> None:
    volumes = [*disk("v", "c"), attachment("v", "n"), *disk("w", "d")]
    one = scheduler(machine("n"), limits("n", 2), CLASS, *volumes, user("own", "c", nodeName=""))
    assert attached(one) == {("n", "v")}
    unused = scheduler(machine("n"), limits("n", 1), CLASS, *volumes)
    for each, pairs in (one, set[tuple[str, str]]()), (unused, {("n", "v")}):
        each.change.apply(user("other", "d"))
        each.run()
        each.change.delete("pod/other")
        if each is one:
            each.change.delete("pod/own")
        assert attached(each) == pairs


def test_a_volume_is_detached_with_its_last_pod() -> None:
    pods = [user(name, "c", nodeName="n") for name in ("p", "q")]
    one = scheduler(machine("n"), limits("n", 1), *disk("v", "c"), *pods)
    one.change.delete("pod/p")
    assert attached(one) == {("n", "v")}
    one.change.delete("pod/q")
    assert attached(one) == set()


def test_only_what_counts_is_attached() -> None:
    unlimited = scheduler(machine("n"), limits("n", None), *disk("v", "c"), user("p", "c", nodeName="n"))
    assert attached(unlimited) == set()
    driver = make("CSIDriver", DRIVER, {"attachRequired": False})
    objects = machine("n"), limits("n", 1), driver, *disk("v", "c"), user("p", "c", nodeName="n")
    assert attached(scheduler(*objects)) == set()
    foreign = scheduler(machine("n"), limits("n", 1, "x"), *disk("v", "c"), user("p", "c", nodeName="n"))
    assert attached(foreign) == set()


def test_a_claim_that_is_bound_under_a_running_pod_attaches() -> None:
    now = storage_class("now", DRIVER, waits=False)
    one = scheduler(machine("n"), limits("n", 1), now, claim("c", "now"), user("p", "c", nodeName="n"))
    one.run()
    assert len(attached(one)) == 1
    assert attached(one) == in_use(one)


@pytest.mark.parametrize("has_attachment", [True, False])
def test_evictions_do_not_detach_in_time_for_the_preemptor(has_attachment: bool) -> None:
    given = [attachment("v", "n")] if has_attachment else []
    low = user("low", "c", nodeName="n")
    one = scheduler(machine("n"), limits("n", 1), *disk("v", "c"), *disk("w", "d"), *given, low)
    one.change.apply(user("high", "d", priority=1000))
    result = one.run()
    assert (list(result.unschedulable), result.evicted) == (["default/high"], {})


def test_transactions_and_forks_have_attachments_of_their_own() -> None:
    disks = [*disk("v0", "d-db-0"), *disk("v1", "d-db-1")]
    nodes = [machine("a"), machine("b"), limits("a", 2), limits("b", 2)]
    one = scheduler(*nodes, CLASS, *disks, database(2))
    before = attached(one)
    branch = one.fork()
    with one.transaction():
        one.change.drain("a")
        one.run()
        assert attached(one) == {("b", "v0"), ("b", "v1")}
    assert attached(one) == before
    branch.change.drain("b")
    branch.run()
    assert attached(branch) == {("a", "v0"), ("a", "v1")}
    assert attached(one) == before
    one.change.drain("a")
    one.run()
    assert attached(one) == {("b", "v0"), ("b", "v1")}


# ---- volumes of one node at a time -------------------------------------------------------------------------


STATES = ("a", "Running"), ("b", "Pending")


def waits(one: Scheduler) -> set[str]:
    """The pods that their volume keeps from starting."""
    assert one.controllers is not None
    error = one.controllers.attachments.multi_attach_error
    return {each.name for each in one.client.list(Pod)[0] if error(each, each.spec.node_name)}


def ready(one: Scheduler) -> set[str]:
    return {each.name for each in one.client.list(Pod)[0] if is_healthy(each)}


def shared(*on: str, status: Any = None) -> Scheduler:
    """Pods on nodes that share a claim."""
    users = [user(f"p{at}", "c", nodeName=node) for at, node in enumerate(on)]
    running = [edit(each, {"status": status or {"phase": "Running"}}) for each in users]
    return scheduler(*map(machine, "abc"), *disk("v", "c"), *running)


def test_a_pod_starts_when_its_volume_has_left_the_other_node() -> None:
    one = shared("a", "a")
    one.change.apply(user("q", "c", nodeSelector={"kubernetes.io/hostname": "b"}))
    one.change.apply(user("r", "c", nodeSelector={"kubernetes.io/hostname": "a"}))
    one.run()
    assert waits(one) == {"q"}
    assert ready(one) == {"p0", "p1", "r"}
    for name in ("p0", "p1"):
        one.change.delete(f"pod/{name}")
        one.run()
        assert waits(one) == {"q"}
    one.change.delete("pod/r")
    one.run()
    assert waits(one) == set()
    assert ready(one) == {"q"}


def test_waiting_is_undone_and_the_same_in_a_fork() -> None:
    one = shared("a")
    with one.transaction():
        one.change.apply(user("q", "c", nodeSelector={"kubernetes.io/hostname": "b"}))
        one.run()
        assert waits(one) == {"q"}
    one.change.delete("pod/p0")
    one.change.apply(user("q", "c", nodeSelector={"kubernetes.io/hostname": "b"}))
    branch = one.fork()
    branch.run()
    one.run()
    assert waits(one) == waits(branch) == set()


GCE, FC = {"gcePersistentDisk": {"pdName": "v"}}, {"fc": {"wwids": ["v"]}}


@pytest.mark.parametrize(
    ("modes", "source", "is_kept"),
    [
        (["ReadWriteOncePod"], FC, True),
        (["ReadWriteOnce", "ReadOnlyMany"], FC, False),
        (["ReadWriteMany"], GCE, True),
        (["ReadWriteOnce", "ReadOnlyMany"], GCE, True),
        (["ReadOnlyMany"], GCE, False),
        (["ReadWriteOnce"], {"local": {"path": "/d"}}, False),
    ],
)
def test_access_modes_and_plugin_decide_whether_a_volume_is_on_one_node(
    modes: list[str], source: dict[str, Any], is_kept: bool
) -> None:
    disk_volume, disk_claim = disk("v", "c")
    spec = {"csi": None, "accessModes": modes, **source}
    pods = [edit(user(node, "c", nodeName=node), {"status": {"phase": phase}}) for node, phase in STATES]
    one = scheduler(*map(machine, "ab"), edit(disk_volume, {"spec": spec}), disk_claim, *pods)
    one.run()
    assert waits(one) == ({"b"} if is_kept else set())


@pytest.mark.parametrize("is_read", [False, True])
def test_a_disk_without_a_claim_is_on_one_node_unless_it_is_only_read(is_read: bool) -> None:
    inline = [{"name": "v", "gcePersistentDisk": {"pdName": "v", "readOnly": is_read}}]
    pods = [pod(node, {"volumes": inline, "nodeName": node}) for node in "ab"]
    running = [
        edit(each, {"status": {"phase": phase}}) for each, (_, phase) in zip(pods, STATES, strict=True)
    ]
    one = scheduler(*map(machine, "ab"), limits("a", None), *running)
    one.run()
    assert waits(one) == (set() if is_read else {"b"})


def test_pods_that_run_are_left_alone_and_those_that_start_elsewhere_wait() -> None:
    one = shared("a", "b")
    one.run()
    assert ready(one) == {"p0", "p1"}
    starting = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}
    one = scheduler(
        *map(machine, "ab"),
        *disk("v", "c"),
        edit(user("p0", "c", nodeName="a"), {"status": {"phase": "Running"}}),
        edit(user("p1", "c", nodeName="b"), {"status": starting}),
    )
    one.run()
    assert (waits(one), ready(one)) == ({"p1"}, {"p0"})
    one.change.delete("pod/p0")
    one.run()
    assert (waits(one), ready(one)) == (set(), {"p1"})


def test_a_drain_waits_for_a_volume_whose_other_pod_has_a_budget() -> None:
    """Both pods use one volume: the first one does not become ready elsewhere, so the second one stays."""
    claims = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    web = workload("ReplicaSet", "web", {"replicas": 2, "template": template("web", "100m", **claims)})
    budget = make(
        "PodDisruptionBudget", "web", {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    )
    one = scheduler(machine("a"), web, budget, *disk("v", "c"))
    one.change.add_nodes(1, like="a")
    assert one.change.drain("a").unfinished
    one.run()
    (left,) = (each for each in one.client.list(Pod)[0] if each.spec.node_name == "a")
    assert len(waits(one)) == 1
    assert one.change.evict([left]).kept


# ---- random histories --------------------------------------------------------------------------------------


def random_world(random: Random, has_attachments: bool) -> Scheduler:
    nodes, objects = ["a", "b", "c"], list[Object]()
    for node in nodes:
        objects += [machine(node, cpu=8), limits(node, random.choice([1, 2, 3, None]))]
    objects += running(4, lambda _: random.choice(nodes), has_attachments)
    return scheduler(*objects, *disk("stale", "stale"), attachment("stale", random.choice(nodes)))


def steps(random: Random) -> list[Callable[[Scheduler], object]]:
    made: list[Callable[[Scheduler], object]] = []
    for _ in range(6):
        node, count = random.choice("abc"), random.randint(0, 6)
        made.append(
            random.choice(
                [
                    lambda one, node=node: one.change.drain(node),
                    lambda one, node=node: one.change.uncordon(node),
                    lambda one, count=count: one.change.scale("sts/db", count),
                    lambda one: one.change.restart("sts/db"),
                    lambda one, node=node: one.change.add_nodes(1, node),
                    lambda one: one.run(),
                ]
            )
        )
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_attachments_are_those_of_the_pods_and_both_dumps_answer_alike(seed: int) -> None:
    limited = random_world(Random(seed), True)
    (stale,) = [pair for pair in attached(limited) if pair[1] == "stale"]
    bare = random_world(Random(seed), False)
    for step in steps(Random(seed + 1000)):
        for one in (limited, bare):
            with one.transaction():
                step(one)
                one.run()
            step(one)
        assert limited.run().placements == bare.run().placements
        all_of_bare = of_claims(bare, attached(bare))
        assert of_claims(limited, attached(limited)) >= all_of_bare
        counting = {
            each.name
            for each in bare.client.list(CSINode)[0]
            if any(driver.allocatable is not None for driver in each.spec.drivers)
        }
        assert {pair for pair in in_use(bare) if pair[0] in counting} | {stale} == attached(bare)
        of_limited = {pair for pair in attached(limited) if pair[0] in counting}
        assert of_claims(limited, of_limited) - {stale} == all_of_bare - {stale}
