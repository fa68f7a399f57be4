"""Pods without a node, grouped by cause, with what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.errors import first_of
from moorage.kube import Pod

from .page import Causes

EXPLAINED = 12
"""Maximum number of causes that are shown; the first pod of each is explained."""
HELPS = 4
WORKLOADS = 4
Explain = Callable[[str | Pod], Mapping[str, Any]]
"""Returns the document of `moorage explain` (``explain.moorage.dev/v1``) for a pod or ``namespace/name``."""


@dataclass
class Cause:
    """Pods without a node for one cause.

    Attributes
    ----------
    title : str
        What the scheduler says of nodes, the most frequent reason first; or what the pod waits for.
    pods : int
    pod : str
        ``namespace/name`` of one of them that can be explained; "" for none.
    gone : Pod or None
        That pod, if the cluster does not have it any more.
    message : str
        The text of the scheduler about one of them.
    by_workload : Counter of str
        Number of pods.
    is_mild : bool
        Whether nobody has to do anything: gated, waiting, or not for this scheduler.
    helps : list of str
        Changes that place the pod, each tried by the engine.
    note : str
    """

    title: str
    pods: int = 0
    pod: str = ""
    gone: Pod | None = None
    message: str = ""
    by_workload: Counter[str] = field(default_factory=Counter)
    is_mild: bool = False
    helps: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def workloads(self) -> str:
        """The workloads with the most pods."""
        named = sorted(self.by_workload.items(), key=lambda item: (-item[1], item[0]))
        texts = [f"{name} ({count:,})" if count > 1 else name for name, count in named]
        return first_of(texts, WORKLOADS)


def causes_block(causes: Iterable[Cause], explain: Explain | None) -> Causes | None:
    """Return causes, those of the most pods first, with what would help.

    Returns
    -------
    Causes or None
        None if there is no cause.
    """
    found = sorted(causes, key=lambda one: (one.is_mild, -one.pods, one.title))
    for one in found[:EXPLAINED]:
        if one.pod and explain is not None:
            one.helps, one.note = _help(explain(one.gone or one.pod), one.pod)
    if not found:
        return None
    return Causes(found[:EXPLAINED], sum(one.pods for one in found[EXPLAINED:]))


def _help(document: Mapping[str, Any], pod: str) -> tuple[list[str], str]:
    """Return what would help a pod, and what else is to be said."""
    helps = [_change(one) for one in document["changes"]]
    helps += [
        " and ".join(one["text"] for one in pair["changes"]) + _nodes(pair["feasibleNodes"])
        for pair in document["changePairs"]
    ]
    tried = f"Tried for {pod} in the cluster as it is in the end."
    if helps:
        return helps[:HELPS], tried
    if document["fits"]:
        return [], f"In the end {pod} fits; it is tried again when something changes."
    if document["blocked"]:
        return [], f"{pod} fits no node even without its constraints: {document['blocked']}"
    conflicts = "; ".join(
        " with ".join(f"{one['kind']} {one['name']}".strip() for one in conflict)
        for conflict in document["conflicts"]
    )
    why = f" No node satisfies {conflicts}." if conflicts else ""
    return [], f"No change of one or two things helps {pod}.{why}"


def _change(change: Mapping[str, Any]) -> str:
    others = change.get("eligibleNodes", 1) - 1
    text: str = change["text"] + (f", or one of {others:,} others" if others > 0 else "")
    if change.get("reduction"):
        text += f" ({100 * change['reduction']:.0f} % less)"
    return text + _nodes(change["feasibleNodes"])


def _nodes(count: int) -> str:
    return f": fits {count:,} {'node' if count == 1 else 'nodes'}"
