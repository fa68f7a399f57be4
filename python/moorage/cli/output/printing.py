"""Tables, values and names on stdout; equal input gives equal bytes."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from moorage.errors import printable
from moorage.objects.read.write import dump_yaml

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from moorage.objects.model.cluster import Cluster, LeftOut

RICH_ROWS = 1000
"""Maximum rows of a formatted table on a terminal; longer ones are plain, since rich lays out each cell."""
NUMBER_WIDTH = 9
_NUMBER = re.compile(r"[+-]?[0-9.,]+(e[+-]?[0-9]+)? ?[%A-Za-z]*")
PICTURES = ("png", "svg")


class Table(NamedTuple):
    """Headings of the columns, and cells by row."""

    headings: Sequence[str]
    cells: Sequence[Sequence[str]]


def write_tables(form: str, tables: Iterable[Table]) -> None:
    """Print tables, those without rows left out.

    Parameters
    ----------
    form : {"table", "markdown", "csv"}
        Format of the output. A CSV file has one table, the first.
    """
    for table in tables:
        if form == "csv":
            print(csv_text(table), end="")
            return
        if table.cells and form == "markdown":
            print(markdown_text(table))
        elif table.cells:
            print_table(*table)


def csv_text(table: Table) -> str:
    """Return a table as CSV (RFC 4180, with line feeds), upper-case headings in lower case with
    underscores."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    headings = (one.lower().replace(" ", "_") if one.isupper() else one for one in table.headings)
    writer.writerow(map(_csv_cell, headings))
    writer.writerows(map(_csv_cell, row) for row in table.cells)
    return out.getvalue()


def _csv_cell(text: str) -> str:
    """A cell that a spreadsheet shows and does not compute: it takes a text that begins so for a formula."""
    is_formula = len(text) > 1 and text[0] in "=+-@\t\r" and not _NUMBER.fullmatch(text)
    return printable(f"'{text}" if is_formula else text)


def markdown_text(table: Table) -> str:
    """Return a table as GitHub shows tables in Markdown."""
    rows = [table.headings, ["---"] * len(table.headings), *table.cells]
    return "".join(f"| {' | '.join(map(_markdown, row))} |\n" for row in rows)


def _markdown(text: str) -> str:
    """A text that Markdown shows as it is: no HTML, image or link, no column."""
    for special in "\\|<*_`[":
        text = text.replace(special, f"\\{special}") if text != "---" else text
    return printable(text)


def print_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print a table, with lines on a terminal.

    Parameters
    ----------
    headings : sequence of str
        Headings of the columns.
    cells : sequence of sequence of str
        Cells by row.
    """
    headings, cells = [*map(printable, headings)], [[*map(printable, row)] for row in cells]
    if sys.stdout.isatty() and len(cells) <= RICH_ROWS:
        _rich_table(headings, cells)
        return
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    for row in (headings, *cells):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    print()


def _rich_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    table = RichTable(*headings)
    for row in cells:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)


def print_lines(lines: Iterable[str], form: str = "table") -> None:
    """Print lines of prose, wrapped to the width of a terminal.

    Parameters
    ----------
    form : str, optional
        Format of the output: "markdown" has what Markdown would read as markup escaped.
    """
    if form == "markdown" or not sys.stdout.isatty():
        shown = _markdown if form == "markdown" else printable
        print(*(f"{shown(line)}\n" for line in lines), sep="", end="")
        return
    import shutil
    import textwrap

    width = shutil.get_terminal_size().columns
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        print(textwrap.fill(printable(line), width, subsequent_indent=f"{indent}  ") if line else "")


def row_printer(headings: Sequence[str], names: Sequence[str]) -> Callable[[Sequence[str]], None]:
    """Print the headings of a table whose rows are printed one by one.

    Parameters
    ----------
    headings : sequence of str
        Headings of the columns; all but the first have room for `NUMBER_WIDTH` characters.
    names : sequence of str
        What the first column will have.

    Returns
    -------
    callable
        Prints a row, given its cells.
    """
    first, *others = map(printable, headings)
    widths = [
        max(map(len, (first, *map(printable, names)))),
        *(max(len(one), NUMBER_WIDTH) for one in others),
    ]

    def print_row(cells: Sequence[str]) -> None:
        padded = (f"{printable(cell):<{width}}" for cell, width in zip(cells, widths, strict=True))
        print("  ".join(padded).rstrip(), flush=True)

    print_row(headings)
    return print_row


def write_picture(form: str, figure: Figure) -> None:
    """Write a figure to stdout, as the bytes of a file.

    Parameters
    ----------
    form : {"png", "svg"}
    """
    from moorage.report.figures import picture

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


def told(cluster: Cluster, warnings: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a document about the input: its release, and what was left out.

    Parameters
    ----------
    warnings : iterable of str
        All that the command prints.

    Returns
    -------
    dict
        ``release`` has the release of Kubernetes that decides, ``newPods`` the workloads whose new pods
        differ from their templates, ``leftOut`` those that are not simulated, ``warnings`` a sentence each.
    """
    about = {"release": release_document(cluster), "newPods": cluster.siblings.documents()}
    return about | left_out_document(cluster.left_out, warnings)


def release_document(cluster: Cluster) -> dict[str, str]:
    """Return the release of Kubernetes that decides for a cluster, and why.

    Parameters
    ----------
    cluster : Cluster
        As a command has loaded it.
    """
    assert cluster.release is not None
    return cluster.release._asdict()


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
    documents = [
        {"group": one.group, "kind": one.kind, "namespace": one.namespace, "name": one.name}
        | {"replicas": one.replicas, "why": one.why}
        for one in left_out
    ]
    return {"leftOut": documents, "warnings": list(warnings)}
