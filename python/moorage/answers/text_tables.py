"""What an answer is as text: lines of prose and tables in plain columns, folded to a width."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from textwrap import wrap

from moorage.errors import printable
from moorage.lazy import NamedTuple
from moorage.notes import LineBelow

GAP, INDENT = "  ", "    "
"""Between two columns, and before the lines on which a row continues."""
FOLDED, MOST_LINES = 24, 1.5
"""Width below which no column is folded; and how many times the lines of blocks folded columns may need."""


class PrintedTable(NamedTuple):
    """Headings of the columns, and cells by row."""

    headings: Sequence[str]
    cells: Sequence[Sequence[str]]


def above_and_below(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the lines of an answer above its tables, and those below them."""
    above, below = list[str](), list[str]()
    for line in lines:
        (below if isinstance(line, LineBelow) else above).append(line)
    return above, below


def answer_text(lines: Iterable[str], tables: Iterable[PrintedTable], below: Iterable[str]) -> str:
    """Return an answer as commands print it where no terminal has a width."""
    above, under = above_and_below(lines)
    parts, shown = [*prose_lines(above)], [table for table in tables if table.cells]
    for table in shown:
        parts += ["", *table_lines(*table)]
    parts += [""] * bool(shown)
    return "\n".join([*parts, *prose_lines(under), *below]).rstrip("\n")


def table_lines(
    headings: Sequence[str], cells: Sequence[Sequence[str]], width: int = sys.maxsize
) -> Iterator[str]:
    """Yield the lines of a table in plain columns, those that are empty in all rows left out.

    In a table that is too wide, texts fold at spaces within their columns, and the row goes on below a name
    that is longer than its column; or, where that needs many more lines, rows continue on lines of their
    own, on which each cell stands after its heading. A name is never cut.
    """
    rows = [[*map(printable, row)] for row in filled(headings, cells)]
    whole = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if _sum(whole) <= width:
        yield from _in_columns(rows, whole)
        return
    least = [
        min(size, max(FOLDED, *(len(word) for text in column for word in text.split(" "))))
        for size, column in zip(whole, zip(*rows, strict=True), strict=True)
    ]
    if _sum(least) > width:
        least = [min(size, FOLDED) for size in whole]
    blocks = [*_in_blocks(rows, whole, width)]
    columns = [*_in_columns(rows, _widened(least, whole, width))] if _sum(least) <= width else blocks
    yield from columns if len(columns) <= MOST_LINES * len(blocks) else blocks


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _in_columns(rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """Yield rows whose texts fold to the widths of their columns; after a word that is longer than its column
    the row goes on below it."""
    for row in rows:
        lines, top = list[str](), 0
        for at, (text, size) in enumerate(zip(row, widths, strict=True)):
            begin, parts = _sum(widths[: at + 1]) - size, _folded(text, size)
            if begin + max(map(len, parts)) > _sum(widths):
                top, begin, parts = len(lines), len(INDENT), _folded(text, _sum(widths) - len(INDENT))
            lines += [""] * (top + len(parts) - len(lines))
            for line, part in enumerate(parts, top):
                lines[line] = f"{lines[line]:<{begin}}{part}"
            if begin + max(map(len, parts)) > _sum(widths[: at + 1]):
                top = len(lines)
        yield from map(str.rstrip, lines)


def _in_blocks(rows: Sequence[Sequence[str]], whole: Sequence[int], width: int) -> Iterator[str]:
    """Yield rows of as many columns as fit; the other cells follow after their headings, indented."""
    number = max(1, sum(_sum(whole[: at + 1]) <= width for at in range(len(whole))))
    for row in rows:
        yield from _in_columns([row[:number]], whole[:number])
        if row is not rows[0]:
            rest = zip(rows[0][number:], row[number:], strict=True)
            yield from _packed([f"{heading}: {cell}" for heading, cell in rest if cell], width)


def _packed(texts: Iterable[str], width: int) -> Iterator[str]:
    """Yield indented lines with as many texts as fit; one that is too long continues further in."""
    line = ""
    for text in texts:
        if line and len(INDENT + line + GAP + text) > width:
            yield INDENT + line
            line = ""
        first, *more = _folded(text, width - len(INDENT + GAP))
        line = f"{line}{GAP}{first}" if line else first
        if more:
            yield INDENT + line
            yield from (INDENT + GAP + part for part in more)
            line = ""
    if line:
        yield INDENT + line


def filled(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return headings and rows without the columns in which no row has a text."""
    filled = [any(column) for column in zip(*cells, strict=True)]
    return [[*compress(row, filled)] for row in (headings, *cells)]


def _widened(least: Sequence[int], whole: Sequence[int], width: int) -> list[int]:
    """Give columns the room that is left, those first that lack least."""
    widths, room = [*least], width - _sum(least)
    lacking = sorted(range(len(whole)), key=lambda at: whole[at] - widths[at])
    for rank, at in enumerate(lacking):
        more = min(whole[at] - widths[at], room // (len(lacking) - rank))
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
