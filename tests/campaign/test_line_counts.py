"""Counts of lines: what gcov says of C, and which line of Cython generated C belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign import line_counts
from tests.campaign.line_counts import origins, ran, table

GENERATED = """\
static int f(void) {

  /* "moorage/a.pyx":7
 *     x = 1             # <<<<<<<<<<<<<<
*/
  x = 1;
  y = 2;

  /* function exit code */
  return x;
"""


def test_generated_lines_belong_to_the_comment_above_them() -> None:
    place = ("pyx/moorage/a.pyx", 7)
    assert origins(GENERATED) == [None, None, *[place] * 6, None, None]


def test_lines_of_c_count_for_the_cython_that_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_counts, "ROOT", tmp_path)
    (tmp_path / "build/cython/pyx").mkdir(parents=True)
    (tmp_path / "build/cython/pyx/a.c").write_text(GENERATED)
    (tmp_path / "pyx/moorage").mkdir(parents=True)
    (tmp_path / "pyx/moorage/a.pyx").write_text("")
    told = [
        {"file": name, "lines": [{"line_number": line, "count": count} for line, count in lines]}
        for name, lines in {
            "csrc/a.c": [(1, 0), (2, 5)],
            "build/cython/pyx/a.c": [(6, 0), (7, 3), (10, 4)],
            "/usr/include/stdlib.h": [(1, 1)],
        }.items()
    ]
    found = list(ran(told))
    assert found == [("csrc/a.c", 1, 0), ("csrc/a.c", 2, 5), *[("pyx/moorage/a.pyx", 7, n) for n in (0, 3)]]


def test_the_largest_gap_is_the_first_row() -> None:
    told = table({"csrc/a.c": {1: 1, 2: 0}, "csrc/b.c": {1: 0, 2: 0, 3: 9}, "pyx/a.pyx": {1: 1}})
    assert [line.split()[:-1] for line in told.splitlines()] == [
        ["csrc/b.c", "3", "1", "2", "33.3"],
        ["csrc/a.c", "2", "1", "1", "50.0"],
        ["pyx/a.pyx", "1", "1", "0", "100.0"],
        ["all", "of", "csrc/", "5", "2", "3", "40.0"],
        ["all", "of", "pyx/", "1", "1", "0", "100.0"],
    ]
