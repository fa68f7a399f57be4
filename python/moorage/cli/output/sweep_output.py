"""Output of ``moorage sweep``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moorage.errors import number_of, printable
from moorage.sim.sweep import SweepResult
from moorage.sim.sweep.side_by_side import Mean, drawn_measures, side_by_side

from .printing import PICTURES, Table, columns_table, ignore_broken_pipe, write_answer, write_picture

if TYPE_CHECKING:
    from .printing import PageOf

API_VERSION = "sweep.moorage.dev/v1"


def write_sweep(form: str, result: SweepResult) -> None:
    """Print the measures of a sweep.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "latex", "html", "png", "svg"}
        A CSV file has the measures of each replay, a table the means side by side.
    """
    document = _document(result)
    about, names, cells = side_by_side(document["means"])
    table = Table([*map(str.upper, about), *names], cells)

    lines = [f"{result.headline()}{_differing(document['means'])}", _note(document)]

    def page() -> PageOf:
        from moorage.sim.report import sweep_page

        return sweep_page(document, lines), [], []

    if form in PICTURES:
        from moorage.sim.report import sweep_figure

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
    if len({one["configuration"] for one in means}) < 2:
        return ""
    names, differ = drawn_measures(means)
    number = number_of(len(names), "differs", "differ") if differ else "none differs"
    return f"; {number} between the configurations"


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


def _document(result: SweepResult) -> dict[str, Any]:
    found = result.to_dict()
    return {"apiVersion": API_VERSION, "kind": "SweepResult", "means": found["means"], "runs": found["runs"]}
