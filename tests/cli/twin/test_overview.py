"""TwinOverview: what the page of a twin shows first, and its numbers over time."""

from __future__ import annotations

import json
from threading import Event
from typing import Any

import pytest
from tests.cli.make import node
from tests.doors.cli import AskedTwin, TwinOverview
from tests.doors.live import Output

from moorage.errors import InputError


class Asked:
    """A cluster of a test: answers, each of which takes some seconds of its clock."""

    def __init__(self) -> None:
        self.now, self.takes, self.changes, self.asked, self.code = 0.0, 0.5, 1, list[str](), 0
        self.overview = TwinOverview(self.ask, lambda: self.changes, lambda: self.now)

    def ask(self, path: str, max_age: float | None) -> Any:
        self.now += self.takes
        self.asked.append(path)
        documents = {
            "nodes": {"items": [{"allocatable": {"cpu": 4, "pods": 9}, "requested": {"cpu": 1, "pods": 2}}]},
            "check": {"findings": [{"names": ["a"] * self.changes}]},
        }
        output = Output(self.code, json.dumps(documents[path]).encode(), "error: no node")
        return type("Answer", (), {"output": output, "command": f"moorage {path}"})()


def test_a_cluster_is_read_again_when_it_has_changed_and_the_last_reading_has_had_its_share() -> None:
    cluster = Asked()
    get = cluster.overview.get
    assert cluster.overview.about() == {"isDue": True}
    assert get() is get()
    cluster.now += 1000.0
    assert get().number == 1  # nothing has changed
    cluster.changes = 2
    assert cluster.overview.about() == {"reading": 1, "readSeconds": 1000.0, "isDue": True}
    assert get().number == 2
    cluster.changes = 3
    cluster.now += 39.0  # a reading takes 1 s, of which 40 is the least time between two
    assert (get().number, get(0.0).number) == (2, 3)
    cluster.takes, cluster.changes = 0.0, 4
    cluster.now += 41.0
    assert get().number == 4
    cluster.changes = 5
    cluster.now += 14.0
    assert get().number == 4
    cluster.now += 1.0
    assert (get().number, len(cluster.asked)) == (5, 10)


def test_the_numbers_are_kept_and_thinned_out_since_the_twin_runs() -> None:
    cluster = Asked()
    cluster.takes = 0.0
    for at in range(2000):
        cluster.now, cluster.changes = 100.0 * at, at
        reading = cluster.overview.get()
    document = json.loads(cluster.overview.document(reading))
    points = document["history"]
    assert 250 <= len(points) <= 500
    assert (points[0]["seconds"], points[-1]["seconds"], document["seconds"]) == (0.0, 199900.0, 199900.0)
    assert points[-1] == {"seconds": 199900.0, "cpu": 25.0, "bound": 2, "waiting": 1999}
    assert (document["reading"], document["command"]) == (2000, "moorage check")
    assert (len(document["nodes"]["items"]), len(document["check"]["findings"])) == (1, 1)


def test_a_reading_that_fails_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    cluster, stop = Asked(), Event()
    cluster.code = 2
    with pytest.raises(InputError, match="no node"):
        cluster.overview.get()
    stop.set()
    cluster.overview.keep_reading(stop)
    assert cluster.asked == ["nodes", "check"]
    assert caplog.records == []


def test_files_are_read_once_for_all_pages_and_again_when_they_change(tmp_path: Any) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("a", "z1")]}))
    twin = AskedTwin(None, [str(path)])
    try:
        first = json.loads(twin.reply("overview", [], b"").body)
        state = json.loads(twin.reply("state", [], b"").body)["overview"]
        assert (first["reading"], state["reading"], state["isDue"]) == (1, 1, False)
        assert [item["name"] for item in first["nodes"]["items"]] == ["a"]
        items = [node("a", "z1"), node("b", "z1")]
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
        found = twin.reply("overview", [("max-age", "0")], b"")
        assert len(json.loads(found.body)["nodes"]["items"]) == 2
        assert dict(found.headers)["Moorage-Repeat"].startswith("moorage nodes -f ")
    finally:
        twin.end()
