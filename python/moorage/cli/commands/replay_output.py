"""Output of ``moorage replay`` and ``moorage sweep``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from moorage.answers.text_tables import PrintedTable
from moorage.errors import number_of, printable
from moorage.kube.model.cluster import DecidingRelease
from moorage.kube.releases import DEFAULT
from moorage.sim.measures import Measurement
from moorage.sim.replay import History, Verification
from moorage.sim.replay.history_document import HistoryDocument, MeasureRow
from moorage.sim.sweep_result import Mean, SweepResult, drawn_measures, side_by_side

from .printing import (
    PICTURES,
    columns_table,
    ignore_broken_pipe,
    text_of,
    write_answer,
    write_picture,
)

if TYPE_CHECKING:
    from .printing import PageOf


def write_history(
    history: History,
    options: Mapping[str, Any],
    measured: Mapping[str, Measurement],
    notes: Sequence[str],
) -> None:
    """Print a part of a history, or all of it as a page or picture.

    Parameters
    ----------
    options : mapping of str to object
        The values of the command's options.
    measured : mapping of str to Measurement
        What is added to the summary.
    notes : sequence of str
        What the command says beside the answer.
    """
    form, show, by = options["output"], options["show"], options["by"]
    numbers = {name: value for measure in measured.values() for name, value in measure.numbers.items()}
    if form in PICTURES:
        from moorage.sim.replay_report import history_figure

        write_picture(form, history_figure(history, by))
        return
    if show == "summary":
        summary = history.summary() | numbers
        part = HistoryDocument(summary=summary, counts=history.counts)
        table = PrintedTable(
            ("MEASURE", "VALUE"), [(name, f"{value:.12g}") for name, value in summary.items()]
        )
    else:
        parts = {"decisions": history.decisions, "pods": history.pods, "nodes": history.nodes}
        parts |= {"scalings": history.scalings, "disruptions": history.disruptions}
        columns = history.usage(options["resource"], by) if show == "usage" else parts[show]()
        part = HistoryDocument.of(show, columns) if form in ("json", "yaml") else HistoryDocument()
        table = columns_table(columns)

    def page() -> PageOf:
        from moorage.answers.explain.explain_document import document
        from moorage.sim.replay_report import history_page

        over_time = [measure.over_time for measure in measured.values() if measure.over_time is not None]
        scheduler = history.scheduler
        result = history_page(
            history, by, numbers, lambda key: document(scheduler.ask.explain(key)), over_time
        )
        return result, _decides(options), notes

    write_answer(form, lambda: part, [history.headline()], [table], page=page)


def _decides(options: Mapping[str, Any]) -> list[DecidingRelease]:
    """Return the release that decides in a replay."""
    return [DecidingRelease(options["version"] or DEFAULT, "")]


def write_measures(form: str, history: History, measured: dict[str, Measurement]) -> None:
    """Print measures over time, a row for each value; those without times are at the end of the replay.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown"}
    """
    rows: list[tuple[float | None, str, float]] = []
    for measure in measured.values():
        columns = {} if measure.over_time is None else measure.over_time.to_dict()
        times = columns.pop("time", [])
        for name, values in columns.items():
            rows += [(time, name, value) for time, value in zip(times, values, strict=True)]
        if measure.over_time is None:
            rows += [(None, name, value) for name, value in measure.numbers.items()]
    measures = [
        MeasureRow(time=time, measure=name, value=value if math.isfinite(value) else UNSET)
        for time, name, value in rows
    ]
    table = PrintedTable(("TIME", "MEASURE", "VALUE"), [list(map(text_of, row)) for row in rows])
    write_answer(form, lambda: HistoryDocument(measures=measures), [history.headline()], [table])


def write_verification(verification: Verification, options: Mapping[str, Any], notes: Sequence[str]) -> None:
    """Print the comparison of recorded bindings with decisions; see `write_history`."""

    def page() -> PageOf:
        from moorage.sim.replay_report import verification_page

        return verification_page(verification), _decides(options), notes

    left_out = [f"{number} left out: {why}" for why, number in verification.left_out.items()]
    lines = [verification.headline(), *left_out, *verification.explanation()]
    table = columns_table(verification.table())
    write_answer(options["output"], verification.document, lines, [table], page=page)


# ---- sweep output ------------------------------------------------------------------------------------------


def write_sweep(form: str, result: SweepResult) -> None:
    """Print the measures of a sweep.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "latex", "html", "png", "svg"}
        A CSV file has the measures of each replay, a table the means side by side.
    """
    document = result.to_dict()
    about, names, cells = side_by_side(document["means"])
    table = PrintedTable([*map(str.upper, about), *names], cells)

    lines = [f"{result.headline()}{_differing(document['means'])}", _note(document)]

    def page() -> PageOf:
        from moorage.sim.sweep_report import sweep_page

        return sweep_page(document, lines), [], []

    if form in PICTURES:
        from moorage.sim.sweep_report import sweep_figure

        write_picture(form, sweep_figure(document))
    elif form == "latex":
        with ignore_broken_pipe():
            print(_latex_text(table, len(about), _note(document)), end="")
    else:
        runs = result.runs()
        rows = columns_table(runs, 6)._replace(headings=[*runs.columns])
        write_answer(form, lambda: document, lines, [table], lambda: rows, page)


def _differing(means: Sequence[Mean]) -> str:
    """Say how many measures differ between the configurations, if there are several."""
    if len({mean["configuration"] for mean in means}) < 2:
        return ""
    names, differ = drawn_measures(means)
    number = number_of(len(names), "differs", "differ") if differ else "none differs"
    return f"; {number} between the configurations"


def _note(document: Mapping[str, Any]) -> str:
    """Say what the cells are: of how many replays, and what is after the ±."""
    runs = sorted({mean["runs"] for mean in document["means"]})
    if runs == [1]:
        return "each cell is of one replay"
    counts = " to ".join(map(str, runs[:: len(runs) - 1] if len(runs) > 1 else runs))
    return f"means of {counts} replays, ± half the width of their 95 % confidence interval"


def _latex_text(table: PrintedTable, keys: int, note: str) -> str:
    """Return a table as LaTeX with booktabs, the columns after the keys to the right."""
    head, *rows = (" & ".join(map(_latex, row)) + r" \\" for row in (table.headings, *table.cells))
    columns = "l" * keys + "r" * (len(table.headings) - keys)
    lines = [f"% {note}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex(text: str) -> str:
    """A text that LaTeX shows as it is."""
    names = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
    return printable(re.sub(r"[\\~^±#$%&_{}]", lambda match: names.get(match[0], f"\\{match[0]}"), text))
