"""The page and the figure of ``moorage sweep``: views of its document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from moorage.answers.figures import COLOURS, DASHES, TITLE, panels
from moorage.answers.page import Cell, Drawn, Grid, KeyFigure, KeyFigures, Lines, Page, amount, shortened

from .sweep_result import KEYS, Mean, drawn_measures, series_of, side_by_side

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = 5_000
"""Maximum number of means that a page draws."""
MOST = 40
"""Maximum number of combinations in a panel of a figure."""
LABEL = 40
"""Maximum characters of the label of a combination."""
SERIES_HEIGHT = 1.9
"""Inches: the least height of panels where some have lines."""


# ---- page --------------------------------------------------------------------------------------------------


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
    combinations = {tuple(run[key] for key in KEYS) for run in runs}
    facts = [KeyFigure("replays", amount(len(runs))), KeyFigure("combinations", amount(len(combinations)))]
    counts = {f"{key}s": len({run[key] for run in runs}) for key in (*KEYS, "seed")}
    facts += [KeyFigure(name, amount(count)) for name, count in counts.items() if count > 1]
    page.add("Summary", KeyFigures(facts), Lines(lines[1:], True) if lines[1:] else None)
    page.add("Comparison", _intervals(means), _side_by_side(means))
    names = ("measure", "runs", "mean", "least", "greatest", "margin")
    rows: list[list[Cell]] = [[mean.get(name) for name in (*KEYS, *names)] for mean in means]
    headings = (*KEYS, *names[:-1], "95 % ±")
    page.add(
        "All means", shortened("Means over seeds", headings, rows, (0, 1, 2, 3), "-o json has them all.")
    )
    page.add("Replays", _runs(runs))
    return page


def _intervals(means: Sequence[Mean]) -> Drawn | None:
    if not means:
        return None
    values = {key.capitalize(): list(dict.fromkeys(mean[key] for mean in means)) for key in KEYS}
    choices = [choice for choice in values.items() if len(choice[1]) > 1]
    note = "Dot or line: mean. Thick line or band: 95 % confidence interval. Thin line: all seeds."
    drawn, differ = drawn_measures(means)
    if not differ and len({mean["configuration"] for mean in means}) > 1:
        note = f"No measure differs between the configurations. {note}"
    places = {part: (name, at) for name, parts in series_of(drawn).items() for at, part in parts.items()}
    measures = list(dict.fromkeys(places.get(name, (name,))[0] for name in drawn))
    texts = {"measures": measures, "choices": choices, "note": note}
    names = ("measure", *KEYS, "mean", "margin", "least", "greatest")
    rows: list[dict[str, Any]] = []
    for mean in [mean for mean in means if mean["measure"] in drawn][:ROWS]:
        rows.append({name: mean[name] for name in names if name in mean})
        if mean["measure"] in places:
            rows[-1]["measure"], rows[-1]["at"] = places[mean["measure"]]
    return Drawn("intervals", rows, texts)


def _side_by_side(means: Sequence[Mean]) -> Grid | None:
    keys, names, rows = side_by_side(means)
    if not 2 <= len(names) <= 12:
        return None
    return shortened("Means side by side", [*keys, *names], rows, range(len(keys)))


def _runs(runs: Sequence[Mapping[str, Any]]) -> Grid:
    measures = list(dict.fromkeys(name for run in runs for name in run["measures"]))
    rows: list[list[Cell]] = [
        [*(run[key] for key in KEYS), str(run["seed"]), *(run["measures"].get(name) for name in measures)]
        for run in runs
    ]
    return shortened(
        "Measures of each replay", (*KEYS, "seed", *measures), rows, (0, 1, 2), "-o csv has them all."
    )


# ---- figure ------------------------------------------------------------------------------------------------


def sweep_figure(document: Mapping[str, Any]) -> Figure:
    """Return the means of a sweep with their confidence intervals, a panel for each measure, and one for all
    measures of a series.

    Measures that are equal for all configurations are left out.

    Parameters
    ----------
    document : mapping
        ``sweep.moorage.dev/v1``.

    Raises
    ------
    MoorageError
        matplotlib is not installed.
    """
    means = document["means"]
    names, _ = drawn_measures(means)
    by_name = {name: [mean for mean in means if mean["measure"] == name] for name in names}
    series = series_of(names)
    parts = {part for numbers in series.values() for part in numbers.values()}
    titles = [*series, *(name for name in names if name not in parts)]
    keys = [key for key in KEYS if len({mean[key] for mean in means}) > 1] or ["configuration"]
    most = max((len(rows) for rows in by_name.values()), default=1)
    columns = min(2, max(1, len(titles)))
    height = max(0.7 + 0.17 * min(most, MOST), SERIES_HEIGHT if series else 0)
    figure, axes = panels(max(1, -(-len(titles) // columns)), columns, height)
    colours = {
        name: COLOURS[at % len(COLOURS)]
        for at, name in enumerate(dict.fromkeys(mean["configuration"] for mean in means))
    }
    for axis, name in zip(axes, titles, strict=False):
        if name in series:
            rows = {number: by_name[part] for number, part in series[name].items()}
            _lines(axis, rows, keys, colours)
        else:
            _panel(axis, by_name[name][:MOST], keys, colours)
        axis.set_title(name.replace("_", " "), **TITLE)
    for axis in axes[len(titles) :]:
        axis.set_visible(False)
    return figure


def _label(mean: Mean, keys: Sequence[str]) -> str:
    label = " · ".join(mean[key] for key in keys)
    return label if len(label) <= LABEL else f"{label[:LABEL]}…"


def _lines(
    axis: Any,
    rows: Mapping[float, Sequence[Mean]],
    keys: Sequence[str],
    colours: Mapping[str, str],
) -> None:
    """Draw the means of a series over its numbers, a line for each combination, with their intervals."""
    lines: dict[tuple[str, ...], list[tuple[float, float, float]]] = {}
    firsts: dict[tuple[str, ...], Mean] = {}
    for number, means in rows.items():
        for mean in means:
            key = tuple(mean[name] for name in KEYS)
            firsts.setdefault(key, mean)
            lines.setdefault(key, []).append((number, mean["mean"], mean.get("margin", 0.0)))
    dashes: Counter[str] = Counter()
    for key, points in [*lines.items()][:MOST]:
        configuration, label = firsts[key]["configuration"], _label(firsts[key], keys)
        numbers, values, margins = np.array(points).T
        colour, dash = colours[configuration], DASHES[dashes[configuration] % 4]
        dashes[configuration] += 1
        axis.plot(numbers, values, color=colour, linestyle=dash, linewidth=1.1, label=label)
        axis.fill_between(numbers, values - margins, values + margins, color=colour, alpha=0.2, linewidth=0)
    axis.legend(fontsize=6, frameon=False)


def _panel(axis: Any, rows: Sequence[Mean], keys: Sequence[str], colours: Mapping[str, str]) -> None:
    for at, mean in enumerate(rows):
        colour, margin = colours[mean["configuration"]], mean.get("margin", 0.0)
        axis.hlines(at, mean["least"], mean["greatest"], color=colour, linewidth=0.8)
        axis.hlines(at, mean["mean"] - margin, mean["mean"] + margin, color=colour, linewidth=3)
        axis.plot(mean["mean"], at, "o", color=colour, markersize=4.5, markeredgecolor="white")
    axis.set_yticks(range(len(rows)), [_label(mean, keys) for mean in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
