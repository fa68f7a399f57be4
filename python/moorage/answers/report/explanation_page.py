"""The page of ``moorage explain``: what it prints, with a headline and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .page import Block, Cell, Fact, Facts, Lines, Page, amount, shortened

Json = Mapping[str, Any]
Told = list[str] | tuple[str, Sequence[str], Sequence[Sequence[Cell]]]
"""Lines; or a table: its caption, headings and rows."""


def explanation_page(items: Sequence[Json], told: Sequence[Iterable[Told]]) -> Page:
    """Return the page of explanations.

    Parameters
    ----------
    items : sequence of mapping
        Items of an ``ExplanationList`` of ``explain.moorage.dev/v1``: namespace, workload, pods, explanation.
    told : sequence of iterable of Told
        What the command prints of each item.
    """
    failed = [one for one in items if not one["explanation"]["fits"]]
    name = _subject(items[0]) if len({_subject(one) for one in items}) == 1 else "pods without a node"
    page = Page(f"Explanation of {name}", _headline(items, failed))
    if len(items) != 1:
        rows: list[list[Cell]] = [_row(one) for one in items]
        headings = ("workload", "pods", "fits on nodes", "what would help")
        page.add(
            "Summary", shortened("Explained pods", headings, rows) if rows else Lines(["Nothing to explain."])
        )
    for one, blocks in zip(items, told, strict=True):
        page.add(_subject(one), _facts(one), *map(_block, blocks))
    return page


def _subject(item: Json) -> str:
    """What was asked about, as ``deployment/shop/web``: the names of its pods may be made up."""
    kind, _, name = item["workload"].partition("/")
    return f"{kind}/{item['namespace']}/{name}"


def _headline(items: Sequence[Json], failed: Sequence[Json]) -> str:
    if not items:
        return "Every pod has a node or gets one."
    if len(items) == 1:
        nodes = items[0]["explanation"]["nodes"]
        pod = _subject(items[0])
        start = pod if pod.startswith("pod/") else f"A pod of {pod}"
        return f"{start} fits {amount(nodes['feasible'])} of {amount(nodes['total'])} nodes."
    pods = sum(len(one["pods"]) for one in failed)
    helped = sum(bool(one["explanation"]["changes"]) for one in failed)
    return (
        f"{amount(pods)} pods of {amount(len(failed))} kinds fit no node; "
        f"a single change would help {amount(helped)} of the kinds."
    )


def _row(item: Json) -> list[Cell]:
    seen = item["explanation"]
    first = seen["changes"][0]["text"] if seen["changes"] else ""
    return [_subject(item), len(item["pods"]), seen["nodes"]["feasible"], first]


def _facts(item: Json) -> Facts:
    seen, nodes = item["explanation"], item["explanation"]["nodes"]
    return Facts(
        [
            Fact("nodes that fit", amount(nodes["feasible"]), "" if seen["fits"] else "warn"),
            Fact("nodes", amount(nodes["total"])),
            Fact("pods like it", amount(len(item["pods"]))),
        ]
    )


def _block(told: Told) -> Block:
    """Return lines, or a table with headings in lower case, but for names."""
    if isinstance(told, list):
        return Lines([line.strip() for line in told if line])
    caption, headings, rows = told
    return shortened(caption, [one.lower() if one.isupper() else one for one in headings], rows)
