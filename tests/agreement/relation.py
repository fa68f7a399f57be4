"""What a relation is, and how relations see answers."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.agreement.asking import Answer, Asking, Place
from tests.agreement.clusters import Cluster
from tests.agreement.objects import Object

Ask = Callable[[Asking], None]
Suits = Callable[[Cluster], object]


class Relation(NamedTuple):
    """A question that is asked by two ways."""

    name: str
    ask: Ask
    suits: Suits
    """Whether a cluster has what it asks about."""


RELATIONS: dict[str, Relation] = {}


def relation(suits: Suits) -> Callable[[Ask], Ask]:
    """Register a function as the relation of its name."""

    def register(ask: Ask) -> Ask:
        name = ask.__name__.replace("_", "-")
        RELATIONS[name] = Relation(name, ask, suits)
        return ask

    return register


# ---- how relations see answers -----------------------------------------------------------------------------

ALONE = ("unschedulable", "waiting", "gated", "other-scheduler")
"""Problems of pods that have no node."""
THERE = ("unschedulable", "gated", "other-scheduler")
"""Those of pods that exist; others wait to be made until the pods before them are ready."""
WITHOUT = (*ALONE, "evicted", "refused")
"""Those of pods that `compare` counts as without a node."""


def rows(answer: Answer, *problems: str) -> list[Object]:
    """The findings of a check that fail it, or those of some problems."""
    found: list[Object] = answer.get("findings", [])
    return [row for row in found if (row["status"] in problems if problems else row["counts"])]


def lost(answer: Answer, *problems: str) -> int:
    """How many pods these are."""
    return sum(row["pods"] for row in rows(answer, *problems))


def failing(answer: Answer) -> set[str]:
    """namespace/name of the pods that fail a check."""
    return {f"{row['namespace']}/{name}" for row in rows(answer) for name in row["names"]}


def verdict(answer: Answer) -> dict[str, object]:
    """Whether a check passes, and how many pods of which workloads fail it, and why."""
    if not answer.is_answer:
        return _refusal(answer)
    counts = Counter[str]()
    for row in rows(answer):
        counts[f"{row['namespace']}/{row['workload']} {row['status']}"] += row["pods"]
    return {"passed": answer["passed"], **dict(sorted(counts.items()))}


def present_verdict(answer: Answer) -> dict[str, object]:
    """The verdict without what would be refused later: that compares with the cluster before a change, and a
    dump has none before."""
    if not answer.is_answer:
        return _refusal(answer)
    seen = {name: pods for name, pods in verdict(answer).items() if not name.endswith(" refused-later")}
    return seen | {"passed": len(seen) == 1 and not answer.get("survival", {}).get("failed")}


def whole(answer: Answer) -> object:
    """The document of an answer, without the words of the change, which each way to ask has of its own, and
    without what the server warns of a file."""
    if not answer.is_answer:
        return _refusal(answer)
    rest = {name: value for name, value in answer.value.items() if name != "changes"}
    rest["warnings"] = [
        text
        for text in answer["warnings"]
        if "last-applied-configuration" not in text and not text.startswith(("change.json", "change-"))
    ]
    return _in_order(json.loads(_DRAWN.sub("-xxxxx", json.dumps({"code": answer.code} | rest))))


_DRAWN = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
"""Of the names of pods that controllers make."""


def _in_order(value: Any) -> Any:
    """A value of JSON with lists of texts in order: names of pods come in that of what is drawn."""
    if isinstance(value, dict):
        return {name: _in_order(item) for name, item in value.items()}
    if isinstance(value, list):
        return sorted(value) if all(isinstance(item, str) for item in value) else list(map(_in_order, value))
    return value


def _refusal(answer: Answer) -> dict[str, object]:
    return {"code": answer.code, "error": answer.err[-300:]}


def places_of(answer: Answer) -> list[Place]:
    """Where the pods of `simulate -o csv --bound` are that exist."""
    counts = Counter[tuple[str, str, str]]()
    for row in csv.DictReader(answer.out.splitlines()):
        if row["status"] in ("bound", "placed", "kept", "not-started", *THERE):
            counts[row["namespace"], row["workload"].lower(), row["node"]] += 1
    return [Place(*at, pods) for at, pods in sorted(counts.items())]
