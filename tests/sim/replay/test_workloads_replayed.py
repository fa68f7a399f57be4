"""Workloads of scheduler_perf as timelines: the decisions of `moorage perf`, as a history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moorage as mo
from moorage import Scheduler
from moorage.autoscaling import NodeGroup
from moorage.errors import InputError
from moorage.objects import Pod
from moorage.sim.perf import read_workloads, run_workload
from moorage.sim.replay.recorder import End
from moorage.sim.timeline import Verb
from moorage.sim.timeline.autoscaler_spec import AutoscalerSpec
from tests.sim.perf.make import BIG, DATA, nodes, placements, pods, run_of, write

WORKLOADS = {one.full_name: one for one in read_workloads(str(DATA)) if "1000Nodes" not in one.full_name}

SCALED = AutoscalerSpec([NodeGroup("small", mo.synthetic(nodes=1).nodes[0])])


def bound(scheduler: Scheduler) -> dict[str, str]:
    """Pod to node, of the pods in the store that have one."""
    found: list[Pod] = scheduler.client.list(Pod)[0]
    return {pod.key: pod.spec.node_name for pod in found if pod.spec.node_name}


def made(directory: Path, *ops: dict[str, Any], **settings: Any) -> mo.Timeline:
    return mo.Timeline.read(write(directory, *ops, **settings))


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_decisions_are_those_of_perf(name: str) -> None:
    timeline = mo.Timeline.read(DATA, case=name)
    run, history = (
        run_of(WORKLOADS[name], int(timeline.workload.rate), tie_break="go-heap"),
        mo.replay(timeline),
    )
    assert len(timeline) == len(WORKLOADS[name].ops)
    expected, found = placements(run), bound(history.scheduler)
    assert {key: found.get(key) for key in expected} == expected
    assert history.end == run.clock.now
    times = history.columns["time"]
    assert (np.diff(times) >= 0).all()
    assert not len(times) or times[-1] <= history.end


def test_each_attempt_takes_its_time(tmp_path: Path) -> None:
    history = mo.replay(mo.Timeline.read(write(tmp_path, nodes(5), pods(4)), rate=2))
    assert history.pods().to_dict()["bound"] == [0.5, 1.0, 1.5, 2.0]
    assert history.pods().to_dict()["created"] == [0.0] * 4


def test_the_past_is_that_of_the_history(tmp_path: Path) -> None:
    churning = {"opcode": "churn", "mode": "recreate", "number": 1, "templatePaths": ["big.yaml"]}
    delete = {"opcode": "deletePods", "namespace": "namespace-2", "deletePodsPerSecond": 10}
    ops = nodes(10), churning | {"intervalMilliseconds": 100}, pods(400), delete
    history = mo.replay(made(tmp_path, *ops, files={"big.yaml": BIG}))
    columns = history.pod_columns
    for time in (0.0, 0.1, 0.3, 0.801, 1.55, history.end):
        here = (columns["bound"] <= time) & (columns["ended"] > time)
        expected = {history.pod_name(int(at)) for at in np.flatnonzero(here)}
        assert set(bound(history.at(time))) == expected


def test_an_operation_that_cannot_end_is_told(tmp_path: Path) -> None:
    history = mo.replay(made(tmp_path, nodes(1), pods(41)))
    ((told, count),) = history.counts.items()
    assert told.startswith("operation could not end: timed out after 600 s: 1 pods fit nowhere (0/1 nodes")
    assert count == 1
    assert (history.summary()["placed"], history.summary()["pending"]) == (40, 1)
    assert len(bound(history.at(history.end))) == 40


def test_pods_that_fit_nowhere_may_be_dropped(tmp_path: Path) -> None:
    history = mo.replay(made(tmp_path, nodes(1), pods(41), pods(1)), on_failure="drop")
    assert not history.counts
    assert (history.summary()["placed"], history.summary()["dropped"]) == (40, 2)


def test_options_of_the_scheduler_take_the_place_of_those_of_the_workload(tmp_path: Path) -> None:
    config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    named = config + "profiles: [{schedulerName: ours}]\n"
    case = {"schedulerConfigPath": "config.yaml"}
    timeline = made(tmp_path, nodes(2), pods(2), files={"config.yaml": named}, case=case)
    assert "no profile of the name default-scheduler" in next(iter(mo.replay(timeline).counts))
    (tmp_path / "default.yaml").write_text(config)
    assert mo.replay(timeline, config=tmp_path / "default.yaml").summary()["placed"] == 2


def test_a_timeline_may_be_cut_and_shown(tmp_path: Path) -> None:
    timeline = made(tmp_path, nodes(2), pods(2))
    assert timeline.table().to_dict()["subject"] == ["createNodes", "createPods"]
    assert [event.verb for event in timeline] == [Verb.OPERATION] * 2
    assert mo.replay(timeline.without_bindings()).summary()["placed"] == 2


SCENARIO = """
apiVersion: replay.moorage.dev/v1
kind: Scenario
spec:
  templates:
    job:
      apiVersion: v1
      kind: Pod
      metadata: {name: job, namespace: default}
      spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}
  events:
  - {time: 0.105, create: job, name: first}
  - {time: 0.105, cordon: NODE}
  - {time: 0.3, leave: NODE}
  - {time: 20, create: job, name: last}
  - {time: 21, delete: pod/first}
