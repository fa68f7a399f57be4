"""What a pod gives up, one preference at a time, when nothing takes it.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/preferences.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from moorage.kube import PreferredSchedulingTerm, Toleration, WeightedPodAffinityTerm
from moorage.kube.go_texts import go_json

from ..texts import go_form
from .pod_shape import PodShape, effective_selector

W = TypeVar("W", PreferredSchedulingTerm, WeightedPodAffinityTerm)

PREFER_NO_SCHEDULE = Toleration(operator="Exists", effect="PreferNoSchedule")


class Relaxed(NamedTuple):
    """A shape without one of its preferences, and what was given up."""

    shape: PodShape
    text: str


def relaxed(shape: PodShape, tolerating: bool, updates: int) -> Relaxed | None:
    """Give up the next preference; None if there is none left.

    Parameters
    ----------
    tolerating : bool
        Whether some pool has a taint of effect PreferNoSchedule.
    updates : int
        How often the topologies of the pod were looked up: each time upstream adds the values of
        matchLabelKeys to the selector once more, which the text shows.
    """
    if len(shape.required) > 1:
        text = _removing("nodeAffinity.required", shape.required[0])
        return Relaxed(_next(shape, required=shape.required[1:]), text)
    if terms := _by_weight(shape.preferred_affinity):
        text = _removing("podAffinity.preferred", terms[0])
        return Relaxed(_next(shape, preferred_affinity=terms[1:]), text)
    if terms := _by_weight(shape.preferred_anti_affinity):
        text = _removing("podAntiAffinity.preferred", terms[0])
        return Relaxed(_next(shape, preferred_anti_affinity=terms[1:]), text)
    if preferred := _by_weight(shape.preferred):
        text = _removing("nodeAffinity.preferred", preferred[0])
        return Relaxed(_next(shape, preferred=preferred[1:]), text)
    for at, spread in enumerate(shape.spreads):
        if spread.when_unsatisfiable == "ScheduleAnyway":
            left = [*shape.spreads]
            left[at] = left[-1]
            return Relaxed(_next(shape, spreads=tuple(left[:-1])), _spread_text(shape, at, updates))
    if tolerating and (more := tolerating_preferences(shape)) is not shape:
        return Relaxed(more, "adding: toleration for PreferNoSchedule taints")
    return None


def tolerating_preferences(shape: PodShape) -> PodShape:
    """The shape with a toleration of all taints of effect PreferNoSchedule."""
    same = (PREFER_NO_SCHEDULE.key, PREFER_NO_SCHEDULE.effect, PREFER_NO_SCHEDULE.operator, "")
    if any((one.key, one.effect, one.operator, one.value) == same for one in shape.tolerations):
        return shape
    return _next(shape, tolerations=(*shape.tolerations, PREFER_NO_SCHEDULE))


def _next(shape: PodShape, **changes: Any) -> PodShape:
    """The shape with changes; of equal pods the same object."""
    known: dict[str, PodShape] = shape.memo.setdefault("relaxed", {})
    (name,) = changes
    if name not in known:
        known[name] = shape.derived(**changes)
    return known[name]


def _by_weight(terms: Sequence[W]) -> tuple[W, ...]:
    return tuple(sorted(terms, key=lambda term: -term.weight))


def _removing(what: str, term: object) -> str:
    field = f"spec.affinity.{what}DuringSchedulingIgnoredDuringExecution[0]"
    return f"removing: {field}={go_json(_term(term))}"


def _term(term: object) -> Any:
    form = go_form(term)
    if isinstance(term, WeightedPodAffinityTerm):
        return {"weight": term.weight, "podAffinityTerm": _pod_term(form.get("podAffinityTerm", {}))}
    if isinstance(term, PreferredSchedulingTerm):
        return {"weight": term.weight, "preference": form.get("preference", {})}
    return form


def _pod_term(form: dict[str, Any]) -> dict[str, Any]:
    names = ("labelSelector", "namespaces", "topologyKey", "namespaceSelector", "matchLabelKeys")
    form.setdefault("topologyKey", "")
    return {name: form[name] for name in (*names, "mismatchLabelKeys") if name in form}


def _spread_text(shape: PodShape, at: int, updates: int) -> str:
    spread = shape.spreads[at]
    form = {"maxSkew": spread.max_skew, "topologyKey": spread.topology_key}
    form["whenUnsatisfiable"] = spread.when_unsatisfiable
    times = 0 if shape.strictly else updates
    selector = effective_selector(spread, shape.labelled.labels, times)
    if selector is not None:
        form["labelSelector"] = go_form(selector)
    return f"removing: spec.topologySpreadConstraints = {go_json(form | go_form(spread) | form)}"
