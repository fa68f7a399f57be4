"""`-o png` and `-o svg`."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import pytest

import moorage as mo
from moorage.answers import current_use, node_figure
from moorage.cli import main
from moorage.errors import MoorageError
from tests.conftest import NIGHTLY
from tests.make import node, pod

from .pages import COMMANDS

pytestmark = pytest.mark.usefixtures("in_the_repository")


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


def test_a_resource_of_which_nothing_is_requested_has_no_bar() -> None:
    pods = [pod(f"p-{name}", name, {"cpu": 1}) for name in "ab"]
    use = current_use(mo.Scheduler(mo.Cluster(nodes=[node("a", "x"), node("b", "y")], pods=pods)))
    drawn = {text.get_text() for text in node_figure(use).legends[0].get_texts()}
    assert ("cpu" in drawn, "memory" in drawn) == (True, False)


def test_a_missing_library_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MoorageError, match=r"matplotlib is missing \(extra report\): pip install matplotlib"):
        node_figure(current_use(mo.Scheduler(mo.Cluster())))
