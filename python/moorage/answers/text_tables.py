"""What an answer is as text: lines of prose and tables in plain columns, folded to a width."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, zip_longest
from textwrap import wrap
from typing import NamedTuple

from moorage.errors import printable

GAP, INDENT = "  ", "    "
"""Between two columns, and before the lines on which a row continues."""
FOLDED = 24
"""Width below which no column is folded."""


class PrintedTable(NamedTuple):
    """Headings of the columns, and cells by row."""

    headings: Sequence[str]
    cells: Sequence[Sequence[str]]


def answer_text(lines: Iterable[str], tables: Iterable[PrintedTable]) -> str:
    """Return an answer as commands print it where no terminal has a width."""
    parts = [*prose_lines(lines), ""]
    for table in tables:
        parts += [*table_lines(*table), ""] if table.cells else []
    return "\n".join(parts).rstrip("\n")


def table_lines(
    headings: Sequence[str], cells: Sequence[Sequence[str]], width: int = sys.maxsize
) -> Iterator[str]:
    """Yield the lines of a table in plain columns, those that are empty in all rows left out.

    A row that is too long folds where a text has spaces, and continues with its last columns on lines of
    their own, below their headings. A name is never cut.
    """
    rows = [[*map(printable, row)] for row in filled(headings, cells)]
    parts = [*_parts(rows, width)]
    for row in rows:
        for indent, columns in parts:
            folded = [_folded(row[at], size) for at, size in columns.items()]
            for texts in zip_longest(*folded, fillvalue=""):
                padded = (f"{text:<{size}}" for text, size in zip(texts, columns.values(), strict=True))
                yield f"{indent}{GAP.join(padded)}".rstrip()


def filled(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return headings and rows without the columns in which no row has a text."""
    filled = [any(column) for column in zip(*cells, strict=True)]
    return [[*compress(row, filled)] for row in (headings, *cells)]


def _parts(rows: Sequence[Sequence[str]], width: int) -> Iterator[tuple[str, dict[int, int]]]:
    """Yield the lines of each row of a table: how far a line is indented, and the widths of its columns by
    their positions."""
    whole = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(whole) + len(GAP) * (len(whole) - 1) <= width:
        yield "", dict(enumerate(whole))
        return
    least = [
        min(size, max(FOLDED, *(len(word) for text in column for word in text.split(" "))))
        for size, column in zip(whole, zip(*rows, strict=True), strict=True)
    ]
    indent, columns, room = "", dict[int, int](), width
    for at, size in enumerate(least):
        if columns and size + len(GAP) > room:
            yield indent, _widened(columns, whole, room)
            indent, columns, room = INDENT, {}, width - len(INDENT)
        room -= size + len(GAP) * bool(columns)
        columns[at] = size
    yield indent, _widened(columns, whole, room)


def _widened(columns: Mapping[int, int], whole: Sequence[int], room: int) -> dict[int, int]:
    """Give the columns of a line the room that is left, those first that lack least."""
    widths = dict(columns)
    lacking = sorted(columns, key=lambda at: whole[at] - widths[at])
    for rank, at in enumerate(lacking):
        more = min(whole[at] - widths[at], max(room, 0) // (len(lacking) - rank))
        widths[at] += more
        room -= more
    return widths


def _folded(text: str, width: int) -> list[str]:
    """Fold a text at its spaces; a word that is longer than the width stays whole."""
    if len(text) <= width:
        return [text]
    return wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)


class CommandLine(str):
    """A line with a word and a command to copy, ``why: moorage explain …``: it is never folded."""

    __slots__ = ()


def prose_lines(
    lines: Iterable[str], width: int = sys.maxsize, shown: Callable[[str], str] = printable
) -> Iterator[str]:
    """Yield lines of prose, folded to a width.

    Parameters
    ----------
    shown : callable, optional
        Returns a text as it is printed.
    """
    for line in lines:
        if isinstance(line, CommandLine):
            yield printable(line)
            continue
        text = line.lstrip()
        indent = line[: len(line) - len(text)]
        folded = _folded(shown(text), width - len(indent) - len(GAP)) or [""]
        yield from (f"{indent}{GAP * bool(at)}{part}" for at, part in enumerate(folded))
