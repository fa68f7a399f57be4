"""The runner: sizes, the table of figures, and jobs that fail."""

from __future__ import annotations

import sys

import pytest

from tests.campaign.__main__ import LONG, SHORT, JobError, call, scaled, table


def test_sizes_grow_and_shrink_but_not_to_nothing() -> None:
    assert scaled(LONG, 0.5).operations == LONG.operations // 2
    tiny = scaled(SHORT, 1e-9)
    assert min(tiny) >= 1
    assert tiny.every == SHORT.every


def test_a_table_has_a_row_for_each_figure() -> None:
    told = table({"native": {"result": "ok", "operations": 1000000}})
    assert told.splitlines()[2:] == ["| native | result | ok |", "| native | operations | 1,000,000 |"]


def test_a_command_that_fails_is_a_failure() -> None:
    assert call(sys.executable, "-c", "print(1)") == "1\n"
    with pytest.raises(JobError, match="broken"):
        call(sys.executable, "-c", "raise SystemExit('broken')")
