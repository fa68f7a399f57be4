"""Output of ``moorage replay``."""

from __future__ import annotations

import math
from typing import Any

from moorage.sim.measures import Measurement
from moorage.sim.replay import History, Verification
from moorage.tables import Table as Columns
from moorage.tables.table import rows_of

from .printing import (
    PICTURES,
    Table,
    ignore_broken_pipe,
    print_lines,
    write_picture,
    write_tables,
    write_value,
)

API_VERSION = "replay.moorage.dev/v1"


def write_history(
    form: str, history: History, show: str, resource: str, by: str, numbers: dict[str, float]
) -> None:
    """Print a part of a history, or all of it as a picture.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "png", "svg"}
    show : {"summary", "decisions", "pods", "nodes", "usage", "scalings"}
    resource, by : str
        Of the usage; see `History.usage`.
    numbers : dict of str to float
        Of measures, which are added to the summary.
    """
    with ignore_broken_pipe():
        if form in PICTURES:
            from moorage.report import history_figure

            write_picture(form, history_figure(history, by))
        elif show == "summary":
            summary = history.summary() | numbers
            if form in ("json", "yaml"):
                head = {"apiVersion": API_VERSION, "kind": "History", "summary": summary}
                write_value(form, head | {"counts": history.counts})
            else:
                cells = [(name, f"{value:.12g}") for name, value in summary.items()]
                write_tables(form, [Table(("MEASURE", "VALUE"), cells)])
        else:
            _write_columns(form, history, show, resource, by)


def _write_columns(form: str, history: History, show: str, resource: str, by: str) -> None:
    """Print decisions, pods, nodes, usage or scalings."""
    parts = {"decisions": history.decisions, "pods": history.pods, "nodes": history.nodes}
    parts["scalings"] = history.scalings
    columns = history.usage(resource, by) if show == "usage" else parts[show]()
    if form in ("json", "yaml"):
        rows = [{name: one for name, one in row.items() if _is_finite(one)} for row in rows_of(columns)]
        write_value(form, {"apiVersion": API_VERSION, "kind": "History", show: rows})
    else:
        write_tables(form, [_table(columns)])


def write_measures(form: str, measured: dict[str, Measurement]) -> None:
    """Print measures over time, a row for each value; those without times are at the end of the replay.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown"}
    """
    rows: list[tuple[float | None, str, float]] = []
    for one in measured.values():
        columns = {} if one.over_time is None else one.over_time.to_dict()
        times = columns.pop("time", [])
        for name, values in columns.items():
            rows += [(time, name, value) for time, value in zip(times, values, strict=True)]
        if one.over_time is None:
            rows += [(None, name, value) for name, value in one.numbers.items()]
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            found = [{"time": time, "measure": name, "value": value} for time, name, value in rows]
            kept = [{name: one for name, one in row.items() if _is_finite(one)} for row in found]
            write_value(form, {"apiVersion": API_VERSION, "kind": "History", "measures": kept})
        else:
            write_tables(form, [Table(("TIME", "MEASURE", "VALUE"), [list(map(_text, row)) for row in rows])])


def write_verification(form: str, verification: Verification) -> None:
    """Print the comparison of recorded bindings with decisions.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown"}
    """
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            head = {"apiVersion": API_VERSION, "kind": "Verification"}
            write_value(form, head | verification.to_dict())
            return
        if form != "csv":
            left_out = [f"{number} left out: {why}" for why, number in verification.left_out.items()]
            print_lines([verification.headline(), *left_out, *verification.explanation(), ""], form)
        write_tables(form, [_table(verification.table())])


def _table(columns: Columns) -> Table:
    """Return columns as a table of texts."""
    values = columns.to_dict()
    cells = zip(*values.values(), strict=True)
    return Table([name.upper() for name in values], [[_text(value) for value in row] for row in cells])


def _text(value: Any) -> str:
    if value is None or not _is_finite(value):
        return ""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
