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
from io import StringIO
from itertools import compress, zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from moorage.errors import printable
from moorage.kube.read.python_values import dump_yaml

from ..options.change_options import ChangingCommand, requested_changes
from ..options.option_types import ARGUMENTS, TITLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from moorage.answers.page import Page
    from moorage.kube.model.cluster import DecidingRelease, LeftOut, RefusedObject
    from moorage.table import Table as Columns

    PageOf = tuple[Page, Iterable[DecidingRelease | None], Iterable[str]]

GAP, INDENT = "  ", "    "
"""Between two columns, and before the lines on which a row continues."""
FOLDED = 24
"""Width below which no column is folded."""
_NUMBER = re.compile(r"[+-]?[0-9.,]+(e[+-]?[0-9]+)? ?[%A-Za-z]*")
PICTURES = ("png", "svg")


class PrintedTable(NamedTuple):
    """Headings of the columns, and cells by row."""

    headings: Sequence[str]
    cells: Sequence[Sequence[str]]


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
        Returns the JSON value.
    rows : callable, optional
        Returns the table of a CSV file; by default the first one.
    page : callable, optional
        Returns the page, the releases that decide, and the warnings.
    """
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            write_value(form, document())
        elif form == "html":
            assert page is not None
            write_page(*page())
        elif form == "csv":
            print(csv_text(next(iter(tables)) if rows is None else rows()), end="")
        else:
            print_lines([*lines, ""], form)
            for table in tables:
                if table.cells and form == "markdown":
                    print(markdown_text(table))
                elif table.cells:
                    print_table(*table)


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
    headings, *cells = _filled(table.headings, table.cells)
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
    """Print a table in plain columns, those that are empty in all rows left out.

    On a terminal a row that is too long folds where a text has spaces, and continues with its last columns on
    lines of their own, below their headings. A name is never cut.
    """
    rows = [[*map(printable, row)] for row in _filled(headings, cells)]
    width = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    parts = [*_parts(rows, width)]
    for row in rows:
        for indent, columns in parts:
            folded = [_folded(row[at], size) for at, size in columns.items()]
            for texts in zip_longest(*folded, fillvalue=""):
                padded = (f"{text:<{size}}" for text, size in zip(texts, columns.values(), strict=True))
                print(f"{indent}{GAP.join(padded)}".rstrip())
    print()


def _filled(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[list[str]]:
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


def print_lines(lines: Iterable[str], form: str = "table") -> None:
    """Print lines of prose, folded to the width of a terminal.

    Parameters
    ----------
    form : str, optional
        Format of the output: "markdown" has what Markdown would read as markup escaped.
    """
    shown = _markdown if form == "markdown" else printable
    width = get_terminal_size().columns if sys.stdout.isatty() and form != "markdown" else sys.maxsize
    for line in lines:
        if isinstance(line, CommandLine):
            word, _, command = printable(line).partition(": ")
            print(f"{word}: `{command}`" if form == "markdown" else f"{word}: {command}")
            continue
        text = line.lstrip()
        indent = line[: len(line) - len(text)]
        folded = _folded(shown(text), width - len(indent) - len(GAP)) or [""]
        print(*(f"{indent}{GAP * bool(at)}{part}\n" for at, part in enumerate(folded)), sep="", end="")


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


def refused_document(refused: Iterable[RefusedObject]) -> dict[str, Any]:
    """Return the field of a document about objects of the change that the API server would refuse; none
    without any."""
    documents = [obj.to_dict() for obj in refused]
    return {"refused": documents} if documents else {}


def left_out_document(left_out: Iterable[LeftOut], warnings: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a document about what was left out of the input.

    Parameters
    ----------
    warnings : iterable of str
        All that the command prints.

    Returns
    -------
    dict
        ``leftOut`` has the workloads that are not simulated, ``warnings`` a sentence each.
    """
    return {"leftOut": [obj.document() for obj in left_out], "warnings": list(warnings)}


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
        "Command": shlex.join(command),
    }
    page.about = {name: text for name, text in about.items() if text}
    page.subject = ", ".join(filter(None, (about["Input"], about["Changes"])))
    if given := context.meta.get(TITLE):
        page.title, page.subject = given, ""
    folders = {f"{os.path.dirname(name)}/" for name in _files(context.params) if os.path.isabs(name)}
    for folder in sorted(folders, key=len, reverse=True):
        warnings = [text.replace(folder, "") for text in warnings]
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
