"""Output of ``moorage compare``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from moorage.errors import number_of

from ..runs.comparison import Alternative, differing
from ..runs.release_comparison import ReleaseComparison
from .printing import (
    COMMENT_ROWS,
    Table,
    first_rows,
    ignore_broken_pipe,
    left_out_document,
    refused_document,
    release_document,
    write_answer,
)

if TYPE_CHECKING:
    from .printing import PageOf

SAME = "every pod is in the same place"
API_VERSION = "compare.moorage.dev/v1"


def write_comparison(
    form: str,
    alternatives: Sequence[Alternative],
    warnings: Iterable[str],
    releases: ReleaseComparison | None = None,
) -> None:
    """Print runs side by side.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "github", "html"}
        A CSV file has the pods that differ.
    warnings : iterable of str
        All that the command prints.
    releases : ReleaseComparison, optional
        What makes the differences, if the alternatives are two releases.
    """

    def document() -> dict[str, Any]:
        left_out = dict.fromkeys(each for one in alternatives for each in one.simulation.cluster.left_out)
        refused = {one: None for side in alternatives for one in side.simulation.cluster.refused_objects}
        about = left_out_document(left_out, warnings) | refused_document(refused)
        return _document(alternatives, releases) | about

    def page() -> PageOf:
        from moorage.answers.answer_pages import comparison_page

        from .pages import without_folders

        shown = _document(alternatives, releases)
        for one in shown["alternatives"]:
            one["name"] = without_folders(one["name"])
        each = [] if releases else [release_document(one.simulation.cluster) for one in alternatives]
        return comparison_page(shown, lines), each, warnings

    pods = _pods(alternatives, releases)
    moved = number_of(len(pods.cells), "pod is not", "pods are not")
    lines = [f"{moved} in the same place" if pods.cells else SAME]
    if form == "github":
        with ignore_broken_pipe():
            print("".join(_notices(alternatives, lines[0])), end="")
        return
    lines += [] if releases is None else [releases.basis]
    for one in alternatives:
        if (grown := one.simulation.grown) is not None:
            lines += [f"{one.name}: {text}" for text in (grown.text(), *grown.gaps())]
    causes = () if releases is None else _causes(releases)
    measures = _measures(alternatives)
    if form == "markdown" and any(one.simulation.grown is not None for one in alternatives):
        measures, pods = _told(measures), first_rows(_without_node(alternatives, pods))
    write_answer(form, document, lines, chain([measures], causes, [pods]), lambda: pods, page)


def _told(measures: Table) -> Table:
    """Nodes, price and pods, where they differ, for a comment."""
    return Table(
        measures.headings, [row for row in measures.cells if row[0] in _TOLD and len({*row[1:]}) > 1]
    )


def _without_node(alternatives: Sequence[Alternative], pods: Table) -> Table:
    """The pods that wait somewhere, or were evicted, for a comment."""
    named = {key for one in alternatives for key in (*one.reasons, *one.simulation.evicted)}
    return Table(pods.headings, [row for row in pods.cells if row[0] in named])


def _notices(alternatives: Sequence[Alternative], first: str) -> Iterator[str]:
    """Yield annotations of GitHub: nodes and price of each alternative, and who waits or is evicted."""
    from .ci_output import notice

    yield notice("notice", "moorage compare", first)
    for one in alternatives[:COMMENT_ROWS]:
        shown = {name: value for name, value in one.measures.items() if name in _TOLD}
        yield notice("notice", one.name, ", ".join(f"{name} {value:g}" for name, value in shown.items()))
        waiting = [f"{key} waits: {why}" for key, why in one.reasons.items()]
        gone = [f"{key} is evicted: {each.reason}" for key, each in one.simulation.evicted.items()]
        most = max(1, COMMENT_ROWS // len(alternatives))
        for text in (*waiting, *gone)[:most]:
            yield notice("warning", one.name, text)
        if len(waiting) + len(gone) > most:
            yield notice("warning", one.name, f"{len(waiting) + len(gone) - most} more wait or are evicted")


_TOLD = ("nodes", "new nodes", "new nodes $/h", "nodes $/h", "placed", "without a node", "evicted")
"""Measures that a comment has."""


def _pods(alternatives: Sequence[Alternative], releases: ReleaseComparison | None) -> Table:
    """The pods that differ, and of releases what makes the difference."""
    names = [one.name for one in alternatives]
    if releases is None:
        return Table(("POD", *names), [(key, *places) for key, places in differing(alternatives).items()])
    rows = [(one.pod, *one.places, one.change, one.cause.text, one.reason) for one in releases.differences]
    return Table(("POD", *names, "CHANGE", "BECAUSE OF", "REASON"), rows)


def _causes(releases: ReleaseComparison) -> Iterator[Table]:
    """How many pods differ in what way and why, and what the behaviours are."""
    rows = [(change, str(count), cause) for (change, cause), count in _groups(releases).items()]
    yield Table(("CHANGE", "PODS", "BECAUSE OF"), rows)
    names = releases.before.name, releases.after.name
    yield Table(
        ("BEHAVIOUR", *names, "WHAT IT IS"),
        [(one.name, *one.values, one.text) for one in releases.effective],
    )


def _groups(releases: ReleaseComparison) -> Counter[tuple[str, str]]:
    return Counter((one.change, one.cause.text) for one in releases.differences)


def _measures(alternatives: Sequence[Alternative]) -> Table:
    """A row per measure that some run has."""
    measures = [one.measures for one in alternatives]
    names = dict.fromkeys(name for each in measures for name in each)
    rows = [(name, *(f"{each[name]:g}" if name in each else "" for each in measures)) for name in names]
    return Table(("MEASURE", *(one.name for one in alternatives)), rows)


def _document(alternatives: Sequence[Alternative], releases: ReleaseComparison | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Comparison",
        "alternatives": [{"name": one.name, "measures": one.measures} for one in alternatives],
    }
    if releases is None:
        for shown, one in zip(document["alternatives"], alternatives, strict=True):
            shown["release"] = release_document(one.simulation.cluster)
        moved = [{"pod": key, "places": places} for key, places in differing(alternatives).items()]
        return document | {"differences": moved}
    pods = [
        {"pod": one.pod, "places": one.places, "change": one.change, "reason": one.reason}
        | {"because": one.cause.alternatives, "isPinned": one.cause.is_pinned}
        for one in releases.differences
    ]
    return document | {"differences": pods, "releases": _releases(releases)}


def _releases(releases: ReleaseComparison) -> dict[str, Any]:
    groups = _groups(releases).items()
    return {
        "fromScratch": releases.from_scratch,
        "tieBreak": releases.tie_break,
        "groups": [{"change": change, "because": cause, "pods": pods} for (change, cause), pods in groups],
        "behaviours": [
            {"name": one.name, "isGate": one.is_gate, "values": one.values, "text": one.text}
            for one in releases.effective
        ],
    }
