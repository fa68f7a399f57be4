"""`-o png` and `-o svg`."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET

import pytest

from moorage.cli import main
from moorage.errors import MoorageError
from moorage.report import picture, sweep_figure
from tests.conftest import NIGHTLY
from tests.house.source import ROOT

from .pages import COMMANDS

MEAN = {"timeline": "t", "change": "none", "runs": 3, "least": 1.0, "greatest": 3.0, "margin": 0.5}


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", ["simulate", "replay"])
def test_a_png_is_one(name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main([*COMMANDS[name], "-o", "png"]) == 0
    out = capfdbinary.readouterr().out
    assert (out[:8], out[-8:-4]) == (b"\x89PNG\r\n\x1a\n", b"IEND")


@pytest.mark.parametrize("name", ["simulate", "replay", "sweep"])
def test_an_svg_has_texts_and_the_same_bytes(name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    texts = []
    for _ in range(2 if NIGHTLY or name == "simulate" else 1):  # they are drawn alike
        assert main([*COMMANDS[name], "-o", "svg"]) == 0
        texts.append(capfdbinary.readouterr().out)
    assert len(set(texts)) == 1
    root = ET.fromstring(texts[0])
    words = {"".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")}
    wanted = {
        "simulate": {"All nodes", "Over nodes", "cpu", "memory"},
        "replay": {"Requested part of the allocatable amount", "running", "waiting", "time (days)"},
        "sweep": {"placed", "pending", "default", "all nodes"},
    }
    assert wanted[name] <= words


def test_measures_that_are_equal_everywhere_are_left_out() -> None:
    same = {"measure": "same", "mean": 2.0, "least": 2.0, "greatest": 2.0, "margin": 0.0}
    means = [MEAN | {"configuration": name} | same for name in "ab"]
    means += [MEAN | {"configuration": name, "measure": "other", "mean": ord(name) / 50} for name in "ab"]
    text = picture(sweep_figure({"means": means}), "svg").decode()
    assert re.findall(">(same|other)<", text) == ["other"]


def test_a_missing_library_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MoorageError, match=r"matplotlib is missing: pip install 'moorage\[report\]'"):
        sweep_figure({"means": []})
