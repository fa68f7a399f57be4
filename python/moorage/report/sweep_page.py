"""The page of ``moorage sweep``: a view of its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.sim.sweep.side_by_side import KEYS, drawn_measures, series_of, side_by_side

from .page import Cell, Drawn, Fact, Facts, Grid, Lines, Page, amount, shortened

ROWS = 5_000
"""Maximum number of means that are drawn."""


def sweep_page(document: Mapping[str, Any], lines: Sequence[str]) -> Page:
    """Return the page of a sweep.

    Parameters
    ----------
    document : mapping
        ``sweep.moorage.dev/v1``.
    lines : sequence of str
        What the command prints; the first one is the answer.
    """
    means, runs = document["means"], document["runs"]
    page = Page("Sweep", lines[0])
    combinations = {tuple(one[key] for key in KEYS) for one in runs}
    facts = [Fact("replays", amount(len(runs))), Fact("combinations", amount(len(combinations)))]
    counts = {f"{key}s": len({one[key] for one in runs}) for key in (*KEYS, "seed")}
    facts += [Fact(name, amount(count)) for name, count in counts.items() if count > 1]
    page.add("Summary", Facts(facts), Lines(lines[1:], True) if lines[1:] else None)
    page.add("Comparison", _intervals(means), _side_by_side(means))
    page.add("All means", _means(means))
    page.add("Replays", _runs(runs))
    return page


def _intervals(means: Sequence[Mapping[str, Any]]) -> Drawn | None:
    if not means:
        return None
    choices = [(key.capitalize(), list(dict.fromkeys(one[key] for one in means))) for key in KEYS]
    note = "Dot or line: mean. Thick line or band: 95 % confidence interval. Thin line: all seeds."
    drawn, differ = drawn_measures(means)
    if not differ and len({one["configuration"] for one in means}) > 1:
        note = f"No measure differs between the configurations. {note}"
    places = {part: (name, at) for name, parts in series_of(drawn).items() for at, part in parts.items()}
    measures = list(dict.fromkeys(places.get(name, (name,))[0] for name in drawn))
    texts = {"measures": measures, "choices": [one for one in choices if len(one[1]) > 1], "note": note}
    names = ("measure", *KEYS, "mean", "margin", "least", "greatest")
    rows: list[dict[str, Any]] = []
    for one in [one for one in means if one["measure"] in drawn][:ROWS]:
        rows.append({name: one[name] for name in names if name in one})
        if one["measure"] in places:
            rows[-1]["measure"], rows[-1]["at"] = places[one["measure"]]
    return Drawn("intervals", rows, texts)


def _side_by_side(means: Sequence[Mapping[str, Any]]) -> Grid | None:
    keys, names, rows = side_by_side(means)
    if not 2 <= len(names) <= 12:
        return None
    return shortened("Means side by side", [*keys, *names], rows, range(len(keys)))


def _means(means: Sequence[Mapping[str, Any]]) -> Grid:
    names = (*KEYS, "measure", "runs", "mean", "least", "greatest", "margin")
    rows: list[list[Cell]] = [[one.get(name) for name in names] for one in means]
    return shortened("Means over seeds", (*names[:-1], "95 % ±"), rows, (0, 1, 2, 3), "-o json has them all.")


def _runs(runs: Sequence[Mapping[str, Any]]) -> Grid:
    measures = list(dict.fromkeys(name for one in runs for name in one["measures"]))
    rows: list[list[Cell]] = [
        [*(one[key] for key in KEYS), str(one["seed"]), *(one["measures"].get(name) for name in measures)]
        for one in runs
    ]
    return shortened(
        "Measures of each replay", (*KEYS, "seed", *measures), rows, (0, 1, 2), "-o csv has them all."
    )
