"""The text of upstream's FitError (kube-scheduler v1.36, framework/types.go)."""

from __future__ import annotations

from collections.abc import Mapping


def fit_error(nodes: int, reasons: Mapping[str, int]) -> str:
    """Why none of so many nodes is available: each reason with the number of nodes that gave it, sorted as
    text, so that "10 x" comes before "2 y"."""
    return with_detail(nodes, ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items())))


def with_detail(nodes: int, detail: str) -> str:
    """The same where one sentence says it for all nodes."""
    head = f"0/{nodes} nodes are available:"
    return f"{head} {detail}." if detail else head
