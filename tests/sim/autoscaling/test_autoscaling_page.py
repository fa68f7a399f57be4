"""The code and the scenario of docs/autoscaling.md run."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from moorage import Timeline
from moorage.autoscalers import NodeGroup, ScaleDown
from tests.doors.autoscalers import EXPANDERS, known_groups
from tests.doors.sim import AutoscalerSpec
from tests.house.source import ROOT

PAGE = (ROOT / "docs/autoscaling.md").read_text()


def test_the_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    out = capsys.readouterr().out
    assert re.search(r"add +pool", out)
    assert re.search(r"remove +pool", out)


def test_the_scenario_is_read(tmp_path: Path) -> None:
    groups, text = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "s.yaml"
    path.write_text(groups)
    found = known_groups(str(path), "", [], [])
    assert found is not None
    assert len(found.settings.node_groups) == 3
    path.write_text(text)
    read = Timeline.read(path).autoscaler
    assert read is not None
    assert [one.name for one in read.node_groups] == ["small"]


@pytest.mark.parametrize("struct", [AutoscalerSpec, NodeGroup, ScaleDown])
def test_the_page_has_every_field(struct: type[msgspec.Struct]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(struct)]
    assert [name for name in names if name not in PAGE] == []


def test_the_page_has_every_expander() -> None:
    table = PAGE.split("| expander |")[1].split("\n\n")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)`", table, re.MULTILINE)) == sorted(EXPANDERS)
