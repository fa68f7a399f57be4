"""Recipes for traces (examples/traces), on made files that follow the publishers' descriptions."""

from __future__ import annotations

import json
import runpy
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import moorage as mo
from moorage import Timeline
from tests.house.source import ROOT

from .test_records import EXPECTED, NODE, pod, write_lines
from .test_traces import happened, requests_of, room_of

RECIPES = ROOT / "examples/traces"


def read(recipe: str, *paths: Path, **options: Any) -> Timeline:
    timeline = Timeline()
    runpy.run_path(str(RECIPES / f"{recipe}.py"))["read"](timeline, paths, **options)
    return timeline


def test_a_trace_of_alibaba_2018_is_read(tmp_path: Path) -> None:
    machines, tasks = tmp_path / "machine_meta.csv", tmp_path / "batch_task.csv"
    machines.write_text("m_1,0,1,1,96,100,USING\nm_1,9,1,1,96,100,USING\nm_2,0,1,,,100,USING\n")
    rows = ("M1,2,j_1,1,Terminated,10,25,100,0.5", "M2_1,,j_1,1,Failed,10,20,50,0.1")
    tasks.write_text(
        "\n".join((*rows, "R3,1,j_2,1,Waiting,0,0,100,0.5", "R4,1,j_2,1,Running,30,0,50,0.39\n"))
    )
    timeline = read("alibaba_2018", machines, tasks, memory_gib=2)
    assert happened(timeline) == [
        (10, "create", "j-1-m1-0"),
        (10, "create", "j-1-m1-1"),
        (25, "delete", "j-1-m1-0"),
        (25, "delete", "j-1-m1-1"),
        (30, "create", "j-2-r4-0"),
    ]
    assert requests_of(timeline) == {"cpu": "1000m", "memory": "1024Mi"}
    assert room_of(timeline) == {"cpu": "96", "memory": "204800Mi", "pods": "2147483647"}  # no limit
    assert timeline.notes == {
        "machines left out: a field is missing or not a number": 1,
        "tasks left out: the number of instances is missing": 1,
        "tasks left out: start, cpu or memory is missing": 1,
    }
    assert mo.replay(timeline).summary()["placed"] == 3


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_trace_of_google_2019_is_read(tmp_path: Path, form: str) -> None:
    machines = [(0, 7, 1, 0.5, 0.25), (5_000_000, 7, 3, 1.0, 0.5), (90_000_000, 7, 2, None, None)]
    instances = [
        (1_000_000, 0, 42, 0, None, 200, 0.01, 0.002),
        (2_000_000, 3, 42, 0, 7, 200, 0.01, 0.002),
        (3_000_000, 3, 42, 1, 7, 0, 0.02, 0.004),
        (4_000_000, 6, 42, 0, 7, 200, 0.01, 0.002),
        (4_000_000, 6, 43, 0, 7, 200, 0.01, 0.002),
        (5_000_000, 0, 44, 0, None, 0, None, None),
        (2**63 - 1, 0, 45, 0, None, 0, 0.1, 0.1),
    ]
    paths = [tmp_path / "machine_events", tmp_path / "instance_events"]
    columns = ["time", "machine_id", "type", "capacity.cpus", "capacity.memory"]
    _write(paths[0], form, columns, machines)
    columns = ["time", "type", "collection_id", "instance_index", "machine_id", "priority"]
    _write(paths[1], form, [*columns, "resource_request.cpus", "resource_request.memory"], instances)
    timeline = read("google_2019", *paths)
    assert happened(timeline) == [
        (0, "create", "m-7"),
        (1, "create", "42-0"),
        (2, "bind", "42-0"),
        (3, "create", "42-1"),
        (3, "bind", "42-1"),
        (4, "delete", "42-0"),
        (5, "apply", "m-7"),
        (90, "leave", "m-7"),
    ]
    assert requests_of(timeline, 1) == {"cpu": "1000m", "memory": "819Mi"}
    assert timeline.notes == {
        "instances left out: no request": 1,
        "instance events left out: no time or type": 1,
    }
    assert mo.verify(timeline).agrees


