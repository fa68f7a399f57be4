"""Pictures of results for papers, by matplotlib: PNG, or SVG with texts as texts."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from moorage.errors import MoorageError, missing

from .nodes.node_use import NodeUse

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
REQUESTED = "requested (% of allocatable)"
TITLE: Any = {"fontsize": 8, "loc": "left"}


def node_figure(use: NodeUse) -> Figure:
    """Return the use of nodes: of all by zone, and its distribution over nodes.

    Raises
    ------
    MoorageError
        matplotlib is not installed.
    """
    figure, (left, right) = panels(1, 2, 2.6)
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


def panels(rows: int, columns: int, height: float) -> tuple[Figure, Any]:
    """Return a figure, and its axes as an array.

    Parameters
    ----------
    height : float
        Of a row, in inches.
    """
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


# ---- long series, reduced to what a chart can show ---------------------------------------------------------

Array = npt.NDArray[Any]


def m4(times: Array, values: Array, bins: int) -> Array:
    """Return which points of a series are kept: of each of some equal spans of time the first, the last, the
    least and the greatest, so that a line through them covers the pixels that all points would.

    Source: Jugel, Jerzak, Hackenbroich and Markl: M4, a visualization-oriented time series data aggregation.
    PVLDB 7(10), 2014.

    Parameters
    ----------
    times : (n,) float64 array
        Ascending.
    values : (n,) array

    Returns
    -------
    (m,) int64 array
        Ascending numbers of points, at most four a span; all of them if there are no more than that.
    """
    n = len(times)
    if n <= 4 * bins:
        return np.arange(n)
    span = (times[-1] - times[0]) or 1.0
    place = np.minimum(((times - times[0]) / span * bins).astype(np.int64), bins - 1)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    ends = np.append(starts[1:], n) - 1
    by_value = np.lexsort((values, place))  # the same spans, sorted by value within each
    return np.unique(np.concatenate([starts, ends, by_value[starts], by_value[ends]]))
