"""Pods of a template: as many as fit, as `schedule_one` would place them, with names and UIDs that follow."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.child import limited, outcome_of
from tests.core.make import replica
from tests.doors.engine import schedule_one
from tests.make import ZONE, configuration, node
from tests.scheduler.make import profile_with

from moorage import Code, FilterPlugin, Scheduler, Status
from moorage.engine.scheduler import ScheduleResult
from moorage.errors import CacheError
from moorage.kube import (
    Affinity,
    Cluster,
    Container,
    ContainerPort,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
    TopologySpreadConstraint,
)

SELECTED = LabelSelector(match_labels={"app": "a"})
SPREAD = TopologySpreadConstraint(
    max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=SELECTED
)


def template(cpu: str = "1", **spec: Any) -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"})
    meta = ObjectMeta(generate_name="web-", namespace="ns", labels={"app": "a"})
    containers = spec.pop("containers", (Container(name="c", resources=resources),))
    return Pod(metadata=meta, spec=PodSpec(scheduler_name="default-scheduler", containers=containers, **spec))


def scheduler(**settings: Any) -> Scheduler:
    nodes = [node(f"n{number}", zone=f"z{number % 2}") for number in range(7)]
    return Scheduler(Cluster(nodes=nodes), tie_break="go-heap", **settings)


def names(one: Scheduler, run: ScheduleResult) -> list[str]:
    return [one.table.row_name(row) for row in run.rows.tolist()]


def single(one: Scheduler, pod: Pod, n: int, first: int = 0) -> tuple[list[str], str]:
    """Nodes of the first pods that fit, one by one, and why the next one does not."""
    placed: list[str] = []
    for index in range(first, first + n):
        decision = schedule_one(one.context, replica(pod, index))
        if decision.node is None:
            return placed, decision.fit_error
        placed.append(decision.node)
    return placed, ""


class Picky(FilterPlugin):
    """Nothing goes to n0; asked in Python."""

    name = "Picky"

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Any:
        return Status(Code.UNSCHEDULABLE, ("picky",)) if node_info.node.name == "n0" else None


PODS = {
    "plain": template(),
    "ports": template(containers=(Container(name="c", ports=(ContainerPort(host_port=80),)),)),
    "spread": template(topology_spread_constraints=(SPREAD,)),
    "too big": template("9"),
}


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_decisions_are_those_of_schedule_one(pod: Pod) -> None:
    batched, twin = scheduler(), scheduler()
    for first, n in ((0, 5), (5, 2), (7, 40)):
        run = batched.schedule_by_template(pod, n, first)
        placed, message = single(twin, pod, n, first)
        assert names(batched, run) == placed
        assert (run.failure.message if run.failure else "") == message
        assert (run.failure is None) == (len(run.rows) == n)
    assert batched.table.requested["cpu"].tolist() == twin.table.requested["cpu"].tolist()
    assert batched.placer.decider.start == twin.placer.decider.start


def test_pods_are_assumed_under_names_that_follow() -> None:
    one, pod = scheduler(), template()
    one.schedule_by_template(pod, 2)
    one.schedule_by_template(pod, 1, first=7)
    assumed = {held.key: held for info in one.cache.snapshot().nodes.values() for held in info.pods}
    assert sorted(assumed) == ["ns/web-0", "ns/web-1", "ns/web-7"]
    held = one.cache.get_pod(replica(pod, 7))
    assert held.spec.node_name
    assert one.cache.is_assumed_pod(held)
    one.cache.forget_pod(held)
    assert one.table.requested["cpu"].sum() == 2000
    assert one.client.list(Pod)[0] == []


def test_a_template_may_have_a_name_instead() -> None:
    named = replace(template(), metadata=ObjectMeta(name="job", namespace="ns"))
    one = scheduler()
    one.schedule_by_template(named, 2, first=3)
    held = one.cache.state.pods()
    assert [each.key for each in held] == ["ns/job-3", "ns/job-4"]
    assert len({each.metadata.uid for each in held}) == 2


def test_plugins_outside_the_core_are_asked_about_each_pod() -> None:
    one = scheduler(profile=profile_with(Picky()))
    run = one.schedule_by_template(template(), 30)
    placed = names(one, run)
    assert len(placed) == 24
    assert "n0" not in placed
    assert run.failure is not None
    assert "1 picky" in run.failure.message
    bound = {pod.name: pod.spec.node_name for pod in one.client.list(Pod)[0]}
    assert [bound[f"web-{number}"] for number in range(24)] == placed


def test_the_replica_that_fits_nowhere_leaves_no_trace() -> None:
    one = scheduler(profile=profile_with(Picky()))
    assert one.schedule_by_template(template(), 30).failure is not None
    assert all(pod.spec.node_name for pod in one.client.list(Pod)[0])
    assert one.pods.pending == {}


@pytest.mark.parametrize("plugins", [(), (Picky(),)])
@pytest.mark.parametrize("node", ["", "n1"])
def test_a_name_that_another_pod_has(plugins: Any, node: str) -> None:
    other = replace(template(node_name=node), metadata=ObjectMeta(name="web-1", namespace="ns", uid="other"))
    one = scheduler(profile=profile_with(*plugins))
    one.client.create(other)
    one.sync()
    before = one.client.list(Pod)[0]
    with pytest.raises(CacheError, match=r"^a replica would have the name of pod ns/web-1, which exists$"):
        one.schedule_by_template(template(), 3)
    assert one.client.list(Pod)[0] == before
    assert len(list(one.cache.state.pods())) == bool(node)
    assert len(one.schedule_by_template(template(), 3, first=2)) == 3


def test_replicas_that_have_cycles_of_their_own_are_undone_with_a_transaction_of_the_cache() -> None:
    one = scheduler(profile=profile_with(Picky()))
    with one.cache.transaction():
        one.schedule_by_template(template(), 2)
        assert len(one.client.list(Pod)[0]) == 2
    assert one.client.list(Pod)[0] == []


def test_a_profile_whose_scoring_fails() -> None:
    """A single feasible node is not scored; a pod that failed can be tried again."""
    enabled = {
        "multiPoint": {"disabled": [{"name": "TaintToleration"}]},
        "score": {"enabled": [{"name": "TaintToleration"}]},
    }
    one = scheduler(config=configuration(profiles=[{"plugins": enabled}]))
    for _ in range(2):
        run = one.schedule_by_template(template(), 3)
        assert len(run.rows) == 0
        assert run.failure is not None
        assert "TaintToleration" in run.failure.error
    one.client.create(node("n9", labels={"only": "n9"}))
    one.sync()
    run = one.schedule_by_template(template(node_selector={"only": "n9"}), 6, first=3)
    assert names(one, run) == ["n9"] * 4
    assert run.failure is not None
    assert "1 Insufficient cpu" in run.failure.message


@pytest.mark.parametrize("n", [-1, 2**31, 2**63, -(2**70)])
def test_no_number_of_pods(n: int) -> None:
    with pytest.raises(ValueError, match=rf"^n must be from 0 to 2147483647, not {n}$"):
        scheduler().schedule_by_template(template(), n)


def among(*names: str) -> dict[str, Any]:
    """A spec that only these nodes are searched for."""
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=names)
    required = NodeSelector((NodeSelectorTerm(match_fields=(field,)),))
    return {"affinity": Affinity(node_affinity=NodeAffinity(required=required))}


LOTS = 10**9


@pytest.mark.parametrize("cpu", ["0", "1"])
@pytest.mark.parametrize("spec", [{}, among("n1"), {"topology_spread_constraints": (SPREAD,)}])
@pytest.mark.parametrize("settings", [{}, {"profile": "Picky"}])
def test_memory_is_taken_for_as_many_pods_as_can_be_placed(
    cpu: str, spec: dict[str, Any], settings: dict[str, Any]
) -> None:
    def make() -> Scheduler:
        return scheduler(profile=profile_with(Picky())) if settings else scheduler()

    few, many = make(), make()

    def work() -> None:
        limited(1 << 30)
        pod = template(cpu, **spec)
        runs = few.schedule_by_template(pod, 200), many.schedule_by_template(pod, LOTS)
        assert names(few, runs[0]) == names(many, runs[1])
        assert runs[0].failure is not None
        assert runs[1].failure is not None
        assert runs[0].failure.message == runs[1].failure.message

    assert outcome_of(work) == 0
