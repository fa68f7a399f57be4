"""DaemonSets replace their pods after a change of the template."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.workloads.make import machine, scheduler, template
from tests.make import make
from tests.objects.make import pod, workload

import moorage as mo
from moorage import Scheduler
from moorage.errors import InputError
from moorage.kube import Object, Pod, build_cluster

NODES = [machine(name) for name in "abcd"]


def log(cpu: str = "1", **spec: Any) -> Object:
    return workload("DaemonSet", "log", {"template": template("log", cpu)} | spec)


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


def cpus(one: Scheduler) -> dict[str, list[str]]:
    """What the pods on each node ask for; of those without one under ''."""
    one.sync()
    found: dict[str, list[str]] = {}
    listed: list[Pod] = one.client.list(Pod)[0]
    for each in listed:
        asked = str(each.spec.containers[0].resources.requests["cpu"])
        found.setdefault(each.spec.node_name, []).append(asked)
    return found


def all_have(one: Scheduler, cpu: str) -> bool:
    return cpus(one) == {name: [cpu] for name in "abcd"}


@pytest.mark.parametrize(
    ("maximum", "stuck"), [(None, 1), (1, 1), (3, 3), ("30%", 2), ("1%", 1), ("100%", 4)], ids=str
)
def test_no_more_than_max_unavailable_are_gone(maximum: int | str | None, stuck: int) -> None:
    """The new pods fit nowhere."""
    spec = {} if maximum is None else rolling(maxUnavailable=maximum)
    one = scheduler(*NODES, log(**spec))
    one.change.apply(log("5", **spec))
    result = one.run()
    assert len(result.unschedulable) == stuck
    assert cpus(one).get("", []) == ["5"] * stuck
    (rollout,) = one.ask.rollouts()
    assert (rollout.workload, rollout.replicas, rollout.updated) == ("DaemonSet default/log", 4, stuck)
    assert (rollout.available, len(rollout.without_node)) == (4 - stuck, stuck)


@pytest.mark.parametrize(("surge", "waiting"), [(1, 1), (2, 2), ("60%", 3)])
def test_with_a_surge_old_pods_stay_until_new_ones_run(surge: int | str, waiting: int) -> None:
    spec = rolling(maxUnavailable=0, maxSurge=surge)
    one = scheduler(*NODES, log("2", **spec))
    one.change.apply(log("3", **spec))  # beside the old pod it does not fit
    assert len(one.run().unschedulable) == waiting
    assert cpus(one) == {name: ["2"] for name in "abcd"} | {"": ["3"] * waiting}
    one.change.apply(log("1500m", **spec))
    one.run()
    assert all_have(one, "1500m")


def test_a_surge_that_another_template_overtakes_leaves_the_pods_that_run() -> None:
    spec = rolling(maxUnavailable=0, maxSurge=2)
    one = scheduler(*NODES, log("2", **spec))
    for cpu in ("3", "2500m"):  # neither fits beside the old pod
        one.change.apply(log(cpu, **spec))
        one.run()
        assert cpus(one) == {name: ["2"] for name in "abcd"} | {"": [cpu] * 2}


def test_a_surge_of_a_file_begins_when_it_is_read() -> None:
    spec = rolling(maxUnavailable=0, maxSurge=2)
    owner = [{"kind": "DaemonSet", "name": "log", "controller": True}]

    def on(name: str) -> Object:
        labels = {"app": "log", "controller-revision-hash": "x"}
        meta = {"ownerReferences": owner, "labels": labels}
        return pod(f"log-{name}", template("log")["spec"] | {"nodeName": name}, metadata=meta)

    one = mo.Scheduler(build_cluster([*NODES, log("1500m", **spec), *map(on, "abcd")]))
    assert len(one.client.list(Pod)[0]) == 6
    one.run()
    assert all_have(one, "1500m")


def test_on_delete_replaces_what_is_deleted() -> None:
    one = scheduler(*NODES, log(updateStrategy={"type": "OnDelete"}))
    one.change.apply(log("1200m", updateStrategy={"type": "OnDelete"}))
    one.run()
    assert all_have(one, "1")
    listed: list[Pod] = one.client.list(Pod)[0]
    one.client.delete(Pod, next(each.name for each in listed if each.spec.node_name == "b"), "default")
    one.run()
    assert cpus(one) == {"a": ["1"], "b": ["1200m"], "c": ["1"], "d": ["1"]}


def test_min_ready_seconds_pass_between_pods() -> None:
    one = scheduler(*NODES, log(minReadySeconds=10))
    one.change.apply(log("1200m", minReadySeconds=10))
    one.run()  # lets the time pass
    assert all_have(one, "1200m")


def test_new_nodes_get_pods_of_the_new_template() -> None:
    one = scheduler(*NODES, log(updateStrategy={"type": "OnDelete"}))
    one.change.apply(log("1200m", updateStrategy={"type": "OnDelete"}))
    one.change.add_nodes(1, "a")
    one.run()
    assert cpus(one)["a-1"] == ["1200m"]


def test_the_status_of_a_dump_tells_the_revision() -> None:
    """A limit range has given the pods requests, so they do not show the template."""
    owner = [{"kind": "DaemonSet", "name": "log", "controller": True}]
    meta = {"ownerReferences": owner, "labels": {"app": "log", "controller-revision-hash": "x"}}
    running = pod("log-1", template("log")["spec"] | {"nodeName": "a"}, metadata=meta)
    bare = {"metadata": {"labels": {"app": "log"}}, "spec": {"containers": [{"name": "c"}]}}
    status = {"updatedNumberScheduled": 1}
    one = scheduler(NODES[0], make("DaemonSet", "log", {"template": bare}, status=status), running)
    assert cpus(one) == {"a": ["1"]}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"maxSurge": 1}, "maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"),
        (
            {"maxUnavailable": "10%", "maxSurge": "5%"},
            'maxSurge: Invalid value: "5%": may not be set when maxUnavailable is non-zero',
        ),
        ({"maxUnavailable": 0}, "maxUnavailable: Required value: cannot be 0 when maxSurge is 0"),
        ({"maxUnavailable": "101%"}, "must not be greater than 100%"),
    ],
)
def test_strategies_that_the_server_refuses(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        build_cluster([log(**rolling(**fields))])
