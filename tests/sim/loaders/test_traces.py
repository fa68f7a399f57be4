"""Loaders of public traces, on made files that follow the publishers' descriptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import moorage as mo
from moorage import Timeline
from moorage.errors import InputError


def happened(timeline: Timeline) -> list[tuple[float, str, str]]:
    return [(event.time, event.verb.name.lower(), event.subject.rpartition("/")[2]) for event in timeline]


def requests_of(timeline: Timeline, at: int = 0) -> dict[str, Any]:
    pod = timeline.event(at).argument
    assert isinstance(pod, mo.Pod)
    return dict(pod.spec.containers[0].resources.requests)


def room_of(timeline: Timeline, at: int = 0) -> dict[str, Any]:
    return dict(timeline.cluster.nodes[at].status.allocatable)


def test_a_trace_of_alibaba_2020_is_read(tmp_path: Path) -> None:
    machines, tasks = tmp_path / "pai_machine_spec.csv", tmp_path / "pai_task_table.csv"
    machines.write_text("aa,T4,96,512,2\nbb,V100,64,256,8\ncc,CPU,64,256,0\n")
    rows = ("j,worker,1.0,Terminated,100.0,200.0,600.0,29.5,50.0,T4", "j,ps,1,Running,100,,50,1,,MISC")
    tasks.write_text("\n".join(rows))
    timeline = Timeline.read(machines, tasks, format="alibaba2020")
    assert happened(timeline) == [
        (100, "create", "j-worker-0"),
        (100, "create", "j-ps-0"),
        (200, "delete", "j-worker-0"),
    ]
    assert requests_of(timeline) == {"cpu": "6000m", "memory": "30208Mi", "alibabacloud.com/gpu-milli": "500"}
    assert room_of(timeline, 1)["alibabacloud.com/gpu-milli"] == "8000"
    assert "alibabacloud.com/gpu-milli" not in room_of(timeline, 2)
    assert mo.replay(timeline).pods().to_dict()["node"][0] == "aa"


def test_a_trace_of_philly_is_read(tmp_path: Path) -> None:
    log, machines = tmp_path / "cluster_job_log", tmp_path / "cluster_machine_list"
    machines.write_text("machineId,number of GPUs,single GPU mem\nm1,8,24GB\nm2,2,12GB\nm3,x,1\n")
    detail = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]
    attempt = {"start_time": "2017-10-09 07:02:00", "end_time": "2017-10-09 08:00:00", "detail": detail}
    job = {"jobid": "app_1", "submitted_time": "2017-10-09 07:01:50", "attempts": [attempt]}
    never = {"jobid": "app_2", "submitted_time": "2017-10-09 07:00:00", "attempts": []}
    log.write_text(json.dumps([job, never, {"jobid": "x", "submitted_time": "None", "attempts": [attempt]}]))
    timeline = Timeline.read(log, machines, format="philly")
    assert happened(timeline) == [
        (110, "create", "app-1-0"),
        (110, "create", "app-1-1"),
        (120, "bind", "app-1-0"),
        (120, "bind", "app-1-1"),
        (3600, "delete", "app-1-0"),
        (3600, "delete", "app-1-1"),
    ]
    assert requests_of(timeline) == {"nvidia.com/gpu": "2"}
    assert timeline.notes == {
        "machines left out: the number of GPUs is missing": 1,
        "jobs left out: they were never run": 1,
        "jobs left out: no time of submission": 1,
    }


@pytest.mark.parametrize("text", [b'[{"a": "\xb1"}]', b"[" * 5000, b'[{"a": 1}, 2]', b"[1"])
def test_a_log_of_philly_that_is_none(text: bytes, tmp_path: Path) -> None:
    log = tmp_path / "cluster_job_log"
    log.write_bytes(text)
    with pytest.raises(InputError, match="cluster_job_log: is not a list of jobs"):
        Timeline.read(log, format="philly")


def test_jobs_of_philly_whose_fields_are_of_other_types_are_left_out(tmp_path: Path) -> None:
    log, submitted = tmp_path / "cluster_job_log", {"submitted_time": "2017-10-09 07:01:50"}
    jobs = [{"attempts": 5}, {"attempts": [1]}, {"attempts": [{"detail": 3}]}]
    log.write_text(json.dumps([submitted | job for job in jobs]))
    with pytest.raises(InputError, match="no line was used as philly; 3 jobs left out: they were never run"):
        Timeline.read(log, format="philly")


@pytest.mark.parametrize(
    "text", ["machineId,number of GPUs,single GPU mem\nm1,2, 12GB\n", ",machineId,number of GPUs\n0,m1,2\n"]
)
def test_a_machine_of_philly_has_as_many_gpus_as_were_in_use(text: str, tmp_path: Path) -> None:
    """The publisher's list has too few; users' list begins with an index."""
    log, machines = tmp_path / "cluster_job_log", tmp_path / "machine_list.csv"
    machines.write_text(text)
    attempt = {"start_time": "2017-10-09 07:02:00", "detail": [{"ip": "m1", "gpus": ["a", "b", "c"]}]}
    log.write_text(
        json.dumps([{"jobid": "j", "submitted_time": "2017-10-09 07:01:50", "attempts": [attempt]}])
    )
    timeline = Timeline.read(machines, log, format="philly")
    assert room_of(timeline)["nvidia.com/gpu"] == "3"
    assert mo.verify(timeline).agrees


def test_a_trace_in_swf_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.swf.gz"
    head = "; MaxNodes: 4\n;  MaxProcs: 16\n; Note: x\n"
    jobs = (
        "1 0 5 100 6 -1 1024 6 200 2048 1 1 1 1 1 -1 -1 -1",
        "2 10 -1 -1 4 -1 -1 4 -1 -1 0 1 1 1 1 -1 -1 -1",
        "3 20 0 50 -1 -1 -1 -1 -1 -1 1 1 1 1 1 -1 -1 -1",
        "4 30",
    )
    path.write_bytes((head + "\n".join(jobs)).encode())
    timeline = Timeline.read(path, format="swf", memory_gib=64)
    assert happened(timeline) == [
        (0, "create", "job-1-0"),
        (0, "create", "job-1-1"),
        (105, "delete", "job-1-0"),
        (105, "delete", "job-1-1"),
    ]
    assert requests_of(timeline) == {"cpu": "4", "memory": "8192Ki"}
    assert requests_of(timeline, 1) == {"cpu": "2", "memory": "4096Ki"}
    assert (len(timeline.cluster.nodes), room_of(timeline)["cpu"]) == (4, "4")
    assert sorted(timeline.notes.values()) == [1, 1, 1]
    path.write_text(jobs[0])
    with pytest.raises(mo.InputError, match="the header has no MaxProcs"):
        Timeline.read(path, format="swf")
    with pytest.raises(mo.InputError, match="a workload is one file, not 2"):
        Timeline.read(path, path, format="swf")


def test_jobs_of_many_processors_on_one_node(tmp_path: Path) -> None:
    """A grid without MaxNodes is one node, which knows no limit of pods; a job of no time is told."""
    path = tmp_path / "x.swf"
    jobs = [f"{at} {at} 0 1000 1 -1 -1 1 -1 -1 1 1 1 1 1 -1 -1 -1" for at in range(200)]
    none = "200 200 0 0 1 -1 -1 1 -1 -1 1 1 1 1 1 -1 -1 -1"
    path.write_text("\n".join(["; MaxProcs: 2000", *jobs, none]))
    timeline = Timeline.read(path, format="swf")
    assert mo.replay(timeline).summary()["placed"] == 200
    assert timeline.notes == {"jobs with run time 0: they end as they are created, and are not tried": 1}


def test_names_of_files_tell_tables_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(mo.InputError, match="its name has none of pai_machine_spec, pai_task_table"):
        Timeline.read(path, format="alibaba2020")
