"""``moorage replay``: what `tests/cases/sim/replays.md` cannot show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moorage.cli import main
from tests.house.source import ROOT

NODES, PODS = str(ROOT / "tests/data/openb/nodes.csv"), str(ROOT / "tests/data/openb/pods.csv")


def test_a_replay_to_high_demand_fills_the_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--option", "seed=42", "--option", "demand=1.3", "--on-failure", "drop"]
    shown = ["--show", "usage", "--resource", "alibabacloud.com/gpu-milli", "-o", "csv"]
    assert main(["replay", NODES, PODS, *options, *shown]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "time,group,requested,allocatable"
    _, _, requested, allocatable = lines[-1].split(",")
    assert 0.8 < int(requested) / int(allocatable) <= 1


def test_a_history_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["replay", NODES, PODS, "--write", str(tmp_path / "out")]) == 0
    files = {path.stem: path for path in (tmp_path / "out").iterdir()}
    assert set(files) == {"decisions", "pods", "nodes", "cpu", "memory"}
    if files["pods"].suffix == ".csv":
        head, *lines = files["pods"].read_text().splitlines()
        assert head == "pod,node,created,bound,ended,pending,attempts,cause"
        assert len(lines) == 302
    (tmp_path / "file").write_text("")
    assert main(["replay", NODES, PODS, "--write", str(tmp_path / "file")]) == 2


def test_options_that_are_true_or_false_are_so(capsys: pytest.CaptureFixture[str]) -> None:
    """`false` is not a text, which would be true."""
    command, shown = ["replay", NODES, PODS, "--option", "seed=42", "--show", "nodes", "-o", "csv"], []
    for option in ([], ["--option", "shuffle_nodes=false"], ["--option", "shuffle_nodes=true"]):
        assert main([*command, *option]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]


@pytest.mark.parametrize(
    ("folder", "told"),
    [(["--folder", "kept"], "saved in kept: the same command goes on"), ([], "lost: --folder keeps them")],
)
def test_an_interrupted_sweep_says_what_is_saved(
    folder: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, progress: Callable[[int, int], None], **__: object) -> None:
        progress(2, 4)
        raise KeyboardInterrupt

    monkeypatch.setattr("moorage.sim.sweep.sweep", stopped)
    assert main(["sweep", "tests/data/openb/sweep.yaml", *folder]) == 130
    assert capsys.readouterr().err.strip() == f"interrupted: 2 of 4 replays are done, and {told}"
