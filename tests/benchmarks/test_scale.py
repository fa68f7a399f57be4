"""The table of costs by cluster size, with a clock that advances by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from bench import scale

ARGUMENTS = ["--nodes", "100", "150", "--pods", "10", "--rounds", "2"]
SERIES = [
    f"{kind}, {share}"
    for kind in ("plain pods", "default spread", "hard spread over zones", "required anti-affinity")
    for share in ("adaptive", "100 %")
]


def ticks() -> Callable[[], float]:
    """A second passes with every look."""
    return map(float, count()).__next__


def test_the_table_has_a_row_for_each_number_of_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    scale.main(ARGUMENTS, ticks())
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert head == f"| {' | '.join(['nodes', *SERIES])} |"
    assert rule == f"| {' | '.join(['---:'] * 9)} |"
    assert rows == [f"| {nodes} | {' | '.join(['100 ms'] * 8)} |" for nodes in (100, 150)]


def test_pods_that_do_not_fit() -> None:
    scheduler = scale.scheduler_with_service(100)
    with pytest.raises(SystemExit, match=r"only \d+ of 50000 plain pods fit"):
        scale.best(scheduler, scale.PLAIN, 0, 50_000, 1, ticks())


def test_a_picture_without_matplotlib_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One sentence, before anything is measured."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as raised:
        scale.main([*ARGUMENTS, "--picture", str(tmp_path / "scale.svg")], ticks())
    assert str(raised.value) == scale.MISSING
