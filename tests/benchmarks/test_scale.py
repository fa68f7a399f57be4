"""The table of costs by cluster size, with a clock that advances by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

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


def test_the_cluster_is_left_as_it_was() -> None:
    """Batches and the pods there are taken back, so kinds do not see each other's."""
    made: list[Any] = []

    def kept(nodes: int) -> Any:
        made.append(original(nodes))
        before.append(made[0].table.requested["cpu"].tolist())
        return made[0]

    before: list[Any] = []
    original = scale.scheduler_with_service
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale, "scheduler_with_service", kept)
        assert len(list(scale.costs(100, 10, 1, ticks()))) == len(SERIES)
    assert [made[0].table.requested["cpu"].tolist()] == before


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


class Plot:
    """Stands for pyplot: remembers what is drawn."""

    def __init__(self) -> None:
        self.lines: list[tuple[list[int], list[float], dict[str, Any]]] = []
        self.saved: list[Path] = []

    def subplots(self, **_: Any) -> tuple[Plot, Plot]:
        return self, self

    def plot(self, x: list[int], y: list[float], **style: Any) -> None:
        self.lines.append((x, y, style))

    def set(self, **_: Any) -> None: ...
    def grid(self, *_: Any, **__: Any) -> None: ...
    def legend(self, **_: Any) -> None: ...
    def close(self, _: Plot) -> None: ...

    def savefig(self, path: Path, **_: Any) -> None:
        self.saved.append(path)


def test_the_picture_has_a_line_for_each_series_and_percentage() -> None:
    found = [scale.Cost("a", 0, 100, 1e-6), scale.Cost("b", 100, 100, 2e-6), scale.Cost("a", 0, 200, 3e-6)]
    plot, path = Plot(), Path("scale.svg")
    scale.draw(found, path, plot)
    assert plot.saved == [path]
    assert [(x, pytest.approx(y)) for x, y, _ in plot.lines] == [([100, 200], [1, 3]), ([100], [2])]
    assert [style["label"] for *_, style in plot.lines] == ["a, adaptive", "b, 100 %"]