def _write(path: Path, form: str, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    if form == "csv":
        lines = [",".join("" if one is None else str(one) for one in row) for row in rows]
        path.write_text("\n".join([",".join(columns), *lines]))
        return
    documents = []
    for row in rows:
        document: dict[str, Any] = {}
        for name, value in zip(columns, row, strict=True):
            outer, dot, inner = name.partition(".")
            if dot and value is not None:
                document.setdefault(outer, {})[inner] = value
            elif not dot:
                document[name] = value
        documents.append(json.dumps(document))
    path.write_text("\n".join(documents))


def test_a_packing_trace_of_azure_is_read(tmp_path: Path) -> None:
    path = tmp_path / "packing_trace_zone_a_v1.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)")
        db.execute("CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime, endtime)")
        db.execute(
            "INSERT INTO vmType VALUES (0, 5, 0, 0.125, 0.5, NULL, 0.25, 0.1), (1, 5, 1, 1, 1, 0, 0, 0)"
        )
        db.execute("INSERT INTO vm VALUES (1, 0, 5, 1, -3.5, 0.5), (2, 0, 5, 0, 1, NULL), (3, 0, 9, 0, 1, 2)")
    db.close()
    timeline = read("azure_packing_2020", path, machines=2)
    assert happened(timeline) == [(0, "create", "vm-1"), (43200, "delete", "vm-1"), (86400, "create", "vm-2")]
    expected = {"cpu": "125000m", "memory": "512000Mi", "azure.com/ssd": "250000", "azure.com/nic": "100000"}
    assert requests_of(timeline) == expected
    assert mo.replay(timeline).summary()["placed"] == 2
    path.write_text("nothing")
    with pytest.raises(mo.InputError, match="is no packing trace"):
        read("azure_packing_2020", path)


def test_records_of_the_simulator_are_read(tmp_path: Path) -> None:
    def row(second: int, event: str, resource: Any) -> dict[str, Any]:
        return {"time": f"2026-01-01T00:00:{second:02}Z", "event": event, "resource": resource}

    rows = [
        row(0, "Add", NODE),
        row(1, "Add", pod("web-1")),
        row(2, "Update", pod("web-1", "n1")),
        row(2, "Update", pod("web-1", "n1")),
        row(3, "Add", pod("there", "n1")),
        row(4, "Add", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
        row(5, "Delete", pod("nobody")),
        row(9, "Delete", {"kind": "Pod", "metadata": {"name": "web-1", "namespace": "prod"}}),
        row(10, "Delete", {"kind": "Node", "metadata": {"name": "n1"}}),
        row(11, "Add", pod("Not-A-Name", spec={"containers": 5})),
        {"time": "soon", "event": "Add", "resource": NODE},
        '{"time": "2026-',
    ]
    timeline = read("simulator_record", write_lines(tmp_path / "r.jsonl", rows))
    assert happened(timeline) == EXPECTED
    assert timeline.notes == {
        "records left out: ConfigMap is not read": 1,
        "deletions left out: there is no object of this name": 1,
        "records left out: Pod cannot be decoded": 1,
        "records left out: the time is missing": 1,
        "lines left out: no JSON object": 1,
    }
    assert mo.verify(timeline).agrees
    assert mo.replay(timeline).summary()["placed"] == 2


def test_names_and_columns_tell_tables_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(mo.InputError, match="its name has none of machine_meta, batch_task"):
        read("alibaba_2018", path)
    with pytest.raises(mo.InputError, match="is no table of the trace of 2019"):
        read("google_2019", path, path)


def test_a_recipe_writes_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Sequence[Any] = [
        {"time": "2026-01-01T00:00:00Z", "event": "Add", "resource": NODE},
        {"time": "2026-01-01T00:00:01Z", "event": "Add", "resource": pod("web-1")},
    ]
    out = tmp_path / "out.yaml"
    command = ["simulator_record.py", str(write_lines(tmp_path / "r.jsonl", list(rows))), str(out)]
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_path(str(RECIPES / "simulator_record.py"), run_name="__main__")
    assert mo.replay(Timeline.read(out)).summary()["placed"] == 1
