"""Output of ``moorage compare``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from moorage.cli.runs.comparison import Alternative, differing
from moorage.cli.runs.release_comparison import ReleaseComparison
from moorage.errors import number_of

from .printing import Table, left_out_document, release_document, write_answer

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
    form : {"table", "json", "yaml", "csv", "markdown", "html"}
        A CSV file has the pods that differ.
    warnings : iterable of str
        All that the command prints.
    releases : ReleaseComparison, optional
        What makes the differences, if the alternatives are two releases.
    """

    def document() -> dict[str, Any]:
        left_out = dict.fromkeys(each for one in alternatives for each in one.simulation.cluster.left_out)
        return _document(alternatives, releases) | left_out_document(left_out, warnings)

    def page() -> PageOf:
        from moorage.report import comparison_page

        from .pages import without_folders

        shown = _document(alternatives, releases)
        for one in shown["alternatives"]:
            one["name"] = without_folders(one["name"])
        each = [] if releases else [release_document(one.simulation.cluster) for one in alternatives]
        return comparison_page(shown), each, warnings

    pods = _pods(alternatives, releases)
    moved = number_of(len(pods.cells), "pod is not", "pods are not")
    lines = [f"{moved} in the same place" if pods.cells else SAME]
    lines += [] if releases is None else [releases.basis]
    causes = () if releases is None else _causes(releases)
    write_answer(form, document, lines, chain([_measures(alternatives)], causes, [pods]), lambda: pods, page)


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
