"""What a change makes is younger than all that wait; pods take time to start, to become ready and to stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.workloads.make import all_pods, pods, template
from tests.make import accepted

import moorage as mo
from moorage import Scheduler
from moorage.cli import main
from moorage.kube import Pod

Json = dict[str, Any]
OLD, WAITS, LATE = (f"2026-0{month}-01T00:00:00Z" for month in (1, 2, 3))
AT_ONCE = mo.PodTimes(start=0, ready=0, stop=0)
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def thing(kind: str, name: str, spec: Json, created: str = "", **rest: Any) -> Json:
    """An object of a manifest, or of a server if it has a creation time."""
    told = {"creationTimestamp": created, "uid": f"{kind}-{name}", "resourceVersion": "1"} if created else {}
    return {"kind": kind, "metadata": {"name": name} | told | rest.pop("metadata", {}), "spec": spec} | rest


def machine(name: str, cpu: int, created: str = OLD, ready: str = "True") -> Json:
    conditions = [{"type": "Ready", "status": ready}]
    status = {"capacity": {"cpu": str(cpu), "memory": "8Gi", "pods": "20"}, "conditions": conditions}
    return thing(
        "Node", name, {}, created, status=status, metadata={"labels": {"kubernetes.io/hostname": name}}
    )


def waiting(created: str = WAITS, cpu: str = "1") -> Json:
    return thing("Pod", "wait", template("wait", cpu)["spec"], created)


def workload(kind: str, name: str, count: int, created: str = "", cpu: str = "1", **spec: Any) -> Json:
    number = "parallelism" if kind == "Job" else "replicas"
    field = {} if kind == "DaemonSet" else {number: count}
    return thing(kind, name, accepted(kind, {"template": template(name, cpu)} | field | spec), created)


def member(name: str, owner: str, created: str, node: str, image: str = "", **rest: Any) -> Json:
    """A pod of a ReplicaSet, or of the DaemonSet `log`."""
    kind, _, owner = owner.partition("/")
    ref = {"kind": kind, "name": owner, "uid": f"{kind}-{owner}", "controller": True}
    labels = {"app": owner.split("-")[0]} | (
        {"pod-template-hash": owner.split("-")[1]} if kind == "ReplicaSet" else {}
    )
    spec = template("x")["spec"] | {"nodeName": node}
    if image:
        spec["containers"][0]["image"] = image
    meta = {"labels": labels, "ownerReferences": [ref]} | rest.pop("metadata", {})
    return thing("Pod", name, spec, created, metadata=meta, **({"status": READY} | rest))


def revision(mark: str, count: int, image: str, number: int) -> Json:
    """A ReplicaSet of the Deployment web."""
    labels = {"app": "web", "pod-template-hash": mark}
    own = template("web") | {"metadata": {"labels": labels}}
    own["spec"]["containers"][0]["image"] = image
    ref = {"kind": "Deployment", "name": "web", "uid": "Deployment-web", "controller": True}
    notes = {"deployment.kubernetes.io/revision": str(number)}
    spec = {"replicas": count, "template": own, "selector": {"matchLabels": labels}}
    meta = {"ownerReferences": [ref], "annotations": notes, "labels": labels}
    return thing("ReplicaSet", f"web-{mark}", spec, OLD, metadata=meta)


def web(image: str, count: int, surge: int, unavailable: int, created: str = OLD, **rest: Any) -> Json:
    own = template("web")
    own["spec"]["containers"][0]["image"] = image
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = {
        "replicas": count,
        "template": own,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }
    return thing("Deployment", "web", spec, created, **rest)


def by_file(dump: list[Json], change: list[Json]) -> Scheduler:
    return mo.Scheduler(mo.load(dump, change))


def by_library(dump: list[Json], change: list[Json]) -> Scheduler:
    one = mo.Scheduler(mo.load(dump))
    one.change.apply(change)
    return one


WAYS = pytest.mark.parametrize("made", [by_file, by_library])
Way = Callable[[list[Json], list[Json]], Scheduler]


# ---- ages and order ----------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize(
    "kind",
    ["Deployment", "ReplicaSet", "StatefulSet", "Job", "ReplicationController", "DaemonSet", "CloneSet"],
)
@pytest.mark.parametrize("created", ["", OLD, LATE])
def test_what_a_change_makes_comes_after_all_that_wait(made: Way, kind: str, created: str) -> None:
    """Whether the workload is new, older than the waiting pod, or younger."""
    if kind == "DaemonSet":
        before, after = ({"nodeSelector": {"kubernetes.io/hostname": name}} for name in ("x", "n"))
    else:
        before, after = {}, {}
    specs = [workload(kind, "web", count, created) for count in (0, 2)]
    for spec, more in zip(specs, (before, after), strict=True):
        spec["spec"]["template"]["spec"] |= more
    dump = [machine("n", 1), waiting(), *(specs[:1] if created else [])]
    result = made(dump, [specs[1] | {"metadata": {"name": "web"}}]).run()
    assert list(result.placements) == ["default/wait"]


@WAYS
def test_a_single_pod_of_a_change_comes_after_all_that_wait(made: Way) -> None:
    change = [thing("Pod", "new", template("new")["spec"])]
    assert list(made([machine("n", 1), waiting()], change).run().placements) == ["default/wait"]


@WAYS
@pytest.mark.parametrize("first", ["new", "web"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
def test_a_change_is_handled_in_its_order(made: Way, first: str, kind: str) -> None:
    own = {"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    dump = [machine("n", 2), workload(kind, "web", 0, OLD, **own)]
    change = [workload(kind, name, 2, **own) for name in ("new", "web")]
    one = made(dump, change if first == "new" else change[::-1])
    assert all(key.startswith(f"default/{first}") for key in one.run().placements)
    assert len(pods(one, first)) == 2


@WAYS
@pytest.mark.parametrize("kind", ["StatefulSet", "Job"])
@pytest.mark.parametrize("created", ["", OLD])
def test_a_deployment_has_its_turn_although_its_replica_set_makes_the_pods(
    made: Way, kind: str, created: str
) -> None:
    dump = [machine("n", 1), *([workload("Deployment", "web", 0, OLD)] if created else [])]
    one = made(dump, [workload("Deployment", "web", 1), workload(kind, "new", 1)])
    assert [key.partition("-")[0] for key in one.run().placements] == ["default/web"]


@WAYS
@pytest.mark.parametrize("created", ["", OLD])
def test_a_single_pod_of_a_change_has_its_turn(made: Way, created: str) -> None:
    """Also where the change only scales a workload that was there."""
    dump = [machine("n", 1), *([workload("Deployment", "web", 0, OLD)] if created else [])]
    change = [workload("Deployment", "web", 1), thing("Pod", "new", template("new")["spec"])]
    for expected, objects in (("web", change), ("new", change[::-1])):
        placed = made(dump, objects).run().placements
        assert [key.removeprefix("default/").partition("-")[0] for key in placed] == [expected]


def added(dump: list[Json], _: list[Json]) -> Scheduler:
    one = mo.Scheduler(mo.load(dump))
    one.change.add_nodes(1, "n")
    return one


@pytest.mark.parametrize("created", [OLD, LATE])
@pytest.mark.parametrize("made", [by_file, by_library, added])
def test_daemons_are_on_a_new_node_before_those_that_wait(made: Way, created: str) -> None:
    """Also those of a DaemonSet that is younger than the waiting pod."""
    there = member("log-a", "DaemonSet/log", created, "n")
    dump = [machine("n", 1), workload("DaemonSet", "log", 0, created), there, waiting()]
    one = made(dump, [machine("m", 1, "")])
    result = one.run()
    assert list(result.unschedulable) == ["default/wait"]
    assert len(all_pods(one, "log")) == 2


# ---- time --------------------------------------------------------------------------------------------------

FULL = [
    machine("n", 3),
    web("new", 2, 1, 0),
    revision("old", 2, "old", 1),
    revision("new", 1, "new", 2),
    *(member(f"web-old-{at}", "ReplicaSet/web-old", OLD, "n", "old") for at in "ab"),
]
STARTS = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}


def test_a_pod_that_waits_gets_the_room_of_one_that_a_rollout_replaces() -> None:
    dump = [*FULL, member("web-new-a", "ReplicaSet/web-new", OLD, "n", "new", status=STARTS), waiting()]
    one = mo.Scheduler(mo.load(dump))
    result = one.run()
    assert list(result.placements) == ["default/wait"]
    assert len(result.unschedulable) == 1
    assert [str(each) for each in one.ask.rollouts()] != []


def moving() -> list[Json]:
    """A Deployment with one pod on a node that it fills."""
    its = [web("old", 1, 0, 1), revision("old", 1, "old", 1)]
    pod = member("web-old-a", "ReplicaSet/web-old", OLD, "n", "old")
    return [machine("n", 1), machine("m", 2), *its, pod]


def test_a_successor_is_tried_before_the_room_of_its_predecessor_is_free() -> None:
    one = mo.Scheduler(mo.load(moving(), [web("new", 1, 0, 1, "")]))
    assert list(one.run().placements.values()) == ["m"]
    assert list(all_pods(one).values()) == ["m"]


def test_time_passes_until_pods_are_ready_and_have_stopped() -> None:
    change = [web("new", 1, 1, 0, "")]
    dump = [machine("n", 3), web("old", 1, 1, 0), revision("old", 1, "old", 1)]
    dump.append(member("web-old-a", "ReplicaSet/web-old", OLD, "n", "old"))
    passed = []
    slow = mo.PodTimes(start=20, ready=10, stop=90)
    for times in (AT_ONCE, mo.PodTimes(), slow, lambda pod: slow):
        one = mo.Scheduler(mo.load(dump, change), pod_times=times)
        began = one.client.now()
        one.run()
        passed.append(one.client.now() - began)
        assert len(all_pods(one)) == 1
    assert passed == [
        0,
        2 + 8 + 5,
        20 + 10 + 30,
        20 + 10 + 30,
    ]  # a pod is killed at the end of its grace period


def test_a_fork_and_a_transaction_keep_the_time() -> None:
    one = mo.Scheduler(mo.load(FULL))
    began = one.client.now()
    with one.transaction():
        one.run()
        assert one.client.now() > began
    assert one.client.now() == began
    branch = one.fork()
    branch.run()
    assert branch.client.now() > one.client.now() == began  # type: ignore[attr-defined]


# ---- pods that are not ready, and nodes that do not report -------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "updated", "restarts", "goes_on"),
    [
        ("ReplicaSetUpdated", OLD, 0, True),
        ("ReplicaSetUpdated", OLD, 3, False),
        ("NewReplicaSetAvailable", OLD, 0, False),
        ("ReplicaSetUpdated", "2025-12-31T23:00:00Z", 0, False),
        ("ReplicaSetUpdated", "yesterday", 0, False),
    ],
)
def test_a_rollout_in_flight_goes_on(reason: str, updated: str, restarts: int, goes_on: bool) -> None:
    state = {"name": "c", "restartCount": restarts, "state": {"running": {}}}
    its = STARTS | {"phase": "Running", "containerStatuses": [state]}
    told = {"type": "Progressing", "status": "True", "reason": reason, "lastUpdateTime": updated}
    dump = [machine("n", 9), web("new", 2, 1, 0, status={"conditions": [told]}), *FULL[2:]]
    one = mo.Scheduler(
        mo.load([*dump, member("web-new-a", "ReplicaSet/web-new", OLD, "n", "new", status=its)])
    )
    one.run()
    assert (one.ask.rollouts() == []) == goes_on


@pytest.mark.parametrize("taint", ["", "node.kubernetes.io/out-of-service"])
def test_a_daemon_on_a_node_that_does_not_report_holds_a_rollout(taint: str) -> None:
    lost = machine("lost", 4, ready="Unknown")
    if taint:
        lost["spec"] = {"taints": [{"key": taint, "effect": "NoExecute"}]}
    old, new = (workload("DaemonSet", "log", 0, OLD) for _ in range(2))
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "new"
    unready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    mark = {"metadata": {"labels": {"app": "log", "controller-revision-hash": "1"}}}
    its = [
        member("log-a", "DaemonSet/log", OLD, "n", **mark),
        member("log-b", "DaemonSet/log", OLD, "lost", status=unready, **mark),
    ]
    for pod in its:
        pod["metadata"]["ownerReferences"] = [
            {"kind": "DaemonSet", "name": "log", "uid": "DaemonSet-log", "controller": True}
        ]
    change = new | {"metadata": {"name": "log"}}
    one = mo.Scheduler(mo.load([machine("n", 4), lost, old, *its], [change]))
    one.run()
    going = {pod.name for pod in one.client.list(Pod)[0] if pod.metadata.deletion_timestamp is not None}
    assert going == (set() if taint else {"log-b"})
    assert ("log-a" in pods(one)) == (not taint)


# ---- the option --------------------------------------------------------------------------------------------


def test_the_times_of_pods_are_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}
    wish = [{"weight": 100, "preference": {"matchExpressions": [there]}}]
    prefers = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}}
    new = web("new", 1, 0, 1, "")
    new["spec"]["template"]["spec"]["affinity"] = prefers
    path, change = tmp_path / "dump.json", tmp_path / "change.json"
    change.write_text(json.dumps(new | {"apiVersion": "apps/v1"}))
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": moving()}))
    assert main(["simulate", "-f", str(path), "--pod-times", "1", "1", "-1"]) == 2
    assert "--pod-times" in capsys.readouterr().err
    found = []
    for times in ([], ["--pod-times", "0", "0", "0"]):
        main(["simulate", "-f", str(path), "-f", str(change), *times, "-o", "json"])
        found += json.loads(capsys.readouterr().out)["workloads"][0]["nodes"]
    assert found == ["m", "n"]  # the old pod has gone at once


def test_a_clock_begins_at_the_newest_creation_of_any_kind_of_text() -> None:
    texts = ("2026-01-02T00:00:00Z", "2026-01-02T01:30:00+01:00", "2025-12-31T23:59:59Z", "")
    nodes = [machine(f"n{at}", 1, text) for at, text in enumerate(texts)]
    scheduler = Scheduler(mo.load(nodes))
    scheduler.change.apply(waiting(created=""))
    (pod,) = scheduler.pods.pending.values()
    assert pod.metadata.creation_timestamp == "2026-01-02T00:30:00Z"
