"""Output of ``moorage replay``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moorage.kube.releases import DEFAULT
from moorage.sim.measures import Measurement
from moorage.sim.replay import History, Verification
from moorage.table import rows_of

from .printing import PICTURES, Table, columns_table, text_of, write_answer, write_picture

if TYPE_CHECKING:
    from .printing import PageOf

HEAD: dict[str, Any] = {"apiVersion": "replay.moorage.dev/v1", "kind": "History"}


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
    numbers = {name: value for one in measured.values() for name, value in one.numbers.items()}
    if form in PICTURES:
        from moorage.sim.report import history_figure

        write_picture(form, history_figure(history, by))
        return
    if show == "summary":
        summary = history.summary() | numbers
        part: dict[str, Any] = {"summary": summary, "counts": history.counts}
        table = Table(("MEASURE", "VALUE"), [(name, f"{value:.12g}") for name, value in summary.items()])
    else:
        parts = {"decisions": history.decisions, "pods": history.pods, "nodes": history.nodes}
        parts |= {"scalings": history.scalings, "disruptions": history.disruptions}
        columns = history.usage(options["resource"], by) if show == "usage" else parts[show]()
        part = {show: [*map(_finite, rows_of(columns))]} if form in ("json", "yaml") else {}
        table = columns_table(columns)

    def page() -> PageOf:
        from moorage.answers.explain.explain_document import document
        from moorage.sim.report import history_page

        over_time = [one.over_time for one in measured.values() if one.over_time is not None]
        scheduler = history.scheduler
        made = history_page(history, by, numbers, lambda key: document(scheduler.explain(key)), over_time)
        return made, _decides(options), notes

    write_answer(form, lambda: HEAD | part, [history.headline()], [table], page=page)


def _decides(options: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the release that decides in a replay."""
    return [{"version": options["version"] or DEFAULT, "reason": ""}]


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


def write_verification(verification: Verification, options: Mapping[str, Any], notes: Sequence[str]) -> None:
    """Print the comparison of recorded bindings with decisions; see `write_history`."""

    def page() -> PageOf:
        from moorage.sim.report import verification_page

        return verification_page(verification), _decides(options), notes

    left_out = [f"{number} left out: {why}" for why, number in verification.left_out.items()]
    lines = [verification.headline(), *left_out, *verification.explanation()]
    document = HEAD | {"kind": "Verification"} | verification.to_dict()
    table = columns_table(verification.table())
    write_answer(options["output"], lambda: document, lines, [table], page=page)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in row.items() if not isinstance(value, float) or math.isfinite(value)
    }
