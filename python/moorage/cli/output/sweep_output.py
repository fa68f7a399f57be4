"""Output of ``moorage sweep``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from moorage.errors import printable
from moorage.sim.sweep import SweepResult
from moorage.sim.sweep.side_by_side import side_by_side

from .printing import (
    PICTURES,
    Table,
    ignore_broken_pipe,
    print_lines,
    write_picture,
    write_tables,
    write_value,
)

API_VERSION = "sweep.moorage.dev/v1"


def write_sweep(form: str, result: SweepResult) -> None:
    """Print the measures of a sweep.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "latex", "html", "png", "svg"}
        A CSV file has the measures of each replay, a table the means with a column for each configuration.
    """
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            write_value(form, _document(result))
        elif form == "html":
            from moorage.report import sweep_page

            from .pages import write_page

            write_page(sweep_page(_document(result)), [], [])
        elif form in PICTURES:
            from moorage.report import sweep_figure

            write_picture(form, sweep_figure(_document(result)))
        elif form == "csv":
            columns = result.runs().to_dict()
            rows = zip(*columns.values(), strict=True)
            write_tables(form, [Table(tuple(columns), [tuple(map(_text, row)) for row in rows])])
        else:
            document = _document(result)
            headings, cells = side_by_side(document["means"])
            keys = len(headings) - len({one["configuration"] for one in document["means"]})
            table = Table([*(one.upper() for one in headings[:keys]), *headings[keys:]], cells)
            if form == "latex":
                print(_latex_text(table, keys, _note(document)), end="")
            else:
                print_lines([_note(document), ""], form)
                write_tables(form, [table])


def _note(document: Mapping[str, Any]) -> str:
    """Say what the cells are: of how many replays, and what is after the ±."""
    runs = sorted({one["runs"] for one in document["means"]})
    if runs == [1]:
        return "each cell is of one replay"
    counts = " to ".join(map(str, runs[:: len(runs) - 1] if len(runs) > 1 else runs))
    return f"means of {counts} replays, ± half the width of their 95 % confidence interval"


def _latex_text(table: Table, keys: int, note: str) -> str:
    """Return a table as LaTeX with booktabs, the columns after the keys to the right."""
    head, *rows = (" & ".join(map(_latex, row)) + r" \\" for row in (table.headings, *table.cells))
    columns = "l" * keys + "r" * (len(table.headings) - keys)
    lines = [f"% {note}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex(text: str) -> str:
    """A text that LaTeX shows as it is."""
    names = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
    return printable(re.sub(r"[\\~^±#$%&_{}]", lambda one: names.get(one[0], f"\\{one[0]}"), text))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)


def _document(result: SweepResult) -> dict[str, Any]:
    found = result.to_dict()
    return {"apiVersion": API_VERSION, "kind": "SweepResult", "means": found["means"], "runs": found["runs"]}
