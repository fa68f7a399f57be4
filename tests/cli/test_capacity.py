"""`moorage capacity` as a page; its text is in `tests/cases/cli/capacity*.md`."""

from __future__ import annotations

import pytest

from moorage.cli import main
from tests.house.source import ROOT


def test_the_page_says_what_is_left_of_the_last_gang(capsys: pytest.CaptureFixture[str]) -> None:
    data = ROOT / "tests/data"
    command = ["capacity", "-f", str(data / "troubleshoot_bundle.json"), "--pod", str(data / "web_pod.yaml")]
    assert main([*command, "--gang", "8", "-o", "html"]) == 0
    assert "3 of the 8 pods of the next gang fit" in capsys.readouterr().out
