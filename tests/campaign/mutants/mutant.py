"""A mutant: a change of one place of a source file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]


class Mutant(NamedTuple):
    """A change of one place: what stands between two offsets of a file becomes something else."""

    file: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.old!r} -> {self.new!r} @{self.start}"


def offsets(text: str) -> list[int]:
    """The offset at which each line begins, in bytes."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts
