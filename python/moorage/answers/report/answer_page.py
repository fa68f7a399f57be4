"""The page of an answer that is lines and tables, as of ``moorage check`` and ``moorage plan``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .page import Cell, Facts, Grid, Lines, Page, shortened

Titled = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A caption, headings and rows."""


def answer_page(title: str, lines: Sequence[str], facts: Facts | None, tables: Iterable[Titled]) -> Page:
    """Return a page whose headline is the first line."""
    page = Page(title, lines[0])
    page.add("Answer", facts, Lines(lines[1:]) if lines[1:] else None, *map(_grid, tables))
    return page


def _grid(table: Titled) -> Grid:
    """Return a table whose columns of whole numbers are such."""
    caption, headings, rows = table
    numeric = [all(row[at].isdecimal() for row in rows) for at in range(len(headings))]
    cells: list[list[Cell]] = [
        [int(cell) if is_number else cell for cell, is_number in zip(row, numeric, strict=True)]
        for row in rows
    ]
    return shortened(caption, [one.lower() if one.isupper() else one for one in headings], cells)
