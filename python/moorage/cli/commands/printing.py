"""Output of the commands on stdout. Pages and pictures are imported when one is written."""

from __future__ import annotations

import csv
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from io import StringIO
from operator import or_
from typing import TYPE_CHECKING, Any

import click
import msgspec

from moorage.answers.text_tables import (
    CommandLine,
    PrintedTable,
    above_and_below,
    filled,
    prose_lines,
    table_lines,
)
from moorage.errors import number_of, printable
from moorage.kube.read.python_values import dump_yaml
from moorage.notes import basis_line, reworded

from ..messages import ROWS, basis_of_answer, most_rows, ranked, terminal_width, with_own_notes
from ..options.change_options import ChangingCommand, requested_changes
from ..options.option_types import ARGUMENTS, TITLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from moorage.answers.page import Page
    from moorage.kube.model.cluster import DecidingRelease
    from moorage.table import Table as Columns

    PageOf = tuple[Page, Iterable[DecidingRelease | None], Iterable[str]]

_NUMBER = re.compile(r"[+-]?[0-9.,]+(e[+-]?[0-9]+)? ?[%A-Za-z]*")
PICTURES = ("png", "svg")


_LEAST_SHARE = 4
"""Into how many parts tables split a screen at most."""
COMMENT_ROWS = 8
"""Rows of a table in a comment on a pull request, which is to have less than 25 lines."""


def write_answer(
    form: str,
    document: Callable[[], Any],
    lines: Iterable[str],
    tables: Iterable[PrintedTable],
    rows: Callable[[], PrintedTable] | None = None,
    page: Callable[[], PageOf] | None = None,
) -> None:
    """Print an answer in one of the formats that commands share: its first line is the answer.

    Parameters
    ----------
    form : {"table", "wide", "markdown", "csv", "json", "yaml", "html"}
    document : callable
        Returns the document; or several, whose fields stand one after the other.
    rows : callable, optional
        Returns the table of a CSV file; by default the first one.
    page : callable, optional
        Returns the page, the releases that decide, and the warnings.
    """
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            value = document()
            parts = [part.to_dict() for part in value] if isinstance(value, tuple) else [value]
            write_value(form, reduce(or_, parts))
        elif form == "html":
            assert page is not None
            write_page(*page())
        elif form == "csv":
            print(csv_text(next(iter(tables)) if rows is None else rows()), end="")
        else:
            filled_tables = [table for table in tables if table.cells]
            above, below = above_and_below(with_own_notes(lines))
            print_lines([*above, *[""] * bool(filled_tables)], form)
            for table, most in zip(filled_tables, rows_shown(filled_tables, form), strict=True):
                print_rows(table, most, form)
            print_lines([*below, *basis_line(basis_of_answer())], form)


def print_rows(table: PrintedTable, most: int | None, form: str) -> None:
    """Print so many rows of a table, by default all, and how many more there are."""
    shown = table._replace(cells=table.cells[:most])
    if form == "markdown":
        print(markdown_text(shown))
    else:
        print_table(*shown)
    if more := len(table.cells) - len(shown.cells):
        print_lines([f"{number_of(more, 'more row', 'more rows')}: --top all shows all", ""], form)


