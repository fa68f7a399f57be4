"""Output of ``moorage replay``."""

from __future__ import annotations

import math
from typing import Any

from moorage.sim.measures import Measurement
from moorage.sim.replay import History, Verification
from moorage.tables.table import rows_of

from .printing import PICTURES, Table, columns_table, text_of, write_answer, write_picture

HEAD: dict[str, Any] = {"apiVersion": "replay.moorage.dev/v1", "kind": "History"}


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
    if form in PICTURES:
        from moorage.report import history_figure

        write_picture(form, history_figure(history, by))
        return
    if show == "summary":
        summary = history.summary() | numbers
        part: dict[str, Any] = {"summary": summary, "counts": history.counts}
        table = Table(("MEASURE", "VALUE"), [(name, f"{value:.12g}") for name, value in summary.items()])
    else:
        parts = {"decisions": history.decisions, "pods": history.pods, "nodes": history.nodes}
        parts["scalings"] = history.scalings
        columns = history.usage(resource, by) if show == "usage" else parts[show]()
        part = {show: [*map(_finite, rows_of(columns))]} if form in ("json", "yaml") else {}
        table = columns_table(columns)
    write_answer(form, lambda: HEAD | part, [history.headline()], [table])


def write_measures(form: str, history: History, measured: dict[str, Measurement]) -> None:
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
    found = [_finite({"time": time, "measure": name, "value": value}) for time, name, value in rows]
    table = Table(("TIME", "MEASURE", "VALUE"), [list(map(text_of, row)) for row in rows])
    write_answer(form, lambda: HEAD | {"measures": found}, [history.headline()], [table])


def write_verification(form: str, verification: Verification) -> None:
    """Print the comparison of recorded bindings with decisions.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown"}
    """
    left_out = [f"{number} left out: {why}" for why, number in verification.left_out.items()]
    lines = [verification.headline(), *left_out, *verification.explanation()]
    document = HEAD | {"kind": "Verification"} | verification.to_dict()
    write_answer(form, lambda: document, lines, [columns_table(verification.table())])


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in row.items() if not isinstance(value, float) or math.isfinite(value)
    }
