"""Output of ``moorage sweep``."""

from __future__ import annotations

import math
from typing import Any

from moorage.sim.sweep import SweepResult

from .printing import PICTURES, Table, ignore_broken_pipe, write_picture, write_tables, write_value

API_VERSION = "sweep.moorage.dev/v1"


def write_sweep(form: str, result: SweepResult) -> None:
    """Print the measures of a sweep.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "html", "png", "svg"}
        A CSV file has the measures of each replay.
    """
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            write_value(form, _document(result))
        elif form == "html":
            from moorage.report import sweep_page

            print(sweep_page(_document(result)).html(), end="")
        elif form in PICTURES:
            from moorage.report import sweep_figure

            write_picture(form, sweep_figure(_document(result)))
        elif form == "csv":
            columns = result.runs().to_dict()
            rows = zip(*columns.values(), strict=True)
            write_tables(form, [Table(tuple(columns), [tuple(map(_text, row)) for row in rows])])
        else:
            write_tables(form, [_means(result)])


def _means(result: SweepResult) -> Table:
    headings = (
        "CONFIGURATION",
        "TIMELINE",
        "CHANGE",
        "MEASURE",
        "RUNS",
        "MEAN",
        "LEAST",
        "GREATEST",
        "95 % ±",
    )
    columns = result.table().to_dict()
    rows = [tuple(map(_text, row)) for row in zip(*columns.values(), strict=True)]
    return Table(headings, rows)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)


def _document(result: SweepResult) -> dict[str, Any]:
    found = result.to_dict()
    return {"apiVersion": API_VERSION, "kind": "SweepResult", "means": found["means"], "runs": found["runs"]}
