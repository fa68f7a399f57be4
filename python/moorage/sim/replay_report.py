"""The pages and figures of ``moorage replay``: a history over time, or recorded bindings beside decisions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from moorage.answers.answer_pages import (
    Explain,
    PendingCause,
    add_nodes,
    causes_block,
    use_facts,
    use_sentence,
)
from moorage.answers.figures import COLOURS, DASHES, TITLE, m4, panels
from moorage.answers.nodes.node_use import RESOURCES, NodeUse, grouping_labels
from moorage.answers.page import Cell, Drawn, Grid, KeyFigure, KeyFigures, Lines, Page, amount, shortened
from moorage.cluster.amounts import in_shown_order
from moorage.lazy import NamedTuple
from moorage.table import Table, rows_of

from .replay import History, Verification
from .replay.history import LOST
from .replay.recorder import End
from .replay.usage_over_time import levels, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# ---- history charts ----------------------------------------------------------------------------------------

Array = npt.NDArray[Any]
POINTS = 2_000
"""Maximum points of a series; charts of many series share four times as many."""
SERIES = 8
"""Maximum number of series of a chart."""
PANEL_HEIGHT = 1.9
"""Inches."""


class Series(NamedTuple):
    """A level over time: each value holds from its time on."""

    name: str
    times: Array
    values: Array


class Chart(NamedTuple):
    """Series of one unit over time: "%", or "" for numbers; a sum grows between its values."""

    caption: str
    unit: str
    series: list[Series]
    is_sum: bool = False


def history_use(history: History, by: str = "") -> NodeUse:
    """Return the mean use of nodes over a history, weighted by time."""
    labels = grouping_labels(lambda label: any(history.node_labels(label)), by)
    table = history.scheduler.table
    means = {name: history.mean_use(name) for name in in_shown_order(table.allocatable)}
    shown = [name for name, (requested, room) in means.items() if requested.any() or room.any()][:RESOURCES]
    return NodeUse(
        history.node_names,
        {name: history.node_labels(label) for name, label in labels.items()},
        labels,
        {name: means[name][0] for name in shown},
        {name: means[name][1] for name in shown},
    )


def duration(seconds: float) -> str:
    """Format a span of time: its two largest units."""
    if not math.isfinite(seconds):
        return ""
    sizes = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    left, parts = round(seconds), []
    if seconds < 60:
        return f"{seconds:.3g} s"
    for name, size in sizes:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])


def charts(history: History, use: NodeUse) -> list[Chart]:
    """Return what a history shows over time: use of resources, by zone and pool, and numbers of pods.

    Parameters
    ----------
    use : NodeUse
        Says which resources and labels there are.
    """
    drawn = [Chart("Requested part of the allocatable amount", "%", _use_series(history, use))]
    for name, label in use.labels.items():
        if len(set(use.groupings[name])) > 1:
            drawn.append(Chart(f"Requested cpu by {name}", "%", _by_label(history, label)))
    drawn.append(Chart("Pods", "", [*_pod_series(history)]))
    drawn.append(Chart("Nodes", "", _node_series(history, use)))
    return [_to_end(chart, history.end) for chart in drawn if any(len(times) for _, times, _ in chart.series)]


def _to_end(chart: Chart, end: float) -> Chart:
    """Return a chart whose last values hold until the end."""
    lengthened = [
        Series(name, times, values)
        if not len(times) or times[-1] >= end
        else Series(name, np.append(times, end), np.append(values, values[-1]))
        for name, times, values in chart.series
    ]
    return chart._replace(series=lengthened)


def _use_series(history: History, use: NodeUse) -> list[Series]:
    series = []
    for resource in use.allocatable:
        table = history.usage(resource).columns
        time, requested, room = (np.asarray(table[name]) for name in ("time", "requested", "allocatable"))
        if requested.any() and room.any():
            series.append(Series(resource, time, percent(requested, room)))
    return series[:SERIES]


def _by_label(history: History, label: str) -> list[Series]:
    """Return the use of cpu by value of a label, of the values with the most cpu."""
    table = history.usage("cpu", label).columns
    time, requested, room = (np.asarray(table[name]) for name in ("time", "requested", "allocatable"))
    names = np.array([name or "(none)" for name in table["group"]])
    sizes = {name: int(room[names == name].max()) for name in np.unique(names).tolist()}
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:SERIES]
    return [
        Series(name, time[here], percent(requested[here], room[here]))
        for name in sorted(largest)
        for here in [names == name]
    ]


def _node_series(history: History, use: NodeUse) -> list[Series]:
    """Return the number of nodes, and that of each pool, if it changes."""
    _, (times, _, count) = history.node_levels(lambda node: 1)
    series = [Series("all", times, count)]
    if "pool" in use.labels:
        names, (when, pools, counts) = history.node_levels(lambda node: 1, use.labels["pool"])
        places = [(name, pools == at) for at, name in enumerate(names)]
        series += [Series(name or "(none)", when[here], counts[here]) for name, here in places if here.any()]
    return series[:SERIES] if len(set(count.tolist())) > 1 else []


def measured_charts(table: Table, end: float) -> Iterable[Chart]:
    """Yield a chart of each column of a measure over time."""
    columns = table.to_dict()
    times = np.asarray(columns.pop("time"))
    for name, values in columns.items():
        series = [Series(name, times, np.asarray(values))]
        is_sum = f"{name}_per_hour" in columns
        yield _to_end(Chart(name.replace("_", " ").capitalize(), "", series, is_sum), end)


def _pod_series(history: History) -> Iterable[Series]:
    pods = history.pod_columns
    left = np.minimum(pods["bound"], pods["ended"])
    is_bound = np.isfinite(pods["bound"])
    yield _count("running", pods["bound"][is_bound], pods["ended"][is_bound])
    yield _count("waiting", pods["created"], left)


def _count(name: str, starts: Array, ends: Array) -> Series:
    """Return how many spans there are at each time; those without an end go on."""
    ends = ends[np.isfinite(ends)]
    times = np.concatenate([starts, ends])
    steps = np.repeat(np.array([1, -1], np.int64), (len(starts), len(ends)))
    times, _, counts = levels(times, np.zeros(len(times), np.int32), steps)
    return Series(name, times, counts)


def timelines(drawn: Sequence[Chart]) -> Drawn | None:
    """Return charts with zoom, and a table of their numbers; None for no chart."""
    if not drawn:
        return None
    data, texts = [], []
    for chart in drawn:
        bins = POINTS // 4 if len(chart.series) <= 4 else POINTS // len(chart.series)
        reduced = [_reduced(series, bins) for series in chart.series]
        data.append({"unit": chart.unit, "series": reduced, "isSum": chart.is_sum})
        unit = " %" if chart.unit == "%" else ""
        ends = [
            f"{series.name} from {series.values.min():.4g} to {series.values.max():.4g}{unit}"
            for series in chart.series
        ]
        texts.append({"caption": chart.caption, "label": f"{chart.caption} over time: {'; '.join(ends)}"})
    return Drawn("timelines", data, {"charts": texts, "table": _numbers(drawn)})


def _reduced(series: Series, bins: int) -> dict[str, Any]:
    kept = m4(series.times, series.values, bins)
    times = [float(f"{value:.9g}") for value in series.times[kept].tolist()]
    values = [float(f"{value:.5g}") for value in series.values[kept].tolist()]
    return {"name": series.name, "times": times, "values": values}


def _numbers(drawn: Sequence[Chart]) -> Grid:
    rows: list[list[Cell]] = []
    for chart in drawn:
        for name, times, values in chart.series:
            peak = duration(float(times[np.argmax(values)]))
            numbers = [round(float(value), 2) for value in (values.min(), values.max(), values[-1])]
            rows.append([chart.caption, f"{name} %" if chart.unit else name, *numbers, peak])
    headings = ("chart", "series", "least", "greatest", "at the end", "greatest after")
    return shortened("Levels over time", headings, rows)


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
    drawn = charts(history, history_use(history, by))
    figure, axes = panels(max(1, len(drawn)), 1, PANEL_HEIGHT)
    units = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0))  # the largest of which there are two
    name, size = next((unit for unit in units if history.end >= 2 * unit[1]), ("s", 1.0))
    for chart, axis in zip(drawn, axes, strict=False):
        for number, series in enumerate(chart.series):
            times, values = np.append(series.times, history.end), np.append(series.values, series.values[-1:])
            look = {
                "color": COLOURS[number % len(COLOURS)],
                "linestyle": DASHES[number % 4],
                "linewidth": 1.1,
            }
            axis.step(times / size, values, where="post", label=series.name, **look)
        axis.set_title(chart.caption, **TITLE)
        axis.set_ylabel("%" if chart.unit else "pods")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    axes[-1].set_xlabel(f"time ({name})")
    return figure


LONGEST = 50
"""Rows of the table of pods that waited longest."""
SCALING = ("after", "action", "group", "nodes", "reason")


def history_page(
    history: History,
    by: str = "",
    numbers: Mapping[str, float] | None = None,
    explain: Explain | None = None,
    over_time: Iterable[Table] = (),
) -> Page:
    """Return the page of a history.

    Parameters
    ----------
    by : str, optional
        The label of nodes by which use is shown over time, besides the zone; the one of pools by default.
    numbers : mapping of str to float, optional
        Of measures, shown in a table of their own.
    explain : Explain or None, optional
        Called for one pending pod of each of the most frequent causes.
    over_time : iterable of Table, optional
        Measures with a column ``time``, each other column of which has a chart.
    """
    summary, use = history.summary(), history_use(history, by)
    page = Page("Replay", _headline(summary, use))
    page.add("Summary", _facts(summary, use), _notes(history.counts))
    measured = [chart for table in over_time for chart in measured_charts(table, history.end)]
    page.add("Timelines", timelines([*charts(history, use), *measured]))
    causes = causes_block(_causes(history), explain)
    page.add("Pods without a node", causes or Lines(["Every pod got a node."]))
    page.add("Waiting", _longest(history))
    scalings = rows_of(history.scalings())
    if scalings:
        rows = [[duration(row["time"]), *list(row.values())[1:]] for row in scalings]
        page.add("Scaling", shortened("Nodes that came and went", SCALING, rows, (), "--show scalings: all."))
    if numbers:
        page.add("Measures", Grid("Measures", ("measure", "value"), [*numbers.items()]))
    add_nodes(page, use, ", mean over time")
    return page


def _headline(summary: Mapping[str, float], use: NodeUse) -> str:
    pods, placed = int(summary["pods"]), int(summary["placed"])
    text = f"{amount(placed)} of {amount(pods)} pods got a node within {duration(summary['seconds'])}"
    if "pending_p99" in summary:
        text += f"; 99 % of these waited at most {duration(summary['pending_p99'])}"
    lost = [f"{amount(int(summary[name]))} {outcome}" for name, outcome in LOST.items() if summary[name]]
    return text + "." + (f" {', '.join(lost)}." if lost else "") + use_sentence(use, "was, on average,")


def _facts(summary: Mapping[str, float], use: NodeUse) -> KeyFigures:
    spans = {"seconds": "length", "pending_p50": "median wait", "pending_p99": "99th percentile of waits"}
    spans |= {"pending_max": "longest wait"}
    facts = []
    for name, value in summary.items():
        text = duration(value) if name in spans else amount(value)
        is_bad = name in LOST and value > 0
        if text:
            facts.append(KeyFigure(spans.get(name, name), text, "warn" if is_bad else ""))
    return KeyFigures([*facts, *use_facts(use)])


def _notes(counts: Mapping[str, int]) -> Lines | None:
    texts = [f"{amount(count)} {what}" for what, count in counts.items()]
    return Lines(texts, is_note=True) if texts else None


def _causes(history: History) -> Iterable[PendingCause]:
    """Group the pods that wait in the end, were dropped, or ended without a node, by their last reason."""
    pods, decisions = history.pod_columns, history.columns
    last = np.full(len(pods["created"]), -1, np.int64)
    last[decisions["pod"]] = decisions["reason"]
    has_none, has_ended, is_dropped = (
        pods["node"] < 0,
        np.isfinite(pods["ended"]),
        pods["cause"] == End.DROPPED,
    )
    parts = {"": has_none & ~has_ended, "Dropped: ": is_dropped}
    parts["Ended without a node: "] = has_none & has_ended & ~is_dropped
    causes: dict[str, PendingCause] = {}
    for status, mask in parts.items():
        numbers, firsts, counts = np.unique(last[mask], return_index=True, return_counts=True)
        where = np.flatnonzero(mask)
        for reason, at, count in zip(numbers.tolist(), firsts.tolist(), counts.tolist(), strict=True):
            message = history.reasons[reason] if reason >= 0 else "not tried"
            title = status + _without_counts(message)
            cause = causes.setdefault(title, PendingCause(title))
            if not cause.pods:
                cause.message = message
                cause.pod = history.pod_name(int(where[at]))
                cause.gone = history.pod_template(int(where[at])) if status else None
            cause.pods += count
    return causes.values()


def _without_counts(message: str) -> str:
    """Return the reasons of a FitError without numbers of nodes, so that equal causes have equal texts."""
    _, separator, rest = message.partition(" nodes are available: ")
    if not separator:
        return message
    reasons = rest.partition(". ")[0].rstrip(".").split(", ")
    texts = [reason.partition(" ")[2] if reason[:1].isdigit() else reason for reason in reasons]
    return ", ".join(sorted(texts))


def _longest(history: History) -> Grid | None:
    pods = history.pod_columns
    if not len(pods["created"]):
        return None
    spans = np.minimum(np.minimum(pods["bound"], pods["ended"]), history.end) - pods["created"]
    rows: list[list[Cell]] = []
    for at in np.lexsort((np.arange(len(spans)), -spans))[:LONGEST].tolist():
        if spans[at] <= 0:
            break
        node = int(pods["node"][at])
        status = history.node_names[node] if node >= 0 else "no node"
        created = float(pods["created"][at])
        rows.append(
            [
                history.pod_name(at),
                duration(float(spans[at])),
                duration(created),
                status,
                int(pods["attempts"][at]),
            ]
        )
    headings = ("pod", "waited", "created after", "node", "attempts")
    if not rows:
        return None
    total = int((spans > 0).sum())
    return Grid("Pods that waited longest", headings, rows, (), total, "--show pods -o csv has every pod.")


# ---- verification ------------------------------------------------------------------------------------------


def verification_page(verification: Verification) -> Page:
    """Return the page of a comparison of recorded bindings with decisions."""
    page = Page("Verification of recorded bindings", f"{verification.headline()}.")
    differ = len(verification.divergences)
    facts = [
        KeyFigure("recorded bindings", amount(verification.bindings)),
        KeyFigure("decided otherwise here", amount(differ), "warn" if differ else "good"),
    ]
    facts += [KeyFigure(f"left out: {why}", amount(count)) for why, count in verification.left_out.items()]
    page.add("Summary", KeyFigures(facts))
    if not verification.agrees:
        page.add("First divergence", Lines([line.strip() for line in verification.explanation()]))
        rows: list[list[Cell]] = [
            [duration(each.time), each.pod, each.recorded, each.here or "no node"]
            for each in verification.divergences
        ]
        headings = ("after", "pod", "recorded", "here")
        page.add("Divergences", shortened("Divergences", headings, rows, (), "-o csv has them all."))
    return page
