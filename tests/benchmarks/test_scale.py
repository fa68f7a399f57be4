"""The table of costs by cluster size, with a clock that advances by itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

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
