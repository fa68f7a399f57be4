"""Tables of tests as text, for a test beside them that carries out each row.

A section begins with ``# TITLE``; what stands before the first one says how to read the table. A row is
``NAME: TEXT``, and the indented lines below belong to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """A row, with the title of its section."""

    title: str
    name: str
    text: str
    below: list[str]


def rows(path: Path) -> list[Row]:
    """The rows of all sections, in their order."""
    read: list[Row] = []
    for section in path.read_text().split("\n# ")[1:]:
        title, *lines = filter(None, section.splitlines())
        for line in lines:
            if line.startswith("  "):
                read[-1].below.append(line.strip())
            else:
                name, _, text = line.partition(": ")
                read.append(Row(title, name, text, []))
    return read
