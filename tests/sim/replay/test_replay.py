"""Replays: a timeline goes in, a history comes out."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import moorage as mo
from moorage import Timeline
from moorage.kube import Cluster, Node, Pod
from tests import make
from tests.doors.sim import replayer

ZONE = "topology.kubernetes.io/zone"


def node(name: str, cpu: str = "4", zone: str = "") -> Node:
    labels = {"kubernetes.io/hostname": name}
    return make.node(name, zone, labels, cpu=cpu, memory="64Gi", pods="110")


def pod(name: str, cpu: str = "1", priority: int = 0, **spec: Any) -> Pod:
    spec |= {"scheduler_name": "default-scheduler", "priority": priority or None}
    requests = {"cpu": cpu, "memory": "1Gi"}
    return make.pod(name, requests=requests, labels={"app": name}, metadata={"uid": ""}, **spec)


def web(replicas: int, **spec: Any) -> Any:
    return make.workload("Deployment", "default/w", replicas, {"cpu": "1", "memory": "1Gi"}, **spec)


def timeline_of(*nodes: Node) -> Timeline:
    return Timeline(Cluster(nodes=list(nodes)))


def rows(history: mo.History) -> list[tuple[Any, ...]]:
    """(time, pod, node, attempt) of each decision."""
    return list(zip(*list(history.table().to_dict().values())[:4], strict=True))


def pods_of(history: mo.History) -> dict[str, tuple[Any, ...]]:
    """(node, created, bound, ended, pending, attempts, cause) by pod."""
    columns = history.pods().to_dict()
    return {name: tuple(values) for name, *values in zip(*columns.values(), strict=True)}


def test_pods_come_and_go() -> None:
    timeline = timeline_of(node("a"), node("b"))
    web = pod("web", "3")
    timeline.create(1, web, "x")
    timeline.create(1, web, "y")
    timeline.create(2, web, "z")
    timeline.delete(10, "pod/x")
    history = mo.replay(timeline)
    inf = np.inf
    at = rows(history)
    assert [row[:2] for row in at] == [
        (1, "default/x"),
        (1, "default/y"),
        (2, "default/z"),
        (10, "default/z"),
    ]
    assert {row[2] for row in at[:2]} == {"a", "b"}
    assert at[2][2:] == (None, 1)
    assert at[3][2:] == (at[0][2], 2)
    x, z = pods_of(history)["default/x"], pods_of(history)["default/z"]
    assert x[1:] == (1, 1, 10, 0, 1, "deleted")
    assert z == (at[0][2], 2, 10, inf, 8, 2, None)
    assert history.table().to_dict()["reason"][2] == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
    assert history.summary() == {
        "seconds": 10,
        "events": 4,
        "pods": 3,
        "decisions": 4,
        "placed": 3,
        "pending": 0,
        "ended_unplaced": 0,
        "dropped": 0,
        "evicted": 0,
        "pending_p50": 0,
        "pending_p99": 8,
        "pending_max": 8,
    }


def test_a_failed_pod_backs_off_in_virtual_time() -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("big", "4"))
    timeline.create(1, pod("next", "4"))
    timeline.delete(1.25, "pod/big")
    history = mo.replay(timeline)
    # The deletion moves the pod to the backoff queue, which is popped from when no other pod waits.
    assert rows(history)[-1] == (1.25, "default/next", "a", 2)
    history = mo.replay(timeline, feature_gates={"SchedulerPopFromBackoffQ": False})
    assert rows(history)[-1] == (3.0, "default/next", "a", 2)
    assert history.end == 3.0


def test_a_pod_that_fits_nowhere_is_tried_every_five_minutes() -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("big", "9"))
    timeline.measure(1000, "end")
    times = [time for time, *_ in rows(mo.replay(timeline))]
    assert len(times) == 4
    assert np.diff(times) == pytest.approx(330, abs=31)


def test_pods_that_fit_nowhere_are_dropped_where_that_is_asked_for() -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("a", "3"))
    timeline.create(1, pod("b", "3"))
    timeline.create(2, pod("c", "1"))
    timeline.delete(3, "pod/b")
    history = mo.replay(timeline, on_failure="drop")
    assert [row[1:3] for row in rows(history)] == [
        ("default/a", "a"),
        ("default/b", None),
        ("default/c", "a"),
    ]
    assert pods_of(history)["default/b"][3:] == (1, 0, 1, "dropped")
    assert history.counts == {"deleted pods were gone": 1}


def test_a_pod_of_higher_priority_evicts_in_a_replay() -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("low", "3"))
    timeline.create(5, pod("high", "3", priority=10))
    history = mo.replay(timeline)
    assert pods_of(history)["default/low"][3:] == (5, 0, 1, "evicted")
    assert pods_of(history)["default/high"][0] == "a"
    assert history.summary()["evicted"] == 1


def test_nodes_join_and_leave() -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("x", "3"))
    timeline.create(1, pod("y", "3"))
    timeline.create(10, node("b"))
    timeline.leave(20, "b")
    timeline.cordon(21, "a")
    timeline.uncordon(22, "a")
    history = mo.replay(timeline)
    assert pods_of(history)["default/y"][:4] == ("b", 1, 10, 20)
    assert pods_of(history)["default/y"][-1] == "node"
    assert history.nodes().to_dict()["time"] == [0, 10, 20, 21, 22]
    assert history.nodes().to_dict()["is_there"] == [True, True, False, True, True]


def test_workloads_scale_and_drains_move_their_pods() -> None:
    timeline = timeline_of(node("a"), node("b"))
    timeline.create(0, web(2))
    timeline.scale(10, "deploy/w", 4)
    timeline.drain(20, "a")
    timeline.patch(30, "deploy/w", {"spec": {"replicas": 1}})
    history = mo.replay(timeline)
    created = [row[1] for row in pods_of(history).values()]
    assert created[:4] == [0, 0, 10, 10]
    moved = [row for row in pods_of(history).values() if row[-1] == "node"]
    assert {row[0] for row in moved} == {"a"}
    assert created[4:] == [20] * len(moved)
    live = [row for row in pods_of(history).values() if row[3] == np.inf]
    assert [row[0] for row in live] == ["b"]


def test_rollouts_go_on_after_the_last_event() -> None:
    timeline = timeline_of(node("a"), node("b"))
    timeline.create(0, web(3, minReadySeconds=30))
    labels = {"app": "w", "version": "2"}
    timeline.patch(10, "deploy/w", {"spec": {"template": {"metadata": {"labels": labels}}}})
    history = mo.replay(timeline)
    assert [row[1] for row in pods_of(history).values()] == [0, 0, 0, 10, 40, 70]
    assert sorted(row[3] for row in pods_of(history).values())[:3] == [40, 70, 100]
    assert history.end == 100


def test_taints_labels_and_applied_objects_count_from_their_time() -> None:
    timeline = timeline_of(node("a"), node("b"))
    timeline.taint(0, "a", "k=v:NoSchedule")
    timeline.create(1, pod("x"))
    timeline.taint(2, "a", "k:NoSchedule-")
    timeline.label(2, "node/a", "pool=x")
    timeline.create(3, pod("y", node_selector={"pool": "x"}))
    timeline.apply(4, pod("z"))
    timeline.delete(5, "pod/z")
    timeline.delete(5, "deploy/none")
    timeline.measure(6, "end")
    history = mo.replay(timeline)
    assert pods_of(history)["default/x"][0] == "b"
    assert pods_of(history)["default/y"][0] == "a"
    assert pods_of(history)["default/z"][3] == 5
    assert history.measures().to_dict() == {"time": [6.0], "name": ["end"]}
    assert history.counts == {"deleted objects were gone": 1}


@pytest.mark.parametrize("reference", ["p", "pod/p", "far/p", "pod/far/p"])
def test_events_name_objects_as_all_verbs_do(reference: str) -> None:
    timeline = Timeline(Cluster(nodes=[node("a")], pods=[make.pod("far/p", "a")]))
    timeline.patch(1, reference, {"metadata": {"labels": {"tier": "web"}}})
    timeline.delete(2, reference)
    timeline.delete(3, reference)
    history = mo.replay(timeline)
    assert pods_of(history)["far/p"][3] == 2
    assert sum(history.counts.values()) == 1


def test_bound_pods_are_noted_as_bound_by_others() -> None:
    cluster = Cluster(nodes=[node("a")], pods=[pod("there", node_name="a"), pod("waits")])
    timeline = Timeline(cluster)
    timeline.create(5, pod("new", node_name="a"))
    history = mo.replay(timeline)
    assert rows(history) == [
        (0, "default/there", "a", 0),
        (0, "default/waits", "a", 1),
        (5, "default/new", "a", 0),
    ]


def test_a_name_can_be_used_again() -> None:
    timeline = timeline_of(node("a"))
    for time in (0, 10):
        timeline.create(time, pod("x"))
        timeline.delete(time + 5, "pod/x")
    history = mo.replay(timeline)
    assert history.pods().to_dict()["ended"] == [5, 15]


def test_recorded_bindings_have_no_effect() -> None:
    timeline = timeline_of(node("a"), node("b"))
    timeline.create(0, pod("x"))
    timeline.bind(0, "pod/x", "b")
    timeline.delete(1, "pod/nobody")
    history = mo.replay(timeline)
    assert [row[1] for row in rows(history)] == ["default/x"]
    assert history.counts == {"deleted pods were gone": 1}


@pytest.mark.parametrize(
    ("add", "options", "message"),
    [
        (
            lambda t: [t.create(1, pod("x")), t.create(2, pod("x"))],
            {},
            "event at 2 s: create pod/default/x: ",
        ),
        (lambda t: t.drain(1, "nobody"), {}, "event at 1 s: drain nobody: "),
        (lambda t: t.scale(1, "deploy/no", 1), {}, "event at 1 s: scale deploy/no: "),
        (lambda t: t.create(1, node("a")), {}, "event at 1 s: create node/a: "),
        (lambda t: t.patch(1, "node/a", {"spec": 1}), {}, "event at 1 s: patch node/a: "),
        (
            lambda t: t.patch(1, "node/a", {"spec": {"taint": []}}),
            {},
            'patch node/a: unknown field "spec.taint"',
        ),
        (
            lambda t: t.patch(1, "node/a", {"spec": {"taints": [{"key": "k", "effect": "Foo"}]}}),
            {},
            'event at 1 s: patch node/a: Node a: spec.taints[0].effect: Unsupported value: "Foo": ',
        ),
        (
            lambda t: t.patch(1, "node/a", {"status": {"allocatable": {"cpu": "1"}}}),
            {},
            "event at 1 s: patch node/a: status: a patch does not change the status",
        ),
        (lambda t: None, {"on_failure": "x"}, 'on_failure: must be retry or drop, not "x"'),
        (lambda t: None, {"clock": 1}, "clock: is virtual in a replay"),
        (lambda t: None, {"until": -1}, "until: must be a number of seconds of at least 0"),
        (lambda t: None, {"until": "x > 5"}, 'until: "x > 5" is not a condition'),
    ],
)
def test_bad_input_is_refused(add: Any, options: dict[str, Any], message: str) -> None:
    timeline = timeline_of(node("a"))
    add(timeline)
    with pytest.raises(mo.InputError) as error:
        mo.replay(timeline, **options)
    assert message in str(error.value)


# ---- the direct way ----------------------------------------------------------------------------------------


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """Pods of two priorities and sizes that come and go on few nodes, some of which leave and join."""
    timeline = timeline_of(*[node(f"n{at}", "4", f"z{at % 2}") for at in range(draw(st.integers(1, 5)))])
    shapes = [pod("s"), pod("m", "2"), pod("p", "2", 5), pod("l", "3500m")]
    live: list[str] = []
    for at in range(draw(st.integers(5, 40))):
        time = draw(st.integers(0, 2)) + at / 2
        if live and draw(st.booleans()):
            timeline.delete(time + 40, f"pod/{live.pop(draw(st.integers(0, len(live) - 1)))}")
        else:
            live.append(f"p{at}")
            timeline.create(time, draw(st.sampled_from(shapes)), live[-1])
    if draw(st.booleans()):
        timeline.create(draw(st.integers(0, 50)), node("late", "4"))
    if draw(st.booleans()):
        timeline.drain(draw(st.integers(0, 50)), "n0")
    return timeline


def outcome(history: mo.History) -> Any:
    return history.table().to_dict(), history.pods().to_dict(), history.usage("cpu", ZONE).to_dict()


@settings(deadline=None, max_examples=40)
@given(
    timelines(), st.sampled_from(["retry", "drop"]), st.sampled_from(["go-heap", "random"]), st.integers(1, 4)
)
def test_the_direct_way_is_exact(timeline: Timeline, on_failure: str, tie_break: str, ahead: int) -> None:
    """Pods that are placed without the store and the queue get the nodes that they get with them."""
    options: dict[str, Any] = {"on_failure": on_failure, "tie_break": tie_break, "seed": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replayer, "AHEAD", ahead)
        direct = mo.replay(timeline, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replayer.Replayer, "_is_direct", lambda self, template: False)
        whole = mo.replay(timeline, **options)
    assert outcome(direct) == outcome(whole)
    assert store_of(direct.scheduler) == store_of(whole.scheduler)
    assert outcome(mo.replay(timeline, **options)) == outcome(direct)


def store_of(scheduler: mo.Scheduler) -> Any:
    """The pods of a scheduler, without resource versions, also in the order of their nodes; and the usage."""
    pods = [
        replace(one, metadata=replace(one.metadata, resource_version=""))
        for one in scheduler.client.list(Pod)[0]
    ]
    usage = {n: v.tolist() for n, v in scheduler.table.requested.items()}
    state, order = scheduler.cache.state, scheduler.context.view_order()
    by_node = {name: [one.key for one in state.pods_of(state.find_row(name))] for name in order}
    return pods, usage, by_node, order, scheduler.context.rotation.start


# ---- memory ------------------------------------------------------------------------------------------------


def test_long_histories_go_to_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    timeline = timeline_of(node("a", "100"), node("b", "100"))
    timeline.add_pods(pod("x"), np.arange(3000), np.full(3000, 20))
    kept = mo.replay(timeline)
    assert list(tmp_path.iterdir()) == []
    spilled = mo.replay(timeline, spill_rows=100)
    (folder,) = tmp_path.iterdir()
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sizes["decisions.time"] == 3000 * 8
    assert outcome(spilled) == outcome(kept)
    del spilled
    gc.collect()
    assert list(tmp_path.iterdir()) == []


# ---- files -------------------------------------------------------------------------------------------------


@pytest.fixture
def seven_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece of a file has seven rows."""
    monkeypatch.setattr("moorage.sim.replay.history.ROWS", 7)


