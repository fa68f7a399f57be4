"""The example and the page run."""

from __future__ import annotations

import re
import runpy

import pytest

from tests.house.source import ROOT


def test_the_best_fit_waits_less_than_a_random_policy(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples/gym/compare_policies.py"), run_name="__main__")
    found = re.findall(r"^(\S.*?) +(\d+) s pending$", capsys.readouterr().out, re.M)
    assert [name for name, _ in found] == ["random", "best fit"]
    assert int(found[0][1]) > int(found[1][1]) > 0


def test_the_python_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found: dict[str, object] = {}
    page = (ROOT / "docs/gym.md").read_text()
    exec("\n".join(re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)), found)
    assert found["seen"]["mask"].shape == (16, 101)  # type: ignore[index]
    assert found["rewards"].tolist() == [1.0] * 16  # type: ignore[attr-defined]
