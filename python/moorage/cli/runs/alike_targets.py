"""Pods of a workload that fail alike have one explanation, though their names and claims differ."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from moorage.answers.explain.explain_document import Explanation, document

from .targets import Target

PER_POD = "pod", "situation"
"""Fields of a document that differ between pods that fail alike."""


class ExplainedTarget(Struct):
    """Pods that have one explanation.

    Attributes
    ----------
    target : Target
    explanation : Explanation
        Of the first pod.
    own : dict of str to list of str
        By pod, the objects of its own that the explanation names, such as its claims; only where several
        explanations are told as one.
    """

    target: Target
    explanation: Explanation
    own: dict[str, list[str]] = msgspec.field(default_factory=dict)


def merge_alike(explained: Sequence[tuple[Target, Explanation]]) -> list[ExplainedTarget]:
    """Tell explanations of pods of a workload as one that are equal but for the pod's name, and whom it would
    evict with a higher priority.

    Returns
    -------
    list of ExplainedTarget
        In the order of their first pods.
    """
    merged: dict[object, ExplainedTarget] = {}
    for target, explanation in explained:
        key = target.alike, _signature(explanation)
        known = merged.get(key)
        if known is None:
            merged[key] = ExplainedTarget(target, explanation, {target.key: _own_objects(explanation)})
        else:
            known.target = known.target._replace(pods=(*known.target.pods, *target.pods))
            known.own[target.key] = _own_objects(explanation)
    for one in merged.values():
        if len(one.own) == 1 or not any(one.own.values()):
            one.own = {}
    return list(merged.values())


def _signature(explanation: Explanation) -> str:
    """Return why a pod has no node and what would help, without the name of the pod; whom it would evict with
    a higher priority is its own."""
    made = {name: value for name, value in document(explanation).items() if name not in PER_POD}
    if made["preemption"] is not None:
        made["preemption"] |= {"raisedPriority": None}
    return _whole_name(explanation).sub("\0", json.dumps(made, default=str))


def _own_objects(explanation: Explanation) -> list[str]:
    """Return the objects with the name of the pod in their names that keep it off nodes."""
    names = {fact.name for group in explanation.groups for fact in group.evidence}
    names |= {claim.claim for claim in explanation.claims}
    return sorted(filter(_whole_name(explanation).search, names))


def _whole_name(explanation: Explanation) -> re.Pattern[str]:
    """Return what finds the name of the pod, and not a longer one of another: claims end with it."""
    return re.compile(rf"{re.escape(explanation.pod.name)}(?![\w-])")
