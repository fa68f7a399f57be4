"""The page of ``moorage compare``: a view of its document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .page import Bar, Cell, Fact, Facts, Grid, Lines, Page, amount, shortened


def comparison_page(document: Mapping[str, Any], lines: Sequence[str]) -> Page:
    """Return the page of runs side by side.

    Parameters
    ----------
    document : mapping
        ``compare.moorage.dev/v1``.
    lines : sequence of str
        What the command prints; the first one is the answer.
    """
    alternatives, differences = document["alternatives"], document["differences"]
    names = [one["name"] for one in alternatives]
    page = Page(f"Comparison of {' and '.join(names)}", lines[0])
    facts = []
    for one in alternatives:
        missing = one["measures"].get("without a node", 0)
        facts.append(Fact(f"without a node: {one['name']}", amount(missing), "warn" if missing else "good"))
    page.add("Summary", Facts(facts), Lines(lines[1:], True) if lines[1:] else None)
    page.add(
        "Measures", _measures(alternatives), Lines(["In brackets: the difference from the first."], True)
    )
    if "releases" in document:
        page.add("What makes the differences", *_causes(document["releases"], names))
    if not differences:
        page.add("Pods that differ", Lines(["Every pod is in the same place."]))
        return page
    more = ("change", "reason") if "releases" in document else ()
    rows: list[list[Cell]] = [
        [one["pod"], *one["places"], *(one[name] for name in more)] for one in differences
    ]
    head = ["pod", *names, *more]
    pods = shortened("Pods that are not in the same place", head, rows, (), "-o csv has them all.")
    page.add(f"Pods that differ ({amount(len(differences))})", _moves(names, differences), pods)
    return page


def _measures(alternatives: Sequence[Mapping[str, Any]]) -> Grid:
    measures = [one["measures"] for one in alternatives]
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(name for each in measures for name in each):
        rows.append([name])
        first = measures[0].get(name)
        for each in measures:
            value = each.get(name)
            if value is None:
                rows[-1].append(None)
                continue
            change = "" if first is None or value == first else f" ({value - first:+,.6g})"
            text = f"{amount(round(value, 2))}{change}"
            rows[-1].append(Bar(value, text) if name.endswith("use %") else text)
    return shortened("Measures", ["measure", *(one["name"] for one in alternatives)], rows)


def _causes(releases: Mapping[str, Any], names: Sequence[str]) -> Iterator[Grid]:
    """Return how many pods differ in what way and because of what, and what the behaviours are."""
    groups: list[list[Cell]] = [
        [one["change"], one["because"], amount(one["pods"])] for one in releases["groups"]
    ]
    yield shortened("Changes", ("change", "because of", "pods"), groups)
    behaviours: list[list[Cell]] = [
        [one["name"], *one["values"], one["text"]] for one in releases["behaviours"]
    ]
    yield shortened("Behaviours", ("behaviour", *names, "what it is"), behaviours)


def _moves(names: Sequence[str], differences: Sequence[Mapping[str, Any]]) -> Grid:
    """Return how many pods go from where to where between the first alternative and each other one."""
    moves: Counter[tuple[str, str, str]] = Counter()
    for one in differences:
        first, *others = one["places"]
        for name, place in zip(names[1:], others, strict=True):
            if place != first:
                moves[name, first or "no such pod", place or "no such pod"] += 1
    rows: list[list[Cell]] = [
        [*move, count] for move, count in sorted(moves.items(), key=lambda item: (-item[1], item[0]))
    ]
    return shortened("Moves", ("alternative", f"in {names[0]}", "there", "pods"), rows, (0,))
