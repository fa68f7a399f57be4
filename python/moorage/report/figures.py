"""Pictures of results for papers, by matplotlib: PNG, or SVG with texts as texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from moorage.errors import MoorageError
from moorage.sim.replay import History

from .node_use import NodeUse, history_use
from .replay_page import Chart, charts
from .sweep_page import KEYS, varied_first

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
    shown = [name for name, values in use.percent.items() if np.isfinite(values).any()]
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
    """Return the means of a sweep with their confidence intervals, a panel per measure.

    Measures that are equal in all replays are left out.

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
    varied, equal = varied_first(means)
    panels = {name: [one for one in means if one["measure"] == name] for name in varied or equal}
    several = [key for key in KEYS if len({one[key] for one in means}) > 1] or ["configuration"]
    most = max((len(rows) for rows in panels.values()), default=1)
    rows_of_panels = max(1, -(-len(panels) // 2))
    figure, axes = _panels(rows_of_panels, 2, 0.7 + 0.17 * min(most, MOST))
    colours = {
        name: COLOURS[at % len(COLOURS)]
        for at, name in enumerate(dict.fromkeys(one["configuration"] for one in means))
    }
    for axis, (measure, rows) in zip(axes, panels.items(), strict=False):
        _panel(axis, measure, rows[:MOST], several, colours)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    return figure


def _panel(
    axis: Any,
    measure: str,
    rows: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    colours: Mapping[str, str],
) -> None:
    for at, one in enumerate(rows):
        colour, margin = colours[one["configuration"]], one.get("margin", 0.0)
        axis.hlines(at, one["least"], one["greatest"], color=colour, linewidth=0.8)
        axis.hlines(at, one["mean"] - margin, one["mean"] + margin, color=colour, linewidth=3)
        axis.plot(one["mean"], at, "o", color=colour, markersize=4.5, markeredgecolor="white")
    labels = [" · ".join(one[key] for key in keys) for one in rows]
    axis.set_yticks(
        range(len(rows)), [label if len(label) <= LABEL else f"{label[:LABEL]}…" for label in labels]
    )
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_title(measure.replace("_", " "), **TITLE)


def _panels(rows: int, columns: int, height: float) -> tuple[Figure, Any]:
    """Return a figure, and its axes as an array."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MoorageError("matplotlib is missing: pip install 'moorage[report]'") from None
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
