"""Facts that several nodes, or several constraints of a pod, have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.engine.framework.evidence import Evidence


def distinct_evidence(sources: Iterable[Iterable[Evidence]]) -> Iterator[Evidence]:
    """Yield the facts that several constraints of a pod give about the same nodes, equal ones once."""
    keys: set[object] = set()
    for source in sources:
        facts = merge_evidence(source)
        yield from (fact for fact in facts if fact.key not in keys)
        keys |= {fact.key for fact in facts}


def merge_evidence(facts: Iterable[Evidence]) -> list[Evidence]:
    """Return each fact once, those of the most nodes first.

    Returns
    -------
    list of Evidence
        Facts of equally many nodes in the order of their first appearance.
    """
    merged: dict[object, Evidence] = {}
    for fact in facts:
        known = merged.get(fact.key)
        merged[fact.key] = fact if known is None else known.merged(fact)
    return sorted(merged.values(), key=lambda fact: -fact.nodes)
