"""How many new and old pods a Rollout or a CloneSet has at each step of its strategy (argo-rollouts v1.8,
utils/replicaset/canary.go; kruise v1.8, pkg/controller/cloneset/sync/cloneset_sync_utils.go).

What ends a pause, an analysis or a promotion is outside of a cluster: a Rollout is taken through its steps as
if each ended well. The steps of a CloneSet are told, and not taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

from moorage.errors import number_of
from moorage.lazy import NamedTuple

from ..model.meta import percent
from ..model.meta import share as share_of
from ..model.workload import CloneSet, Rollout

SHOWN = 3
"""Steps that a text names."""


class RolloutStep(NamedTuple):
    """Pods while a step lasts."""

    name: str
    new: int
    old: int


class NextSizes(NamedTuple):
    """How many new and old pods a Rollout is scaled to next, on the way to a step."""

    step: str
    new: int
    old: int


def steps_text(obj: object) -> str:
    """Return what the steps of a workload come to, and how many pods it has at most; "" of other kinds, and
    of a strategy that its operator refuses."""
    if not isinstance(obj, Rollout | CloneSet) or not (steps := steps_of(obj)):
        return ""
    most = _most(_strategy(obj), _replicas(obj), steps)
    named = [f"{step.new} new and {step.old} old pods at {step.name}" for step in steps[:SHOWN]]
    named += [f"{len(steps) - SHOWN} more steps"] * (len(steps) > SHOWN)
    return f"{', '.join(named)}; at most {number_of(most, 'pod', 'pods')} at once"


def steps_of(obj: Rollout | CloneSet) -> list[RolloutStep]:
    """Return the steps of a workload; none of a strategy that its operator refuses."""
    try:
        steps = [*_steps(_strategy(obj), _replicas(obj))]
        _most(_strategy(obj), _replicas(obj), steps)
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return []
    return steps


def next_sizes(obj: Rollout, new: int, old: int, available: int) -> NextSizes | None:
    """Return how a Rollout scales its ReplicaSets next; None at the end of its steps.

    A basic canary has no more pods than `replicas` and `maxSurge`, and no fewer that are available than
    `replicas` less `maxUnavailable`, where old pods count as available. Where a router or another Service
    splits the traffic, new pods come beside the old ones, which go when all new ones are available.

    Parameters
    ----------
    new, old : int
        The sizes now.
    available : int
        How many of the new pods are available.
    """
    steps = steps_of(obj)
    step = next((each for each in steps if min(new, available) < each.new or old > each.old), None)
    if step is None:
        return None
    replicas, canary = _replicas(obj), _strategy(obj).get("canary") or {}
    if "blueGreen" in _strategy(obj) or canary.get("trafficRouting") is not None:
        return NextSizes(step.name, max(new, step.new), step.old if available >= step.new else old)
    surge = _surge(canary, replicas)
    lost = most_unavailable(canary.get("maxUnavailable", "25%"), surge, replicas)
    surplus = available + old - replicas + lost
    grown = min(step.new, new + max(0, replicas + surge - new - old))
    return NextSizes(step.name, max(new, grown), min(old, max(step.old, old - max(0, surplus))))


def most_unavailable(value: int | str, surge: int, replicas: int) -> int:
    """Return maxUnavailable as a number of pods, percentages rounded down: 1 if neither it nor maxSurge would
    let a pod be replaced."""
    number = value if isinstance(value, int) else percent(value) * replicas // 100
    return min(number or (0 if surge else 1), replicas)


def _replicas(obj: Rollout | CloneSet) -> int:
    return 1 if obj.spec.replicas is None else obj.spec.replicas


def _strategy(obj: Rollout | CloneSet) -> Mapping[str, Any]:
    return (
        obj.spec.strategy if isinstance(obj, Rollout) else {"cloneSet": obj.spec.update_strategy or {}}
    ) or {}


def _steps(strategy: Mapping[str, Any], replicas: int) -> Iterator[RolloutStep]:
    if (clone_set := strategy.get("cloneSet")) is not None:
        partition = clone_set.get("partition") or 0
        old, end = min(share_of(partition, replicas), replicas), "the end"
        if isinstance(partition, str) and old == replicas > 1 and percent(partition) < 100:
            old = replicas - 1  # less than 100 % leave one new pod at least
        if partition:
            end = f"partition {partition}"
        in_place = "InPlace" in clone_set.get("type", "")
        where = " (in place where only images change)" if in_place else ""
        yield RolloutStep(f"{end}{where}", replicas - old, old)
    elif (blue_green := strategy.get("blueGreen")) is not None:
        yield RolloutStep("the preview", blue_green.get("previewReplicaCount") or replicas, replicas)
        yield RolloutStep("the promotion", replicas, replicas)
        yield RolloutStep("the end", replicas, 0)
    else:
        yield from _canary_steps(strategy.get("canary") or {}, replicas)


def _canary_steps(canary: Mapping[str, Any], replicas: int) -> Iterator[RolloutStep]:
    is_routed, weight = canary.get("trafficRouting") is not None, 0
    scale: Mapping[str, Any] = {}
    for step in canary.get("steps") or ():
        name = next((each for each in ("setWeight", "setCanaryScale") if each in step), "")
        if name == "setWeight":
            weight = step[name]
        elif name and is_routed:  # without a router it counts for nothing
            scale = {} if step[name].get("matchTrafficWeight") else step[name]
        if not name or (name == "setCanaryScale" and not is_routed):
            continue
        said = (
            step[name]
            if name == "setWeight"
            else " ".join(f"{key} {value}" for key, value in step[name].items())
        )
        if is_routed:
            new, old = _routed(canary, replicas, weight, scale)
        else:
            new, old = canary_counts(replicas, weight, _surge(canary, replicas))
        yield RolloutStep(f"{name} {said}", new, old)
    if is_routed:  # the old ones go when scaleDownDelaySeconds are over
        yield RolloutStep("the promotion", *_routed(canary, replicas, 100, {}))
    yield RolloutStep("the end", replicas, 0)


def _routed(
    canary: Mapping[str, Any], replicas: int, weight: int, scale: Mapping[str, Any]
) -> tuple[int, int]:
    """Return new and old pods where a router splits the traffic: old ones stay, unless they scale with it."""
    least = canary.get("minPodsPerReplicaSet") or 0

    def share(part: int) -> int:
        pods = ceil(Fraction(part * replicas, 100))
        return max(pods, least) if pods else 0

    new = scale["replicas"] if "replicas" in scale else share(scale.get("weight", weight))
    return new, share(100 - scale.get("weight", weight)) if canary.get("dynamicStableScale") else replicas


def canary_counts(replicas: int, weight: int, surge: int) -> tuple[int, int]:
    """Return the new and old pods of a canary without a router, which are nearest to a weight in per cent: of
    as many pods as there are replicas, or one more if it may surge; neither is none from 1 to 99."""
    part = Fraction(replicas * weight, 100)
    may_be_none = weight in (0, 100) or (replicas == 1 and not surge)
    options = list[tuple[int, int]]()
    for total in (replicas, replicas + 1) if surge else (replicas,):
        if total > replicas or ceil(part) < replicas or may_be_none:
            options.append((ceil(part), total))
        is_tied = Fraction(total * weight, 100) % 1 == Fraction(1, 2)  # then the larger one is taken
        if not is_tied and (floor(part) or may_be_none):
            options.append((floor(part), total))
    if not replicas or not options:
        return 0, replicas
    new, total = min(options, key=lambda option: abs(Fraction(100 * option[0], option[1]) - weight))
    return new, total - new


def _most(strategy: Mapping[str, Any], replicas: int, steps: Sequence[RolloutStep]) -> int:
    """Return how many pods there may be at once."""
    if (clone_set := strategy.get("cloneSet")) is not None:
        return replicas + share_of(clone_set.get("maxSurge") or 0, replicas)
    canary = strategy.get("canary") or {}
    if "blueGreen" not in strategy and canary.get("trafficRouting") is None:
        return replicas + _surge(canary, replicas)
    stay = [replicas, *(step.old for step in steps)]  # new ones come before old ones go
    return max(step.new + old for step, old in zip(steps, stay, strict=False))


def _surge(canary: Mapping[str, Any], replicas: int) -> int:
    return share_of(canary.get("maxSurge", "25%"), replicas)
