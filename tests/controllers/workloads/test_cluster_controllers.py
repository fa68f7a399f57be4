"""Pods of workloads come back, go with their owners and nodes, and Deployments are rolled out."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.workloads.make import (
    daemons,
    job,
    machine,
    pods,
    replicas,
    scheduler,
    template,
)
from tests.make import make
from tests.objects.make import owned, pod, workload

import moorage as mo
from moorage import Scheduler
from moorage.kube import (
    Deployment,
    Node,
    Object,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    StatefulSet,
    build_cluster,
)
from moorage.store import ObjectStore

PROTECTION = "kubernetes.io/pvc-protection"

CHANGED = {"minReadySeconds": 30, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}


def lose(one: Scheduler, name: str) -> Pod:
    lost: Pod = one.client.get(Pod, name, "default")
    one.client.delete(Pod, name, "default")
    return lost


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "ReplicationController"])
def test_a_lost_pod_comes_back_under_another_name(kind: str) -> None:
    one = scheduler(machine("n"), replicas(kind, "web", 3))
    before = pods(one)
    lost = lose(one, min(before))
    result = one.run()
    (new,) = set(pods(one)) - set(before)
    assert (len(pods(one)), result.placements) == (3, {f"default/{new}": "n"})
    made = one.client.get(Pod, new, "default")
    assert made.metadata.uid not in ("", lost.metadata.uid)
    assert made.spec.containers == lost.spec.containers
    assert made.metadata.owner_references == lost.metadata.owner_references
    assert made.metadata.generate_name == lost.metadata.generate_name


def test_a_job_of_another_controller_is_left_alone() -> None:
    its = pod("p", metadata=owned("Job", "sum"))
    one = scheduler(machine("n"), job("sum", 2, suspend=True, managedBy="example.com/queue"), its)
    assert list(pods(one)) == ["p"]


def test_finished_pods_of_a_file_count_for_their_job() -> None:
    done = pod("d", metadata={"labels": {"app": "sum"}}, status={"phase": "Succeeded"})
    owner = [{"kind": "Job", "name": "sum", "controller": True}]
    done = replace(done, metadata=make("Pod", "d", metadata={"ownerReferences": owner}).metadata)
    one = scheduler(machine("n"), job("sum", 1, completions=2), done)
    name = next(name for name in pods(one) if name != "d")
    lose(one, name)
    one.run()
    assert len(pods(one)) == 2


def test_a_pod_without_owner_stays_lost() -> None:
    one = scheduler(machine("n"), pod("p"), replicas("ReplicaSet", "web", 1))
    lose(one, "p")
    one.run()
    assert "p" not in pods(one)


# ---- owners ----------------------------------------------------------------------------------------------


def test_what_a_workload_owns_goes_with_it() -> None:
    one = scheduler(
        machine("n"), replicas("Deployment", "web", 2), replicas("StatefulSet", "db", 1), pod("p")
    )
    one.client.delete(Deployment, "web", "default")
    one.client.delete(StatefulSet, "db", "default")
    assert list(pods(one)) == ["p"]
    assert one.client.list(ReplicaSet)[0] == []


def test_an_owner_that_is_made_again_does_not_keep_what_the_first_owned() -> None:
    web = replicas("ReplicaSet", "web", 2)
    one = scheduler(machine("n"), replace(web, metadata=replace(web.metadata, uid="first")))
    before = set(pods(one))
    old: ReplicaSet = one.client.get(ReplicaSet, "web", "default")
    one.client.delete(ReplicaSet, "web", "default")
    one.client.create(replace(old, metadata=replace(old.metadata, uid="second")))
    assert len(pods(one)) == 2
    assert before.isdisjoint(pods(one))


def test_a_namespace_takes_what_is_in_it() -> None:
    there: dict[str, Any] = {"metadata": {"namespace": "foo"}}
    gone = PodDisruptionBudget, PersistentVolumeClaim, Deployment, ReplicaSet
    one = scheduler(
        machine("n"),
        pod("p"),
        pod("q", **there),
        workload("Deployment", "web", {"replicas": 2}, **there),
        make("PersistentVolumeClaim", "c", metadata=there["metadata"] | {"finalizers": [PROTECTION]}),
        make("PodDisruptionBudget", "b", {"selector": {}, "minAvailable": 1}, **there),
    )
    assert len(pods(one)) == 4
    assert all(one.client.list(kind)[0] for kind in gone)
    branch = one.fork()
    for each in (one, branch):
        each.change.delete("ns/foo")
        assert list(pods(each)) == ["p"]
        assert not any(each.client.list(kind)[0] for kind in gone)


def test_orphans_are_adopted() -> None:
    one = scheduler(machine("n"), pod("p", metadata={"labels": {"app": "web"}}))
    one.change.apply(replicas("ReplicaSet", "web", 2))
    owner = one.client.get(Pod, "p", "default").metadata.controller()
    assert owner is not None
    assert (owner.kind, owner.name) == ("ReplicaSet", "web")
    assert len(pods(one)) == 2


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "ReplicationController", "StatefulSet"])
def test_with_fewer_replicas_pods_without_a_node_go_first(kind: str) -> None:
    one = scheduler(machine("n", cpu=2), replicas(kind, "web", 3))
    waiting = [name for name, on in pods(one).items() if not on]
    one.change.scale(f"{kind}/web", 2)
    assert set(waiting).isdisjoint(pods(one))
    assert list(pods(one).values()) == ["n", "n"]
    one.change.scale(f"{kind}/web", 0)
    one.run()  # a StatefulSet waits until one has stopped
    assert pods(one) == {}


def test_of_equal_pods_the_newest_on_the_fullest_node_goes() -> None:
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    one = scheduler(machine("a", cpu=8), replicas("ReplicaSet", "web", 3))
    one.run()
    cheap: Pod = one.client.get(Pod, min(pods(one)), "default")
    one.client.update(replace(cheap, metadata=replace(cheap.metadata, annotations=cost)))
    one.change.scale("rs/web", 2)
    assert cheap.name not in pods(one)


def ready(since: str, status: str = "True") -> dict[str, Any]:
    condition = {"type": "Ready", "status": status, "lastTransitionTime": since}
    return {"phase": "Running", "conditions": [condition]}


def restarted(number: int, **rest: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": number}]} | rest


OLD, YOUNG, NOW = "2025-01-01T00:00:00Z", "2025-01-01T00:05:00Z", "2025-01-08T00:00:00Z"


@pytest.mark.parametrize(("kind", "field"), [("ReplicaSet", "replicas"), ("Job", "parallelism")])
@pytest.mark.parametrize(
    ("first", "second", "gone"),
    [
        ({**ready(OLD), "phase": "Pending"}, ready(OLD, "False"), "first"),
        ({"phase": "Pending"}, ready(OLD, "False"), "second"),
        (ready(OLD, "False"), ready(OLD), "first"),
        (ready(OLD), ready(NOW), "second"),
        (ready(OLD), ready(YOUNG), "by age"),
        (restarted(4), restarted(5), "second"),
        (restarted(4, **ready(OLD)), restarted(5, **ready(NOW)), "second"),
    ],
)
def test_which_of_two_pods_goes(
    kind: str, field: str, first: dict[str, Any], second: dict[str, Any], gone: str
) -> None:
    its = [
        pod(
            uid,
            {"nodeName": "n"},
            metadata=owned(kind, "web", creationTimestamp=NOW) | {"uid": uid},
            status=status,
        )
        for uid, status in (("first", first), ("second", second))
    ]
    one = scheduler(machine("n"), workload(kind, "web", {field: 2}), *its)
    assert set(pods(one)) == {"first", "second"}
    owner: Any = one.client.get(kind, "web", "default")
    one.client.update(replace(owner, spec=replace(owner.spec, **{field: 1})))
    if gone == "by age":  # of one power of two, so that the lower UID decides; of a Job the newer one goes
        gone = "first" if kind == "ReplicaSet" else "second"
    assert {"first", "second"} - set(pods(one)) == {gone}


def test_claims_of_ephemeral_volumes_come_and_go_with_their_pod() -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "x"}}}}]
    spec = {"replicas": 1, "template": template("web", volumes=volumes)}
    one = scheduler(machine("n"), workload("ReplicaSet", "web", spec))
    lose(one, min(pods(one)))
    (name,) = pods(one)
    assert [claim.name for claim in one.client.list(PersistentVolumeClaim)[0]] == [f"{name}-v"]


# ---- nodes -----------------------------------------------------------------------------------------------


def test_daemons_follow_nodes() -> None:
    one = scheduler(machine("a"), daemons("log", nodeSelector={"pool": "x"}), daemons("net"))
    assert list(pods(one, "log")) == []
    one.client.create(build_cluster([machine("b", pool="x")]).nodes[0])
    one.run()
    assert list(pods(one, "log").values()) == ["b"]
    one.change.label("node/b", "pool=y")
    assert list(pods(one, "log")) == []
    one.client.delete(Node, "b")
    assert list(pods(one, "net").values()) == ["a"]


def test_a_daemon_that_waits_goes_with_its_node() -> None:
    one = scheduler(machine("a"), machine("b", cpu=0), daemons("log"))
    assert sorted(pods(one).values()) == ["", "a"]
    one.client.delete(Node, "b")
    assert list(pods(one).values()) == ["a"]


# ---- rollouts --------------------------------------------------------------------------------------------


def deployment(cpu: str = "1", count: int = 4, **spec: Any) -> Object:
    return replicas("Deployment", "web", count, cpu, **spec)


def steps(one: Scheduler) -> list[tuple[int, int]]:
    """The numbers of pods that stay, and of those with a node, after each change of a ReplicaSet in a run."""
    seen = []
    sync = one.context.sync

    def counted() -> bool:
        result = sync()
        found = [each for each in one.client.list(Pod)[0] if each.metadata.deletion_timestamp is None]
        seen.append((len(found), sum(bool(each.spec.node_name) for each in found)))
        return result

    one.context.sync = counted  # type: ignore[method-assign]
    one.run()
    return seen


@pytest.mark.parametrize(
    ("strategy", "most", "least"),
    [
        ({}, 5, 3),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, 4, 3),
        ({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}, 6, 4),
        ({"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "25%"}}, 6, 3),
        ({"type": "Recreate"}, 4, 0),
    ],
)
def test_a_changed_template_is_rolled_out(strategy: dict[str, Any], most: int, least: int) -> None:
    one = scheduler(machine("n", cpu=16), deployment(strategy=strategy))
    one.change.apply(deployment("2", strategy=strategy))
    seen = steps(one)
    assert max(count for count, _ in seen) == most
    assert min(bound for _, bound in seen) == least
    assert {each.spec.containers[0].resources.requests["cpu"] for each in one.client.list(Pod)[0]} == {"2"}
    assert one.ask.rollouts() == []
    assert sorted(each.spec.replicas for each in one.client.list(ReplicaSet)[0]) == [0, 4]


def test_a_rollout_that_is_stuck_names_its_pods() -> None:
    one = scheduler(machine("n", cpu=5), deployment())
    one.change.apply(deployment("3"))
    one.run()
    (rollout,) = one.ask.rollouts()
    assert (rollout.workload, rollout.replicas, rollout.available) == ("Deployment default/web", 4, 3)
    assert rollout.updated == len(rollout.without_node) == 2
    assert set(rollout.without_node) == {f"default/{name}" for name, on in pods(one).items() if not on}
    one.change.add_nodes(3, "n")
    one.run()
    assert one.ask.rollouts() == []


def test_pods_that_a_rollout_deletes_again_are_not_in_the_result() -> None:
    """The old ReplicaSet grows first, as its annotation tells of another number of replicas."""
    one = scheduler(machine("n", cpu=16), deployment())
    one.change.apply(deployment("2", 6))
    result = one.run()
    assert {key.removeprefix("default/") for key in result.placements} == set(pods(one))
    assert len(pods(one)) == 6


def test_a_paused_deployment_is_scaled_and_not_rolled_out() -> None:
    one = scheduler(machine("n", cpu=16), deployment())
    one.change.apply(deployment("2", 6, paused=True))
    one.run()
    found = one.client.list(Pod)[0]
    assert [each.spec.containers[0].resources.requests["cpu"] for each in found] == ["1"] * 6


def test_pods_are_available_after_min_ready_seconds() -> None:
    one = scheduler(machine("n", cpu=16), deployment(**CHANGED))
    before = one.volumes.now()
    one.change.apply(deployment("2", **CHANGED))
    one.run()
    assert one.ask.rollouts() == []
    assert one.volumes.now() - before >= 4 * 30  # one pod after the other


def test_nobody_waits_for_the_rollout_of_a_deleted_deployment() -> None:
    one = scheduler(machine("n", cpu=16), deployment(**CHANGED))
    one.change.apply(deployment("2", **CHANGED))
    assert one.controllers is not None
    assert one.controllers.next_time() < math.inf
    one.change.delete("deploy/web")
    assert not one.run().placements
    assert one.controllers.next_time() == math.inf


def test_with_a_clock_a_rollout_waits_for_it() -> None:
    time = [0.0]
    one = scheduler(machine("n", cpu=16), deployment(**CHANGED), clock=lambda: time[0])
    one.change.apply(deployment("2", **CHANGED))
    for _ in range(3):
        one.run()
    assert one.ask.rollouts()[0].updated == 1
    for _ in range(4):
        time[0] += 41.0  # with the time until a pod is ready
        one.run()
    assert one.ask.rollouts() == []


# ---- budgets ---------------------------------------------------------------------------------------------


def allowed(one: Scheduler) -> int:
    one.sync()
    return int(one.client.get(PodDisruptionBudget, "pdb", "default").status.disruptions_allowed)


def test_budgets_keep_their_status() -> None:
    selector = {"matchLabels": {"app": "web"}}
    spec = {"maxUnavailable": 1, "selector": selector}
    one = scheduler(machine("n"), replicas("Deployment", "web", 3), make("PodDisruptionBudget", "pdb", spec))
    assert allowed(one) == 1
    lose(one, min(pods(one)))
    assert allowed(one) == 0
    one.run()
    assert allowed(one) == 1
    one.change.scale("deploy/web", 0)
    assert allowed(one) == 0


def test_a_status_stays_as_it_was_read_until_pods_change() -> None:
    status = {"disruptionsAllowed": 7, "currentHealthy": 9, "desiredHealthy": 2, "expectedPods": 9}
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budget = make("PodDisruptionBudget", "pdb", spec, status=status)
    owner = [{"kind": "Rollout", "name": "web", "controller": True}]
    meta = {"labels": {"app": "web"}, "ownerReferences": owner}
    members = [pod(name, {"nodeName": "n"}, metadata=meta) for name in "abc"]
    one = scheduler(machine("n"), budget, *members)
    assert allowed(one) == 7
    lose(one, "a")
    assert allowed(one) == 0  # 2 healthy pods, and 2 are desired, as nobody knows the replicas


# ---- where they are off ----------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [True, False])
def test_over_a_store_that_others_write_they_are_off(own: bool) -> None:
    cluster = mo.expanded(build_cluster([machine("n"), replicas("Deployment", "web", 2)]))
    if own:
        one = mo.Scheduler(cluster, controllers=False)
    else:
        store = ObjectStore()
        store.create_many([*cluster.nodes, *cluster.others, *cluster.pods])
        one = mo.Scheduler(store)
    one.run()
    lose(one, min(pods(one)))
    assert len(pods(one)) == 1
    assert one.ask.rollouts() == []


def test_new_pods_with_gates_say_that_they_are_gated() -> None:
    gates = [{"name": "example.com/wait"}]
    spec = {"replicas": 1, "template": template("web", schedulingGates=gates)}
    one = scheduler(machine("n"), workload("ReplicaSet", "web", spec), pod("p", {"schedulingGates": gates}))
    lose(one, next(name for name in pods(one) if name != "p"))
    one.sync()
    found: list[Pod] = one.client.list(Pod)[0]
    said = [(each.reason, each.message) for its in found for each in its.status.conditions]
    assert said == [("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")] * 2


@pytest.mark.parametrize("order", ["xy", "yx"])
def test_sets_that_lose_pods_have_their_turn_whatever_the_order_of_the_pods(order: str) -> None:
    sets = [replicas("ReplicaSet", name, 1) for name in "xy"]
    held = [
        pod(
            name,
            template(name)["spec"] | {"nodeName": "a"},
            metadata=owned("ReplicaSet", name) | {"labels": {"app": name}},
        )
        for name in order
    ]
    one = scheduler(machine("a"), machine("b", cpu=1), *sets, *held)
    one.change.drain("a")
    one.run()
    assert [name for name in "xy" if "b" in pods(one, name).values()] == ["x"]
