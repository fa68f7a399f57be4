"""openb, on an excerpt of the real files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import moorage as mo
from moorage import Timeline
from moorage.sim.timeline import Verb
from tests.house.source import ROOT

GPU_COUNT = "alibabacloud.com/gpu-count"
GPU_MILLI = "alibabacloud.com/gpu-milli"
GPU_MODEL = "alibabacloud.com/gpu-card-model"

NODES, PODS = ROOT / "tests/data/openb/nodes.csv", ROOT / "tests/data/openb/pods.csv"
NODE_HEAD = "sn,cpu_milli,memory_mib,gpu,model\n"
POD_HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\n"
)


def test_the_excerpt_is_read_whole() -> None:
    timeline = Timeline.read(NODES, PODS)
    assert (len(timeline.cluster.nodes), len(timeline), timeline.notes) == (31, 604, {})
    assert timeline.end == 12902960
    node = timeline.cluster.nodes[0]
    assert node.status.allocatable[GPU_MILLI] == str(1000 * int(node.status.allocatable[GPU_COUNT]))
    history = mo.replay(timeline)
    gpu = history.usage(GPU_MILLI).to_pandas()
    assert gpu.allocatable.max() == sum(
        int(one.status.allocatable[GPU_MILLI]) for one in timeline.cluster.nodes
    )
    assert (gpu.requested <= gpu.allocatable).all()
    assert gpu.requested.iloc[-1] == 0


def test_rows_become_pods(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "n.csv", tmp_path / "p.csv.gz"
    nodes.write_text(NODE_HEAD + "N-1,96000,393216,8,G2\nn-2,1000,1024,0,\n")
    rows = "A,4000,1024,2,500,G2|T4,LS,Running,5,9,5\nb,1000,10,0,0,,BE,Pending,7,8,\n"
    pods.write_bytes(gzip.compress((POD_HEAD + rows).encode()))
    timeline = Timeline.read(pods, nodes)
    assert [(event.time, event.verb, event.subject) for event in timeline] == [
        (5, Verb.CREATE, "pod/default/a"),
        (7, Verb.CREATE, "pod/default/b"),
        (8, Verb.DELETE, "pod/default/b"),
        (9, Verb.DELETE, "pod/default/a"),
    ]
    pod = timeline.event(0).argument
    assert isinstance(pod, mo.Pod)
    assert pod.spec.containers[0].resources.requests == {
        "cpu": "4000m",
        "memory": "1024Mi",
        GPU_MILLI: "1000",
    }
    assert pod.metadata.annotations == {GPU_COUNT: "2", GPU_MILLI: "500", GPU_MODEL: "G2|T4"}
    assert pod.metadata.labels == {"qos": "LS"}
    history = mo.replay(timeline)
    assert history.pods().to_dict()["node"] == ["n-1", "n-1"]
    first, second = timeline.cluster.nodes
    assert (first.name, first.metadata.labels[GPU_MODEL]) == ("n-1", "G2")
    assert GPU_MILLI not in second.status.allocatable


def test_dirt_is_counted(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "n.csv", tmp_path / "p.csv"
    nodes.write_text(NODE_HEAD + "a,1000,1024,,\na,1000,1024,,\nb,x,1,,\n")
    rows = ("a,1,1,0,0,,,,5,3,", "a,1,1,0,0,,,,6,,", "b,,1,0,0,,,,1,2,", "c,1,1,0", "d,1,1,0,0,,,,4,,")
    pods.write_text(POD_HEAD + "\n".join((*rows, "", "d,1,1,0,0,,,,9,10,")))
    timeline = Timeline.read(nodes, pods)
    assert timeline.notes == {
        "nodes left out: there is one of this name": 1,
        "nodes left out: a field is missing or not a number": 1,
        "pods that end before they begin: end at their beginning": 1,
        "pods left out: there is one of this name": 2,
        "pods left out: a field is missing or not a number": 2,
    }
    assert [event.subject for event in timeline if event.verb is Verb.CREATE] == [
        "pod/default/d",
        "pod/default/a",
    ]


def test_a_list_without_times_arrives_pod_by_pod(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,0,0\nb,1,1,0,0\n")
    assert [event[:2] for event in Timeline.read(path, every=5)] == [(0, Verb.CREATE), (5, Verb.CREATE)]


def test_an_experiment_inflates_the_list_to_a_demand() -> None:
    timeline = Timeline.read(NODES, PODS, seed=42, demand=1.3)
    capacity = sum(int(one.status.allocatable.get(GPU_MILLI, 0)) for one in timeline.cluster.nodes)
    requests = [_gpu(event.argument) for event in timeline]
    assert 1.25 * capacity < sum(requests) <= 1.3 * capacity
    listed = [_gpu(event.argument) for event in Timeline.read(NODES, PODS) if event.verb is Verb.CREATE]
    more = Timeline.read(NODES, PODS, seed=42, demand=10.0)
    assert sorted(_gpu(event.argument) for event in list(more)[: len(listed)]) == sorted(listed)
    assert 9.8 * capacity < sum(_gpu(event.argument) for event in more) <= 10.1 * capacity
    assert list(Timeline.read(NODES, PODS, seed=42, demand=1.3)) == list(timeline)
    assert [e.subject for e in Timeline.read(NODES, PODS, seed=43)] != [
        e.subject for e in Timeline.read(NODES, PODS, seed=42)
    ]
    assert {event.verb for event in timeline} == {Verb.CREATE}


def _gpu(pod: object) -> int:
    assert isinstance(pod, mo.Pod)
    return int(pod.spec.containers[0].resources.requests.get(GPU_MILLI, 0))


def test_bad_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(
        mo.InputError,
        match=r"cannot tell its format: name it with --format \(in Python format\), one of alibaba2020, ",
    ):
        Timeline.read(path)
    with pytest.raises(mo.InputError, match="is not a list of nodes or pods"):
        Timeline.read(path, format="openb")
    with pytest.raises(mo.InputError, match="demand: needs a seed"):
        Timeline.read(NODES, PODS, demand=1.3)
    with pytest.raises(mo.InputError, match="no such file"):
        Timeline.read(tmp_path / "none.csv")
    with pytest.raises(mo.InputError, match='has no option "sede"; known are every, seed, demand'):
        Timeline.read(NODES, sede=1)
    broken = tmp_path / "y.csv.gz"
    broken.write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(mo.InputError, match="cannot be read"):
        Timeline.read(broken, format="openb")
    with pytest.raises(mo.InputError, match="cannot be read"):
        Timeline.read(broken)
