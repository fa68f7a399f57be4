"""What a scheduler saves is the cluster as it is: another one goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest

import moorage as mo


@pytest.mark.parametrize("name", ["saved.json", "saved.yaml", "saved.json.gz"])
def test_another_scheduler_goes_on_from_there(tmp_path: Path, name: str) -> None:
    one = mo.Scheduler(mo.load("examples"))
    one.run()
    one.change.drain("worker-1")
    one.run()
    one.save(tmp_path / name)
    other = mo.Scheduler(mo.load(tmp_path / name))
    assert set(one.ask.diff(other).table().to_dict()["field"]) <= {"nodes_changed"}  # their versions
    pending = [*one.pods.pending]
    assert pending
    found = []
    for each in one, other:
        each.change.uncordon("worker-1")
        each.change.add_nodes(1, like="node-1")
        result = each.run()
        found.append(
            [(key, result.placements.get(key), str(result.unschedulable.get(key))) for key in pending]
        )
    assert found[0] == found[1]


def test_a_path_is_a_text_or_a_path() -> None:
    with pytest.raises(TypeError, match="path must be a string or a Path, not int"):
        mo.Scheduler(mo.Cluster()).save(3)  # type: ignore[arg-type]
