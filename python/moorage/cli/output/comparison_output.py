"""Output of ``moorage compare``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from moorage.cli.runs.comparison import Alternative, differing

from .printing import Table, ignore_broken_pipe, told, write_tables, write_value

API_VERSION = "compare.moorage.dev/v1"


def write_comparison(form: str, alternatives: Sequence[Alternative], warnings: Iterable[str]) -> None:
    """Print runs side by side.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "html"}
        A CSV file has the pods that differ.
    alternatives : sequence of Alternative
    warnings : iterable of str
        All that the command prints.
    """
    names, differences = [one.name for one in alternatives], differing(alternatives)
    pods = Table(("POD", *names), [(key, *places) for key, places in differences.items()])
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            left_out = dict.fromkeys(each for one in alternatives for each in one.simulation.cluster.left_out)
            write_value(form, _document(alternatives, differences) | told(left_out, warnings))
        elif form == "html":
            from moorage.report import comparison_page

            print(comparison_page(_document(alternatives, differences)).html(), end="")
        elif form == "csv":
            write_tables(form, [pods])
        else:
            write_tables(form, [_measures(alternatives), pods])
            if not differences:
                print("every pod is in the same place")


def _measures(alternatives: Sequence[Alternative]) -> Table:
    """A row per measure that some run has."""
    measures = [one.measures for one in alternatives]
    names = dict.fromkeys(name for each in measures for name in each)
    rows = [(name, *(f"{each[name]:g}" if name in each else "" for each in measures)) for name in names]
    return Table(("MEASURE", *(one.name for one in alternatives)), rows)


def _document(alternatives: Sequence[Alternative], differences: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Comparison",
        "alternatives": [{"name": one.name, "measures": one.measures} for one in alternatives],
        "differences": [{"pod": key, "places": places} for key, places in differences.items()],
    }
