"""Workloads whose next pod the API server refuses: controllers end, and try again when it may help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.controllers.workloads.make import at_most, machine, nodes, pods, replicas, scheduler, template
from tests.make import make
from tests.objects.make import workload

import moorage as mo
from moorage import Scheduler
from moorage.kube import Object, build_cluster

NODES = [machine(name) for name in "abc"]


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    with at_most(60):
        yield


def agent(cpu: str = "100m", **spec: Any) -> Object:
    return workload("DaemonSet", "agent", {"template": template("agent", cpu, **spec)})


def quota(count: int) -> Object:
    return make("ResourceQuota", "q", {"hard": {"pods": str(count)}})


def waiting(*objects: Object) -> Scheduler:
    return mo.Scheduler(build_cluster(objects))


def refused_new() -> Scheduler:
    return waiting(*NODES, agent(priorityClassName="none"))


def refused_in_a_rollout() -> Scheduler:
    one = scheduler(*NODES, agent())
    one.change.apply(agent(priorityClassName="none"))
    return one


def refused_on_a_new_node() -> Scheduler:
    one = scheduler(*NODES, agent(), quota(3))
    one.change.add_nodes(1, like="a")
    return one


def refused_in_the_files() -> Scheduler:
    return waiting(*NODES, agent(), quota(2))


def refused_in_a_surge() -> Scheduler:
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    one = scheduler(*NODES, workload("DaemonSet", "agent", {"updateStrategy": surge}), quota(3))
    one.change.apply(workload("DaemonSet", "agent", {"updateStrategy": surge, "template": template("agent")}))
    return one


def refused_with_a_time_to_wait() -> Scheduler:
    spec = {"minReadySeconds": 10, "template": template("agent", "100m")}
    one = scheduler(*NODES, workload("DaemonSet", "agent", spec), quota(3))
    one.change.apply(quota(2))
    one.change.apply(workload("DaemonSet", "agent", spec | {"template": template("agent", "200m")}))
    return one


CASES = [
    refused_new, refused_in_a_rollout, refused_on_a_new_node, refused_in_the_files, refused_in_a_surge,
    refused_with_a_time_to_wait,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_daemon_set_whose_next_pod_is_refused_comes_to_an_end(case: Any) -> None:
    one = case()
    one.run()
    assert one.ask.refusals().keys() == {"DaemonSet default/agent"}
    one.change.cordon("a")
    one.run()


def test_a_refusal_is_taken_back_when_its_quota_is_deleted() -> None:
    one = scheduler(*NODES, replicas("ReplicaSet", "web", 3), quota(1))
    assert len(pods(one)) == 1
    one.change.delete("resourcequota/default/q")
    one.run()
    assert one.ask.refusals() == {}
    assert all(pods(one).values())
    assert len(pods(one)) == 3


def test_a_refusal_is_taken_back_in_a_transaction_only() -> None:
    one = scheduler(*NODES, replicas("ReplicaSet", "web", 3), quota(1))
    before = one.ask.refusals()
    with one.transaction():
        one.change.delete("resourcequota/default/q")
        one.run()
        assert one.ask.refusals() == {}
    assert one.ask.refusals() == before != {}
    assert len(pods(one)) == 1


def test_a_refused_daemon_set_goes_on_when_the_quota_is_raised() -> None:
    one = scheduler(*NODES, agent(), quota(1))
    one.change.apply(quota(3))
    one.run()
    assert sorted(pods(one).values()) == sorted(nodes(one))
    assert one.ask.refusals() == {}


def test_who_was_refused_before_waits_until_nobody_else_wants_a_pod() -> None:
    def web(cpu: str, count: int = 2) -> Object:
        return replicas("Deployment", "web", count, cpu, strategy={"type": "Recreate"})

    def counts() -> Counter[str]:
        return Counter(name.partition("-")[0] for name in pods(one))

    one = scheduler(machine("a"), web("100m"), replicas("Deployment", "wait", 3, "100m"), quota(3))
    assert counts() == {"web": 2, "wait": 1}
    for cpu in ("110m", "120m"):
        one.change.apply(web(cpu))
        one.run()
        assert counts() == {"web": 2, "wait": 1}
    one.change.apply(web("120m", 1))
    one.run()
    assert counts() == {"web": 1, "wait": 2}


LEAVING: dict[str, Callable[[Scheduler], object]] = {
    "removed": lambda one: one.change.remove_nodes("c"),
    "tainted": lambda one: one.change.taint("c", "a=b:NoExecute"),
    "relabelled": lambda one: one.change.label("node/c", "pool=y"),
}


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
def test_a_pod_is_no_longer_refused_when_its_node_is_gone(leave: Callable[[Scheduler], object]) -> None:
    objects = [machine(name, pool="x") for name in "abc"]
    one = scheduler(*objects, agent(nodeSelector={"pool": "x"}), quota(2))
    before = set(pods(one))
    one.change.apply(agent("200m", nodeSelector={"pool": "x"}))
    one.run()
    assert (len(one.ask.refused_pods()), set(pods(one))) == (1, before)  # the rollout waits
    leave(one)
    one.run()
    assert (one.ask.refused_pods(), one.ask.refusals()) == ([], {})
    assert not before & set(pods(one))
    assert sorted(pods(one).values()) == ["a", "b"]


def parallel(n: int) -> Object:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    spec = {"replicas": n, "podManagementPolicy": "Parallel", "template": template("web", "100m")}
    return workload("StatefulSet", "web", spec | {"volumeClaimTemplates": [claim]})


def test_each_refused_pod_of_a_parallel_stateful_set_has_a_text_of_its_own() -> None:
    one = scheduler(*NODES, parallel(4), quota(2))
    told = {refused.pod.name: refused.message for refused in one.ask.refused_pods()}
    assert list(told) == ["web-2", "web-3"]
    assert all(f'pods "{name}" is forbidden: exceeded quota: q' in text for name, text in told.items())
    assert one.ask.awaited_pods() == []


def test_a_pod_whose_claim_is_refused_names_its_own_claim() -> None:
    limit = make("ResourceQuota", "q", {"hard": {"persistentvolumeclaims": "1"}})
    one = scheduler(*NODES, parallel(3), limit)
    told = {refused.pod.name: refused.message for refused in one.ask.refused_pods()}
    assert list(told) == ["web-1", "web-2"]
    for name, text in told.items():
        start = f'failed to create PVC data-{name}: persistentvolumeclaims "data-{name}" is forbidden'
        assert text.startswith(start)
