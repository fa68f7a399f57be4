"""The code of docs/measures.md run, and the page has every measure."""

from __future__ import annotations

import inspect
import re

from moorage.sim.measures import MEASURES
from tests.house.source import ROOT

PAGE = (ROOT / "docs/measures.md").read_text()


def test_the_code_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    code = code.replace(".to_pandas()", ".to_dict()")
    try:
        exec(code, {})
    finally:
        MEASURES.pop("idle_nodes", None)


def test_the_page_has_every_measure_and_option() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", PAGE, re.MULTILINE)
    options = {name: list(inspect.signature(one).parameters)[1:] for name, one in MEASURES.items()}
    assert {name: re.findall(r"`(\w+)`", text) for name, text in rows} == options
