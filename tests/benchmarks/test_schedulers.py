"""The table of schedulers by partition."""

from __future__ import annotations

import pytest
from bench import schedulers


def test_the_table_has_a_row_for_each_number_of_schedulers_and_partition(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schedulers.main(["--nodes", "16", "--chunk", "8"])
    head, rule, *rows = (line.strip("|").split("|") for line in capsys.readouterr().out.splitlines())
    assert [cell.strip() for cell in head] == schedulers.HEADINGS
    assert len(rule) == len(head)
    found = [(row[0].strip(), row[1].strip()) for row in rows]
    assert found == [("1", "none")] + [(n, p) for n in "248" for p in ("none", "zone", "hash")]
    conflicts = [float(row[3].strip(" %")) for row in rows]
    assert conflicts[0] == 0
    assert max(conflicts) > 0