def rows_shown(tables: Sequence[PrintedTable], form: str) -> list[int | None]:
    """Return how many rows of each table are shown: by default as many as `ROWS` lines have room for, which
    tables share."""
    most = most_rows(form)
    if most != ROWS:
        return [most] * len(tables)
    width, left = terminal_width(), ROWS
    needed = [
        sum(1 for _ in table_lines(*table._replace(cells=table.cells[:ROWS]), width)) - 1 for table in tables
    ]
    shown: list[int | None] = [None] * len(tables)
    shortest_first = sorted(range(len(tables)), key=needed.__getitem__)
    for sharing, at in zip(range(len(tables), 0, -1), shortest_first, strict=True):
        lines = min(needed[at], max(left // sharing, ROWS // _LEAST_SHARE))
        shown[at] = max(1, len(tables[at].cells[:ROWS]) * lines // needed[at])
        left -= lines
    return shown


def print_names(names: Iterable[str]) -> None:
    """Print names as kubectl prints objects, one a line."""
    with ignore_broken_pipe():
        print(*(f"{name}\n" for name in names), sep="", end="")


def text_of(value: object, digits: int = 12) -> str:
    """Return the text of a cell; "" for what is missing."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def columns_table(columns: Columns, digits: int = 12) -> PrintedTable:
    """Return columns of a result as a table of texts."""
    values = columns.to_dict()
    rows = [[text_of(value, digits) for value in row] for row in zip(*values.values(), strict=True)]
    return PrintedTable([name.upper() for name in values], rows)


def first_rows(table: PrintedTable) -> PrintedTable:
    """A table for a comment: its first rows, and how many others there are."""
    more = len(table.cells) - COMMENT_ROWS
    if more <= 0:
        return table
    rest = [f"… and {more} more", *[""] * (len(table.headings) - 1)]
    return PrintedTable(table.headings, [*table.cells[:COMMENT_ROWS], rest])


def csv_text(table: PrintedTable) -> str:
    """Return a table as CSV (RFC 4180, with line feeds), upper-case headings in lower case with
    underscores."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    headings = (
        heading.lower().replace(" ", "_") if heading.isupper() else heading for heading in table.headings
    )
    writer.writerow(map(_csv_cell, headings))
    writer.writerows(map(_csv_cell, row) for row in table.cells)
    return out.getvalue()


def _csv_cell(text: str) -> str:
    """A cell that a spreadsheet shows and does not compute: it takes a text that begins so for a formula."""
    is_formula = len(text) > 1 and text[0] in "=+-@\t\r" and not _NUMBER.fullmatch(text)
    return printable(f"'{text}" if is_formula else text)


def markdown_text(table: PrintedTable) -> str:
    """Return a table as GitHub shows tables in Markdown."""
    headings, *cells = filled(table.headings, table.cells)
    head, *rows = (f"| {' | '.join(map(_markdown, row))} |\n" for row in (headings, *cells))
    return "".join([head, f"| {' | '.join(['---'] * len(headings))} |\n", *rows])


def _markdown(text: str) -> str:
    """A text that Markdown shows as it is: no HTML, image or link, no column; `_` within a word is itself."""
    return printable(re.sub(r"[\\|<*`[]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", text))


def notice(level: str, title: str, text: str) -> str:
    """Return an annotation of GitHub. ``%`` and line ends are escaped, in titles ``:`` and ``,`` too."""
    named = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={named}::{_escaped(text)}\n"


def _escaped(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def print_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print a table in plain columns, folded to the width of a terminal, and a line without a text."""
    print(*table_lines(headings, cells, terminal_width()), "", sep="\n")


def print_lines(lines: Iterable[str], form: str = "table") -> None:
    """Print lines of prose, folded to the width of a terminal.

    Parameters
    ----------
    form : str, optional
        Format of the output: "markdown" has what Markdown would read as markup escaped.
    """
    if form != "markdown":
        print(*(f"{line}\n" for line in prose_lines(lines, terminal_width())), sep="", end="")
        return
    for line in lines:
        word, _, command = line.partition(": ")
        is_command = isinstance(line, CommandLine)
        shown = [f"{word}: `{printable(command)}`"] if is_command else prose_lines([line], shown=_markdown)
        print(*shown, sep="\n")


def write_picture(form: str, figure: Figure) -> None:
    """Write a figure to stdout, as the bytes of a file.

    Parameters
    ----------
    form : {"png", "svg"}
    """
    from moorage.answers.figures import picture

    with ignore_broken_pipe():
        sys.stdout.flush()
        sys.stdout.buffer.write(picture(figure, form))


def write_value(form: str, value: Any) -> None:
    """Print a value as JSON or YAML.

    Parameters
    ----------
    form : str
        ``json`` or ``yaml``.
    value : object
        A JSON value.
    """
    if form == "json":
        print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    else:
        print(dump_yaml(msgspec.to_builtins(value)), end="")


@contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Ignore a closed pipe on stdout inside the context."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Discard the buffer of stdout after a write error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ---- pages -------------------------------------------------------------------------------------------------
#
# Pages of commands: what a result is about stands on each.

FOLDERS = re.compile(r"(^|[=, '])/(?:(?:[^/=,; ]| (?!-))*/)+")
"""The folders of an absolute path: where a command ran is not what it was asked."""


def write_page(page: Page, releases: Iterable[DecidingRelease | None], warnings: Iterable[str]) -> None:
    """Print a page, with the title, input, changes, release and warnings of the current command."""
    context = click.get_current_context()
    texts = (
        f"{release.version} ({release.reason})".replace(" ()", "")
        for release in releases
        if release is not None
    )
    command = [*context.command_path.split(), *map(without_folders, context.meta[ARGUMENTS])]
    about = {
        "Input": " + ".join(_inputs(context.params)),
        "Changes": "; ".join(_changes(context)),
        "Kubernetes": ", ".join(dict.fromkeys(texts)),
        "Rests on": "; ".join(text for text in basis_of_answer() if not text.startswith("Kubernetes ")),
        "Command": shlex.join(command),
    }
    page.about = {name: text for name, text in about.items() if text}
    page.subject = ", ".join(filter(None, (about["Input"], about["Changes"])))
    if given := context.meta.get(TITLE):
        page.title, page.subject = given, ""
    folders = {f"{os.path.dirname(name)}/" for name in _files(context.params) if os.path.isabs(name)}
    warnings = ranked(warnings)
    for folder in sorted(folders, key=len, reverse=True):
        warnings = [reworded(text, text.replace(folder, "")) if folder in text else text for text in warnings]
    page.warnings = list(dict.fromkeys(warnings))
    print(page.html(), end="")


def without_folders(text: str) -> str:
    """Return an argument, or a command, in which an absolute path is the name of its file."""
    return FOLDERS.sub(r"\1", text)


def _inputs(params: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of what a command has read."""
    if any(params.get(name) for name in ("kubeconfig", "context", "in_cluster")):
        yield "API server" + (f" of context {params['context']}" if params["context"] else "")
    if params.get("synthetic"):
        yield f"synthetic {params['synthetic']}"
    for name in _files(params):
        yield "standard input" if name == "-" else without_folders(name)


def _files(params: Mapping[str, Any]) -> list[str]:
    file = params.get("file")
    return [*params.get("files", ()), *params.get("cluster", ()), *([file] if file else [])]


def _changes(context: click.Context) -> Iterator[str]:
    if isinstance(context.command, ChangingCommand):
        for change in requested_changes():
            yield without_folders(change.text.removeprefix("--"))
