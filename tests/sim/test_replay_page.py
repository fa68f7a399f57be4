"""The code of docs/replay.md run."""

from __future__ import annotations

import re

from moorage import Timeline
from tests.doors.sim import FORMATS, reader
from tests.house.source import ROOT

PAGE = (ROOT / "docs/replay.md").read_text()


def test_the_code_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    # A day of pods is more than a test needs.
    names: dict[str, object] = {}
    exec(code.replace("86_400", "8_640").replace("43_200", "4_320"), names)
    history, branch = names["history"], names["branch"]
    assert history.summary()["placed"] > 2000  # type: ignore[attr-defined]
    assert "node-00008" not in branch.context.view_order()  # type: ignore[attr-defined]


def test_the_scenario_is_read(tmp_path: object) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    path = ROOT.__class__(str(tmp_path)) / "s.yaml"
    path.write_text(text.replace("[nodes.yaml]", "[]"))
    assert {event.verb.name for event in Timeline.read(path)} == {
        "CREATE",
        "DELETE",
        "SCALE",
        "TAINT",
        "PATCH",
    }


def test_the_page_has_every_format_and_option() -> None:
    rows = dict(re.findall(r"^\| ([\w-]+) \|[^|]*\|([^|]*)\|[^|]*\|$", PAGE, re.MULTILINE))
    readers = {name: reader(name) for name in FORMATS if name != "scenario"}
    options = {name: ", ".join(read.__kwdefaults__ or {}) for name, read in readers.items()}
    assert {name: text.strip() for name, text in rows.items() if name in FORMATS} == options
