"""StatefulSets start their pods in order and replace them after a change of the template."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.workloads.make import all_pods, machine, pods, replicas, scheduler, template
from tests.make import make
from tests.objects.make import owned, pod

import moorage as mo
from moorage import Scheduler
from moorage.kube import (
    ControllerRevision,
    Object,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    build_cluster,
    write,
)

PARALLEL = {"podManagementPolicy": "Parallel"}


def db(count: int, cpu: str = "1", **spec: Any) -> Object:
    return replicas("StatefulSet", "db", count, cpu, **spec)


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


def cpus(one: Scheduler) -> dict[str, str]:
    """What each pod asks for."""
    one.sync()
    found: list[Pod] = one.client.list(Pod)[0]
    return {each.name: each.spec.containers[0].resources.requests["cpu"] for each in found}


def read(one: Scheduler) -> StatefulSet:
    found: StatefulSet = one.client.get(StatefulSet, "db", "default")
    return found


# ---- claims ------------------------------------------------------------------------------------------------


def with_claims(**policy: str) -> Object:
    templates = [{"metadata": {"name": "d"}, "spec": {"storageClassName": "x"}}]
    spec: dict[str, Any] = {"persistentVolumeClaimRetentionPolicy": policy, "volumeClaimTemplates": templates}
    return db(2, **PARALLEL, **spec)


def claims(one: Scheduler) -> list[str]:
    one.sync()
    return [each.name for each in one.client.list(PersistentVolumeClaim)[0]]


@pytest.mark.parametrize("former", ["", "Retain", "Delete"])
@pytest.mark.parametrize(
    ("scaled", "deleted", "after_scale", "after_deletion"),
    [
        ("Retain", "Retain", ["d-db-0", "d-db-1"], ["d-db-0", "d-db-1"]),
        ("Retain", "Delete", ["d-db-0", "d-db-1"], []),
        ("Delete", "Retain", ["d-db-0"], ["d-db-0"]),
        ("Delete", "Delete", ["d-db-0"], []),
    ],
)
def test_claims_go_as_the_retention_policy_says(
    former: str, scaled: str, deleted: str, after_scale: list[str], after_deletion: list[str]
) -> None:
    final = with_claims(whenScaled=scaled, whenDeleted=deleted)
    one = scheduler(machine("n"), with_claims(whenScaled=former, whenDeleted=former) if former else final)
    one.change.apply(final)
    assert claims(one) == ["d-db-0", "d-db-1"]
    one.change.delete("pod/db-1")
    assert claims(one) == ["d-db-0", "d-db-1"]
    one.change.scale("sts/db", 1)
    assert claims(one) == after_scale
    one.change.delete("sts/db")
    assert claims(one) == after_deletion


def test_claims_of_other_controllers_are_left_alone() -> None:
    final = with_claims(whenScaled="Delete", whenDeleted="Delete")
    one = scheduler(
        machine("n"), final, make("PersistentVolumeClaim", "d-db-0", metadata=owned("Backup", "nightly"))
    )
    one.change.delete("pod/db-1")
    second: PersistentVolumeClaim = one.client.get(PersistentVolumeClaim, "d-db-1", "default")
    former = make("PersistentVolumeClaim", "", metadata=owned("Pod", "db-1", uid="former")).metadata
    meta = replace(second.metadata, owner_references=former.owner_references)
    one.client.update(replace(second, metadata=replace(meta, resource_version="")))
    one.change.scale("sts/db", 0)
    one.change.delete("sts/db")
    assert claims(one) == ["d-db-0", "d-db-1"]


# ---- order -------------------------------------------------------------------------------------------------


def test_each_pod_waits_for_the_one_before() -> None:
    one = mo.Scheduler(build_cluster([machine("n", cpu=2), db(3)]))
    assert list(pods(one)) == ["db-0"]
    result = one.run()
    assert list(result.placements) == ["default/db-0", "default/db-1"]
    assert list(result.unschedulable) == ["default/db-2"]


def test_nothing_follows_a_pod_without_a_node() -> None:
    one = scheduler(machine("n", cpu=2), db(3, "3"))
    assert pods(one) == {"db-0": ""}
    (rollout,) = one.ask.rollouts()
    assert (rollout.workload, rollout.without_node) == ("StatefulSet default/db", ("default/db-0",))
    assert (rollout.replicas, rollout.available) == (3, 0)
    one.change.add_nodes(3, machine("big", cpu=4))  # type: ignore[arg-type]
    one.run()
    assert list(pods(one)) == ["db-0", "db-1", "db-2"]
    assert one.ask.rollouts() == []


def test_parallel_pods_come_and_go_at_once() -> None:
    one = mo.Scheduler(build_cluster([machine("n", cpu=1), db(3, **PARALLEL)]))
    assert list(pods(one)) == ["db-0", "db-1", "db-2"]
    assert len(one.run().unschedulable) == 2
    one.change.scale("sts/db", 0)
    assert pods(one) == {}


def test_pods_beyond_the_replicas_go_from_the_highest() -> None:
    one = scheduler(machine("n"), db(4))
    watch = one.client.watch(Pod)
    watch.poll()  # the pods that are there
    one.change.scale("sts/db", 1)
    assert pods(one) == {"db-0": "n", "db-1": "n", "db-2": "n"}  # one after the other
    one.run()
    assert pods(one) == {"db-0": "n"}
    assert [event.object.name for event in watch.poll() if event.type == "DELETED"] == [
        "db-3",
        "db-2",
        "db-1",
    ]


def test_no_pod_goes_while_one_that_stays_is_sick() -> None:
    one = scheduler(machine("n"), db(3))
    sick: Pod = one.client.get(Pod, "db-0", "default")
    conditions = ({"type": "Ready", "status": "False"},)
    ready = mo.edit(sick, {"status.conditions": conditions})
    one.client.update(ready)
    one.change.scale("sts/db", 1)
    assert len(pods(one)) == 3
    one.client.update(replace(one.client.get(Pod, "db-0", "default"), status=sick.status))
    one.run()
    assert list(pods(one)) == ["db-0"]


def test_min_ready_seconds_pass_between_pods() -> None:
    cluster = build_cluster([machine("n"), db(3, minReadySeconds=10)])
    now = [0.0]
    one = mo.Scheduler(cluster, clock=lambda: now[0])
    seen = []
    for now[0] in (0.0, 19.0, 20.0, 40.0):  # 10 until a pod is ready, and 10 more
        one.run()
        seen.append(len(pods(one)))
    assert seen == [1, 1, 2, 3]
    assert len(scheduler(machine("n"), db(3, minReadySeconds=10)).pods.indexer.values()) == 3


# ---- rolling updates ---------------------------------------------------------------------------------------


def test_pods_are_replaced_from_the_highest_one_by_one() -> None:
    one = scheduler(machine("n"), db(3))
    watch = one.client.watch(Pod)
    watch.poll()  # the pods that are there
    one.change.apply(db(3, "1200m"))
    one.run()
    assert set(cpus(one).values()) == {"1200m"}
    events = [(event.type, event.object.name) for event in watch.poll()]
    order = [name for what, name in events if what == "DELETED"]
    assert order == ["db-2", "db-1", "db-0"]
    for name, following in pairwise(order):  # bound again before the next one goes
        again = max(at for at, event in enumerate(events) if event == ("MODIFIED", name))
        assert again < events.index(("DELETED", following))
    assert one.ask.rollouts() == []
    assert read(one).status.current_revision == read(one).status.update_revision


def test_a_pod_that_fits_nowhere_stops_the_rollout() -> None:
    one = scheduler(machine("n", cpu=4), db(3))
    one.change.apply(db(3, "3"))
    result = one.run()
    assert list(result.unschedulable) == ["default/db-2"]
    assert cpus(one) == {"db-0": "1", "db-1": "1", "db-2": "3"}
    (rollout,) = one.ask.rollouts()
    assert (rollout.updated, rollout.without_node) == (1, ("default/db-2",))
    one.change.apply(db(3))  # back to the first template: the waiting pod blocks nothing
    one.run()
    assert cpus(one)["db-2"] == "3"  # with OrderedReady the controller waits for it (kubernetes, issue 67250)
    one.client.delete(Pod, "db-2", "default")
    one.run()
    assert (set(cpus(one).values()), one.ask.rollouts()) == ({"1"}, [])


@pytest.mark.parametrize(("partition", "new"), [(0, 3), (2, 1), (3, 0), (9, 0)])
def test_pods_below_the_partition_keep_their_template(partition: int, new: int) -> None:
    one = scheduler(machine("n"), db(3))
    one.change.apply(db(3, "1200m", **rolling(partition=partition)))
    one.run()
    assert list(cpus(one).values()).count("1200m") == new
    assert one.ask.rollouts() == []


def test_a_lost_pod_below_the_partition_comes_back_as_it_was() -> None:
    one = scheduler(machine("n"), db(3))
    one.change.apply(db(3, "1200m", **rolling(partition=2)))
    one.run()
    for name in ("db-0", "db-1", "db-2"):
        one.client.delete(Pod, name, "default")
    one.run()
    assert cpus(one) == {"db-0": "1", "db-1": "1", "db-2": "1200m"}


def test_on_delete_replaces_what_is_deleted() -> None:
    one = scheduler(machine("n"), db(3, updateStrategy={"type": "OnDelete"}))
    one.change.apply(db(3, "1200m", updateStrategy={"type": "OnDelete"}))
    one.run()
    assert set(cpus(one).values()) == {"1"}
    one.client.delete(Pod, "db-1", "default")
    one.run()
    assert cpus(one) == {"db-0": "1", "db-1": "1200m", "db-2": "1"}


@pytest.mark.parametrize(("gate", "value", "gone"), [(False, 3, 1), (True, 3, 3), (True, "50%", 2)])
def test_max_unavailable_counts_with_its_gate(gate: bool, value: int | str, gone: int) -> None:
    gates = {"MaxUnavailableStatefulSet": True} if gate else {}
    first = db(5, **PARALLEL)
    one = scheduler(machine("n", cpu=9), first, feature_gates=gates)
    one.change.apply(db(5, "4", **PARALLEL, **rolling(maxUnavailable=value)))
    one.sync()
    assert len(all_pods(one)) - len(pods(one)) == gone


def test_a_template_that_comes_back_is_the_revision_of_before() -> None:
    one = scheduler(machine("n"), db(2))
    first = read(one).status.update_revision
    for cpu in ("1200m", "1"):
        one.change.apply(db(2, cpu))
        one.run()
    assert read(one).status.update_revision == first
    found: list[ControllerRevision] = one.client.list(ControllerRevision)[0]
    assert sorted(each.revision for each in found) == [2, 3]
    one.change.delete("sts/db")
    assert one.client.list(ControllerRevision)[0] == []


def test_a_rollout_is_undone_and_made_on_forks() -> None:
    one = scheduler(machine("n", cpu=5), db(3, minReadySeconds=5))
    before = cpus(one), read(one)
    with one.transaction():
        one.change.apply(db(3, "1200m", minReadySeconds=5))
        one.sync()
        branch = one.fork()
        branch.run()
        assert set(cpus(branch).values()) == {"1200m"}
    assert (cpus(one), read(one), one.ask.rollouts()) == (*before, [])
    one.change.apply(db(3, "1200m", minReadySeconds=5))
    one.run()
    assert set(cpus(one).values()) == {"1200m"}


# ---- files -------------------------------------------------------------------------------------------------


def listed(number: int, revision: str, cpu: str = "1", **status: Any) -> Object:
    owner = [{"kind": "StatefulSet", "name": "db", "controller": True}]
    labels = {"app": "db", "controller-revision-hash": revision}
    meta = {
        "ownerReferences": owner,
        "labels": labels,
        "creationTimestamp": f"2024-01-0{number + 1}T00:00:00Z",
    }
    spec = template("db", cpu)["spec"] | {"nodeName": "n"}
    return pod(f"db-{number}", spec, metadata=meta, status={"phase": "Running"} | status)


def test_pods_of_a_dump_that_have_the_template_stay() -> None:
    """A sidecar that admission has added is no other template; nor is a pod without the label."""
    spec = template("db")["spec"]
    spec = {"containers": [*spec["containers"], {"name": "proxy"}], "nodeName": "n"}
    sidecar = [mo.edit(listed(at, "db-x"), {"spec": make_spec(spec)}) for at in (0, 1)]
    cluster = build_cluster([machine("n"), db(2), *sidecar])
    uids = {each.metadata.uid for each in cluster.pods}
    one = mo.Scheduler(cluster)
    one.run()
    assert {each.metadata.uid for each in one.client.list(Pod)[0]} == uids


def make_spec(spec: dict[str, Any]) -> Any:
    made: Any = pod("p", spec)
    return made.spec


def test_the_status_of_a_dump_tells_the_revision() -> None:
    """The pods do not show the template, as a limit range has given them requests; their revision is its."""
    bare = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 2, "template": bare}
    status = {"currentRevision": "db-x", "updateRevision": "db-x"}
    owner = make("StatefulSet", "db", spec, status=status)
    one = scheduler(machine("n"), owner, listed(0, "db-x"), listed(1, "db-x"))
    assert set(cpus(one).values()) == {"1"}
    assert one.ask.rollouts() == []


def test_a_template_of_a_later_file_is_rolled_out(tmp_path: Path) -> None:
    """Also where it changes what admission may change in pods, so that pods alone do not show it."""
    first, second = tmp_path / "dump.json", tmp_path / "change.json"
    write(first, [machine("n"), db(2), listed(0, "db-x"), listed(1, "db-x")])
    moved = template("db", nodeSelector={"pool": "other"})
    write(second, [db(2, template=moved)])
    one = mo.Scheduler(mo.load(first, second))
    result = one.run()
    assert list(result.unschedulable) == ["default/db-1"]
    assert mo.Scheduler(mo.load(first)).run().unschedulable == {}
