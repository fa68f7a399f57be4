"""Pictures of results for papers, by matplotlib: PNG, or SVG with texts as texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from moorage.errors import MoorageError, missing
from moorage.sim.replay import History
from moorage.sim.sweep.side_by_side import KEYS, drawn_measures, series_of

from .node_use import NodeUse, history_use
from .replay_page import Chart, charts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: Any = {
    "font.size": 8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.linewidth": 0.4,
    "grid.color": "#d0d0d0",
    "svg.fonttype": "none",
    "svg.hashsalt": "moorage",
}
COLOURS = ("#2a78d6", "#d95926", "#14875f", "#7a4bc2", "#a87400", "#c2417c", "#5d7a12", "#6b6963")
DASHES = ("-", "--", "-.", ":")
WIDTH = 7.0
"""Inches: the width of the text of a page."""
DOTS = 200
"""Dots per inch of a PNG."""
LABEL = 40
SERIES_HEIGHT = 1.9
"""Inches: the least height of panels where some have lines."""
REQUESTED = "requested (% of allocatable)"
TITLE: Any = {"fontsize": 8, "loc": "left"}
MOST = 40
"""Maximum number of combinations in a panel of a sweep."""


def node_figure(use: NodeUse) -> Figure:
    """Return the use of nodes: of all by zone, and its distribution over nodes.

    Raises
    ------
    MoorageError
        matplotlib is not installed.
    """
    figure, (left, right) = _panels(1, 2, 2.6)
    zones = np.array(use.groupings.get("zone", [""] * len(use.names)))
    names = np.unique(zones).tolist()
    shown = [name for name in use.in_use if use.allocatable[name].any()]
    thickness = 0.8 / max(1, len(shown))
    for number, resource in enumerate(shown):
        parts = [_part(use, resource, zones == name) for name in names]
        offsets = np.arange(len(names)) + (number - (len(shown) - 1) / 2) * thickness
        colour = COLOURS[number % len(COLOURS)]
        left.barh(offsets, parts, thickness, color=colour, label=resource)
        values = np.sort(use.percent[resource][np.isfinite(use.percent[resource])])
        values, share = np.append(values[0], values), 100 * np.arange(len(values) + 1) / len(values)
        right.step(values, share, where="post", color=colour, linestyle=DASHES[number % 4], label=resource)
    left.set_yticks(range(len(names)), [name or "(no zone)" for name in names] if len(names) > 1 else [""])
    left.invert_yaxis()
    left.set_title("By zone" if len(names) > 1 else "All nodes", **TITLE)
    right.set_title("Over nodes", **TITLE)
    left.set(xlim=(0, 100), xlabel=REQUESTED)
    right.set(xlim=(0, 100), ylim=(0, 102), xlabel=REQUESTED)
    right.set_ylabel("nodes with at most that (%)")
    if shown:
        figure.legend(
            *right.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=7, frameon=False
        )
    return figure


def _part(use: NodeUse, resource: str, here: Any) -> float:
    room = float(use.allocatable[resource][here].sum())
    return 100 * float(use.requested[resource][here].sum()) / room if room else 0.0


def history_figure(history: History, by: str = "") -> Figure:
    """Return what a history shows over time, a panel per chart.

    Parameters
    ----------
    by : str, optional
        The label of nodes by which use is shown, besides the zone; see `history_page`.

    Raises
    ------
    MoorageError
        matplotlib is not installed.
    """
    found = charts(history, history_use(history, by))
    figure, axes = _panels(max(1, len(found)), 1, 1.9)
    name, size = _unit_of_time(history.end)
    for chart, axis in zip(found, axes, strict=False):
        _draw(chart, axis, history.end, size)
    axes[-1].set_xlabel(f"time ({name})")
    return figure


def _draw(chart: Chart, axis: Any, end: float, size: float) -> None:
    for number, one in enumerate(chart.series):
        times, values = np.append(one.times, end), np.append(one.values, one.values[-1:])
        look = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % 4], "linewidth": 1.1}
        axis.step(times / size, values, where="post", label=one.name, **look)
    axis.set_title(chart.caption, **TITLE)
    axis.set_ylabel("%" if chart.unit else "pods")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _unit_of_time(seconds: float) -> tuple[str, float]:
    """Return the largest unit of which a span has at least two."""
    for name, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return name, size
    return "s", 1.0


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
    by_name = {name: [one for one in means if one["measure"] == name] for name in names}
    series = series_of(names)
    parts = {part for numbers in series.values() for part in numbers.values()}
    panels = [*series, *(name for name in names if name not in parts)]
    keys = [key for key in KEYS if len({one[key] for one in means}) > 1] or ["configuration"]
    most = max((len(rows) for rows in by_name.values()), default=1)
    columns = min(2, max(1, len(panels)))
    height = max(0.7 + 0.17 * min(most, MOST), SERIES_HEIGHT if series else 0)
    figure, axes = _panels(max(1, -(-len(panels) // columns)), columns, height)
    colours = {
        name: COLOURS[at % len(COLOURS)]
        for at, name in enumerate(dict.fromkeys(one["configuration"] for one in means))
    }
    for axis, name in zip(axes, panels, strict=False):
        if name in series:
            rows = {number: by_name[part] for number, part in series[name].items()}
            _lines(axis, rows, keys, colours)
        else:
            _panel(axis, by_name[name][:MOST], keys, colours)
        axis.set_title(name.replace("_", " "), **TITLE)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    return figure


def _label(mean: Mapping[str, Any], keys: Sequence[str]) -> str:
    label = " · ".join(mean[key] for key in keys)
    return label if len(label) <= LABEL else f"{label[:LABEL]}…"


def _lines(
    axis: Any,
    rows: Mapping[float, Sequence[Mapping[str, Any]]],
    keys: Sequence[str],
    colours: Mapping[str, str],
) -> None:
    """Draw the means of a series over its numbers, a line for each combination, with their intervals."""
    lines: dict[tuple[str, ...], list[tuple[float, float, float]]] = {}
    looks: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for number, means in rows.items():
        for one in means:
            key = tuple(one[name] for name in KEYS)
            looks.setdefault(key, one)
            lines.setdefault(key, []).append((number, one["mean"], one.get("margin", 0.0)))
    dashes: Counter[str] = Counter()
    for key, points in [*lines.items()][:MOST]:
        one = looks[key]
        numbers, means_, margins = np.array(points).T
        colour, dash = colours[one["configuration"]], DASHES[dashes[one["configuration"]] % 4]
        dashes[one["configuration"]] += 1
        axis.plot(numbers, means_, color=colour, linestyle=dash, linewidth=1.1, label=_label(one, keys))
        axis.fill_between(numbers, means_ - margins, means_ + margins, color=colour, alpha=0.2, linewidth=0)
    axis.legend(fontsize=6, frameon=False)


def _panel(
    axis: Any, rows: Sequence[Mapping[str, Any]], keys: Sequence[str], colours: Mapping[str, str]
) -> None:
    for at, one in enumerate(rows):
        colour, margin = colours[one["configuration"]], one.get("margin", 0.0)
        axis.hlines(at, one["least"], one["greatest"], color=colour, linewidth=0.8)
        axis.hlines(at, one["mean"] - margin, one["mean"] + margin, color=colour, linewidth=3)
        axis.plot(one["mean"], at, "o", color=colour, markersize=4.5, markeredgecolor="white")
    axis.set_yticks(range(len(rows)), [_label(one, keys) for one in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)


def _panels(rows: int, columns: int, height: float) -> tuple[Figure, Any]:
    """Return a figure, and its axes as an array."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MoorageError(missing("matplotlib", "report")) from None
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
    return figure, axes


def picture(figure: Figure, form: str) -> bytes:
    """Return a figure as the content of a file.

    Parameters
    ----------
    form : {"png", "svg"}

    Returns
    -------
    bytes
        Equal for equal figures.
    """
    from matplotlib import rc_context

    out = BytesIO()
    metadata = {"Date": None} if form == "svg" else {"Software": None}
    with rc_context(STYLE):
        figure.savefig(out, format=form, dpi=DOTS, metadata=metadata)
    return out.getvalue()
