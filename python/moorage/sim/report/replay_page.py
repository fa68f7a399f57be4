"""The pages of ``moorage replay``: a history, or the comparison of recorded bindings with decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from moorage.answers.answer_pages import Cause, Explain, add_nodes, causes_block, use_facts, use_sentence
from moorage.answers.node_use import NodeUse
from moorage.answers.page import Cell, Fact, Facts, Grid, Lines, Page, amount, shortened
from moorage.table import Table, rows_of

from ..replay import History, Verification
from ..replay.recorder import End
from .history_charts import charts, duration, history_use, measured_charts, timelines

LONGEST = 50
"""Rows of the table of pods that waited longest."""
SCALING = ("after", "action", "group", "nodes", "reason")
LOST = (("pending", "still wait"), ("dropped", "were dropped"), ("evicted", "were evicted"))


# ---- history -----------------------------------------------------------------------------------------------


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
    lost = [f"{amount(int(summary[name]))} {text_}" for name, text_ in LOST if summary[name]]
    return text + "." + (f" {', '.join(lost)}." if lost else "") + use_sentence(use, "was, on average,")


def _facts(summary: Mapping[str, float], use: NodeUse) -> Facts:
    spans = {"seconds": "length", "pending_p50": "median wait", "pending_p99": "99th percentile of waits"}
    spans |= {"pending_max": "longest wait"}
    facts = []
    for name, value in summary.items():
        text = duration(value) if name in spans else amount(value)
        is_bad = name in ("pending", "dropped", "evicted") and value > 0
        if text:
            facts.append(Fact(spans.get(name, name), text, "warn" if is_bad else ""))
    return Facts([*facts, *use_facts(use)])


def _notes(counts: Mapping[str, int]) -> Lines | None:
    texts = [f"{amount(count)} {what}" for what, count in counts.items()]
    return Lines(texts, is_note=True) if texts else None


def _causes(history: History) -> Iterable[Cause]:
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
    causes: dict[str, Cause] = {}
    for status, mask in parts.items():
        numbers, firsts, counts = np.unique(last[mask], return_index=True, return_counts=True)
        where = np.flatnonzero(mask)
        for reason, at, count in zip(numbers.tolist(), firsts.tolist(), counts.tolist(), strict=True):
            message = history.reasons[reason] if reason >= 0 else "not tried"
            title = status + _without_counts(message)
            cause = causes.setdefault(title, Cause(title))
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
        Fact("recorded bindings", amount(verification.bindings)),
        Fact("decided otherwise here", amount(differ), "warn" if differ else "good"),
    ]
    facts += [Fact(f"left out: {why}", amount(count)) for why, count in verification.left_out.items()]
    page.add("Summary", Facts(facts))
    if not verification.agrees:
        page.add("First divergence", Lines([line.strip() for line in verification.explanation()]))
        rows: list[list[Cell]] = [
            [duration(each.time), each.pod, each.recorded, each.here or "no node"]
            for each in verification.divergences
        ]
        headings = ("after", "pod", "recorded", "here")
        page.add("Divergences", shortened("Divergences", headings, rows, (), "-o csv has them all."))
    return page