@pytest.mark.usefixtures("seven_rows")
def test_a_history_is_written_in_pieces(tmp_path: Path) -> None:
    timeline = timeline_of(node("a"))
    timeline.add_pods(pod("x"), np.arange(20), np.full(20, 3))
    history = mo.replay(timeline)
    files = history.write(tmp_path / "out", "csv")
    assert [path.name for path in files] == [
        "decisions.csv",
        "pods.csv",
        "nodes.csv",
        "cpu.csv",
        "memory.csv",
    ]
    lines = files[1].read_text().splitlines()
    assert lines[0] == "pod,node,created,bound,ended,pending,attempts,cause"
    assert [line.split(",")[0] for line in lines[1:]] == [f"default/x-{at}" for at in range(20)]
    with pytest.raises(mo.InputError, match="format: must be auto, parquet or csv"):
        history.write(tmp_path, "xml")


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    history = mo.replay(timeline_of(node("a")))
    with pytest.raises(mo.MoorageError, match="pyarrow is missing: pip install pyarrow"):
        history.write(tmp_path, "parquet")


@pytest.mark.usefixtures("seven_rows")
def test_parquet_is_written_in_pieces_of_one_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, list[Any]] = {}

    class Writer:
        def __init__(self, path: Path, schema: list[str]) -> None:
            assert path.name not in written
            self.told = written[path.name] = [schema]

        def write_table(self, table: Any) -> None:
            self.told.append(len(table))

        def close(self) -> None:
            self.told.append("closed")

    def table(part: Any) -> Any:
        return type("Part", (), {"schema": [*part.to_dict()], "__len__": lambda self: len(part)})()

    parquet = SimpleNamespace(ParquetWriter=Writer)
    arrow = SimpleNamespace(table=table, parquet=parquet, __spec__=True)
    modules = {"pyarrow": arrow, "pyarrow.parquet": parquet}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    timeline = timeline_of(node("a"))
    timeline.add_pods(pod("x"), np.arange(20), np.full(20, 3))
    files = mo.replay(timeline).write(tmp_path, "auto")
    assert [path.name for path in files] == list(written)
    assert all(name.endswith(".parquet") for name in written)
    columns = ["pod", "node", "created", "bound", "ended", "pending", "attempts", "cause"]
    assert written["pods.parquet"] == [columns, 7, 7, 6, "closed"]


def test_a_history_in_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = mo.replay(timeline_of(node("a")))
    with pytest.raises(mo.InputError, match=r"decisions.csv: cannot be written: Not a directory"):
        history.write(tmp_path / "file" / "out", "csv")


def test_usage_by_node_and_label() -> None:
    timeline = timeline_of(node("a", zone="x"), node("b", zone="y"))
    on_b = {"kubernetes.io/hostname": "b"}
    timeline.create(1, pod("p", "2", node_selector=on_b))
    timeline.delete(5, "pod/p")
    timeline.create(7, node("c", "8", "y"))
    history = mo.replay(timeline)
    by_zone = history.usage("cpu", ZONE).to_dict()
    assert list(zip(*by_zone.values(), strict=True)) == [
        (0, "x", 0, 4000),
        (0, "y", 0, 4000),
        (1, "y", 2000, 4000),
        (5, "y", 0, 4000),
        (7, "y", 0, 12000),
    ]
    assert history.usage("pods", "node").to_dict()["group"] == ["a", "b", "b", "b", "c"]
    assert history.usage("cpu").to_dict()["allocatable"] == [8000, 8000, 8000, 16000]
    assert set(history.usage("no/such").to_dict()["requested"]) == {0}