"""


def test_the_events_of_a_scenario_happen_between_operations(tmp_path: Path) -> None:
    alone = mo.replay(made(tmp_path, nodes(2), pods(20), pods(20)))
    node = alone.node_names[0]
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO.replace("NODE", node))
    perf = write(tmp_path, nodes(2), pods(20), {"opcode": "sleep", "duration": "10s"}, pods(20))
    timeline = mo.Timeline.read(perf, scenario)
    history = mo.replay(timeline)
    assert not history.counts
    columns, pod = history.pod_columns, {history.pod_name(at): at for at in range(42)}
    first, last = pod["default/first"], pod["default/last"]
    assert 0.105 <= columns["created"][first] <= columns["bound"][first] < 0.11
    assert (columns["created"][last], columns["ended"][first]) == (20, 21)
    assert columns["bound"][last] > 20
    late = [at for name, at in pod.items() if columns["bound"][at] > 0.3]
    assert len(late) == 21
    assert {history.node_names[columns["node"][at]] for at in late} == {alone.node_names[1]}
    assert (columns["cause"] == End.NODE).sum() >= 10
    assert len(bound(history.at(history.end))) == np.isinf(columns["ended"]).sum()


@pytest.mark.parametrize("bound", [True, False])
def test_a_wait_for_pods_ends_where_an_event_deletes_one(tmp_path: Path, bound: bool) -> None:
    full = mo.replay(made(tmp_path, nodes(1), pods(41)))
    name = full.pod_name(int(np.flatnonzero((full.pod_columns["node"] >= 0) == bound)[0]))
    timeline = made(tmp_path, nodes(1), pods(41))
    timeline.delete(30, f"pod/{name}")
    history = mo.replay(timeline)
    assert not history.counts
    assert history.summary()["placed"] == 40 + bound
    assert 30 <= history.end < 60


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (mo.verify, "Case/small: operations of scheduler_perf record no bindings"),
        (
            lambda timeline: timeline.write("x.yaml"),
            "Case/small: operations of scheduler_perf cannot be written",
        ),
        (
            lambda timeline: mo.replay(timeline).record(),
            "operations of scheduler_perf take no bindings",
        ),
        (lambda timeline: timeline.autoscale(SCALED) or mo.replay(timeline), "cannot have an autoscaler"),
    ],
)
def test_what_operations_cannot_do_is_refused(
    tmp_path: Path, use: Callable[[mo.Timeline], object], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        use(made(tmp_path, nodes(1), pods(1)))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "2 workloads; the option case names one of Case/small, Case/large"),
        ({"case": "Case/huge"}, "there is no case or workload Case/huge"),
        ({"case": "Case/small", "rate": 0}, "rate: must be a positive number, not 0"),
        (
            {"case": "Case/small", "speed": 1},
            'has no option "speed"; known are case, rate',
        ),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    case = {"workloads": [{"name": "small"}, {"name": "large"}]}
    with pytest.raises(InputError) as refused:
        mo.Timeline.read(write(tmp_path, nodes(1), case=case), **options)
    assert message in str(refused.value)


def test_unsupported_operations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Case/small: createResourceClaims not built yet"):
        made(tmp_path, {"opcode": "createResourceClaims"})


def test_a_replay_is_as_fast_as_the_workload_says(tmp_path: Path) -> None:
    assert mo.replay(made(tmp_path, nodes(1), pods(10), threshold=5)).end == 2
    assert mo.replay(made(tmp_path, nodes(1), pods(10))).end == 10 / 500
    reports = [run_workload(one) for one in read_workloads(write(tmp_path, nodes(1), pods(10)))]
    assert reports[0].virtual_seconds == 10 / 500
