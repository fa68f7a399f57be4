"""Whether Karpenter would remove a node now, why not, and which changes would free it, each tried."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from msgspec import structs

from moorage.cluster import PodScheduler
from moorage.engine.requirements import changed_field
from moorage.errors import InputError, first_of
from moorage.kube import Node, NodePool, Object, Pod, PodDisruptionBudget
from moorage.kube.model.autoscaling import Budget
from moorage.kube.strict_documents import parse_moment
from moorage.store.deletion import timestamp

from .assumed_claims import assume_claims
from .consolidation_rounds import ConsolidationRounds
from .departure import expiry, moments
from .instance_types.labels import POOL
from .karpenter.cluster_view import KINDS, ClusterObjects, ClusterView
from .karpenter.disruption.command import Command
from .karpenter.disruption.disrupt import DRIFT, EMPTINESS, REASONS, SINGLE, Disruption
from .karpenter.disruption.staying_nodes import why_stays
from .karpenter.pods.pod_validation import DO_NOT_DISRUPT
from .scale_up_answer import KARPENTER, versions, with_version
from .scalers import Growth

_MOST_CHANGES = 6
_MOST_PODS = 30
_MOST_SHOWN = 5
_POD, _BUDGETS = re.compile(r"\(Pod=(.+)\)$"), re.compile(r"=\[(.+)\]\)$")
_NEEDED = ("Can't replace", "Can't remove", "SpotToSpotConsolidation requires")


class Freeing(NamedTuple):
    """A change, in words: of an object of a kind with a key (None if it goes), or else of the settings of the
    autoscaler."""

    text: str
    change: Callable[[Any], Any]
    about: tuple[type[Object], str] | None = None


@dataclass(frozen=True)
class NodeFate:
    """What becomes of a node if its autoscaler looks at it alone.

    Attributes
    ----------
    decision, reason : str
        What is done with it, and for what; "" if it stays.
    saved : float or None
        Per hour; None without prices.
    message : str
        Why it stays, in the autoscaler's words where it has some.
    changes : tuple of str
        What would free it, all together; empty if nothing was found.
    freed : str
        What would be done with it then.
    moves : dict of str to tuple of str
        By node, the pods that Karpenter expects there if the node goes.
    autoscaler : str
    goes_at, then : str
        When it goes if nothing but the time changes, and what is done with it; "" if that is not known.
    expires : str
        When it expires, whatever budgets say; "" for never.
    """

    node: str
    decision: str
    reason: str
    saved: float | None
    message: str
    changes: tuple[str, ...] = ()
    freed: str = ""
    notes: tuple[str, ...] = ()
    moves: dict[str, tuple[str, ...]] = field(default_factory=dict)
    autoscaler: str = KARPENTER
    goes_at: str = ""
    then: str = ""
    expires: str = ""

    def lines(self) -> Iterator[str]:
        """Yield the verdict, and what would change it."""
        if self.decision:
            who = with_version(self.autoscaler)
            verdict = f"{who} would {self.decision} node {self.node} ({self.reason})"
            saved = "the price is unknown" if self.saved is None else f"{self.saved:.4g} $/h less"
            yield f"{verdict} if it is looked at alone: {saved}"
            for node, pods in self.moves.items():
                yield f"{node} would take {first_of(pods, _MOST_SHOWN)}"
            return
        yield f"{with_version(self.autoscaler)} leaves node {self.node}: {self.message}"
        if self.goes_at:
            yield f"not now, but from {self.goes_at} on it would {self.then} it, if nothing else changes"
        if self.expires:
            yield f"the node expires at {self.expires}, whatever budgets say"
        for change in self.changes:
            yield f"would help{' together' if len(self.changes) > 1 else ''}: {change}"
        if self.changes:
            yield f"then it would {self.freed} the node"
        else:
            yield "no single change of an annotation, a budget, a policy or a pod was found that frees it"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as a JSON value."""
        return {
            "node": self.node,
            **versions([self.autoscaler]),
            "decision": self.decision,
            "reason": self.reason,
            "saved": self.saved,
            "message": self.message,
            "changes": list(self.changes),
            "freed": self.freed,
            "goesAt": self.goes_at or None,
            "expires": self.expires or None,
            "moves": {node: list(pods) for node, pods in self.moves.items()},
        }


def node_fate(scheduler: PodScheduler, growth: Growth, name: str, at: str | None = None) -> NodeFate:
    """Say what becomes of a node (at a time as for `Scheduler.consolidate`); nothing is changed.

    Raises
    ------
    InputError
        There is no such node, or it is of no NodePool.
    """
    with scheduler.transaction():
        notes = tuple(assume_claims(scheduler))
        view = ConsolidationRounds(scheduler, growth, None if at is None else parse_moment(at, "at")).view()
    state = next((one for one in view.states if one.node is not None and one.node.name == name), None)
    if state is None or state.claim is None:
        raise InputError(f"node {name} is of no NodePool of the input, so Karpenter leaves it alone")
    done = _command(view, state.name)
    if done is not None:
        reason, command = done
        return NodeFate(
            name, command.decision, reason, command.known_savings, "", notes=notes, moves=_moves(command)
        )
    stay = why_stays(view, name).message
    changes, _ = freed(
        stay,
        lambda tried: _why(_changed(view, tried), name),
        lambda tried, why: _proposals(_changed(view, tried), name, why),
        _MOST_CHANGES,
    )
    then = _command(_changed(view, changes), name) if changes else None
    texts = tuple([one.text for one in changes])
    fate = NodeFate(name, "", "", 0.0, stay, texts, then[1].decision if then else "", notes)
    if math.isfinite(expires := expiry(state)):
        fate = replace(fate, expires=timestamp(math.floor(expires)))
    for moment in moments(view, state):
        if (later := _command(view.at(moment), state.name)) is not None:
            return replace(fate, goes_at=timestamp(math.ceil(moment)), then=later[1].decision)
    return fate


def freed(
    why: str,
    why_with: Callable[[list[Freeing]], str],
    proposals: Callable[[list[Freeing], str], Iterable[Freeing]],
    most: int,
) -> tuple[list[Freeing], str]:
    """Find changes that free a node together, none of which can be left out: each takes away what keeps it
    after those before. None if none do, and what keeps it in the end.

    Parameters
    ----------
    why : str
        What keeps it.
    why_with : callable
        Returns what keeps it after changes; "" if it goes.
    proposals : callable
        Returns changes against what keeps it after changes.
    """
    chosen: list[Freeing] = []
    while why and len(chosen) < most:
        for one in proposals(chosen, why):
            later = why_with([*chosen, one])
            if later != why:
                chosen, why = [*chosen, one], later
                break
        else:
            break
    if why:
        return [], why if chosen else ""
    if len(chosen) == 1:
        return chosen, ""
    return [one for one in chosen if why_with([each for each in chosen if each is not one])], ""


def _moves(command: Command) -> dict[str, tuple[str, ...]]:
    found = dict(command.moves)
    for number, claim in enumerate(command.new_claims(), 1):
        kind = f" ({claim.cheapest.instance_type})" if claim.cheapest is not None else ""
        found[f"new node {number}{kind}"] = claim.pods
    return found


def _command(view: ClusterView, name: str) -> tuple[str, Command] | None:
    """What is done with the node alone, and for which reason."""
    disruption = Disruption(view)
    for method in (EMPTINESS, DRIFT, SINGLE):
        command = disruption.play(method, name).command
        if command is not None:
            return REASONS[method], command
    return None


def _why(view: ClusterView, name: str) -> str:
    """What keeps a node; "" if it goes."""
    return "" if _command(view, name) is not None else why_stays(view, name).message


def _changed(view: ClusterView, changes: list[Freeing]) -> ClusterView:
    """The cluster with changes."""
    objects = {kind: view.objects.list(kind) for kind in KINDS}
    options = view.options
    for one in changes:
        if one.about is None:
            options = one.change(options)
            continue
        kind, key = one.about
        changed = [one.change(each) if each.key == key else each for each in objects[kind]]
        objects[kind] = [each for each in changed if each is not None]
    every = [each for listed in objects.values() for each in listed]
    return ClusterView(ClusterObjects(every), view.situation, options, view.catalogue)


# ---- what could help ---------------------------------------------------------------------------------------


def annotated(key: str, value: str | None) -> Callable[[Any], Object]:
    """Return a change of an annotation (None takes it away)."""

    def change(notes: dict[str, str]) -> dict[str, str]:
        others = {name: text for name, text in notes.items() if name != key}
        return others if value is None else others | {key: value}

    return partial(changed_field, path="metadata.annotations", change=change)


def _with_disruption(**fields: Any) -> Callable[[Any], Object]:
    return partial(changed_field, path="spec.disruption", change=lambda its: structs.replace(its, **fields))


def _proposals(view: ClusterView, name: str, message: str) -> Iterator[Freeing]:
    """Changes that a message suggests, the smallest first."""
    state = next(one for one in view.states if one.node is not None and one.node.name == name)
    assert state.node is not None
    pool = state.labels.get(POOL, "")
    about_pool = (NodePool, pool)
    if message.startswith("Disruption is blocked through"):
        yield without_annotation(DO_NOT_DISRUPT, "the node", (Node, name))
    elif match := _POD.search(message):
        yield without_annotation(DO_NOT_DISRUPT, f"pod {match[1]}", (Pod, match[1]))
    elif match := _BUDGETS.search(message):
        first, *others = match[1].split()
        if others:
            about = (PodDisruptionBudget, others[0])
            yield Freeing(f"delete PodDisruptionBudget {others[0]}", _gone, about)
        yield budget_allows(first)
    elif "consolidation disabled" in message or "consolidateAfter" in message:
        is_never = "consolidation disabled" in message
        text = f"consolidateAfter of NodePool {pool} is {'' if is_never else 'over, or '}0s"
        yield Freeing(text, _with_disruption(consolidate_after="0s"), about_pool)
    elif "policy" in message:
        policy = "WhenEmptyOrUnderutilized"
        text = f"consolidationPolicy of NodePool {pool} is {policy}"
        yield Freeing(text, _with_disruption(consolidation_policy=policy), about_pool)
    elif message.startswith("SpotToSpotConsolidation is disabled"):
        yield Freeing("the feature gate SpotToSpotConsolidation is on", partial(replace, spot_to_spot=True))
    elif message.startswith("Karpenter removes only empty nodes"):
        ready = partial(changed_field, path="status.conditions", change=lambda its: ())
        yield Freeing(f"NodePool {pool} is ready", ready, about_pool)
    elif message.startswith("the budgets of NodePool"):
        text = f"the budgets of NodePool {pool} allow a node"
        yield Freeing(text, _with_disruption(budgets=(Budget(nodes="100%"),)), about_pool)
    elif message.startswith(("Not all pods would schedule", *_NEEDED)):
        if not view.options.ignores_preferences:
            text = (
                "--preference-policy Ignore (Karpenter's PREFERENCE_POLICY), as preferred terms of pods count"
            )
            yield Freeing(f"{text} as required", partial(replace, ignores_preferences=True))
        for pod in view.pods_of.get(state.node.name, [])[:_MOST_PODS]:
            if message.startswith(_NEEDED) or f"{pod.key} => " in message:
                yield moved_or_ended(pod.key)


def without_annotation(key: str, owner: str, about: tuple[type[Object], str]) -> Freeing:
    """An object loses an annotation."""
    return Freeing(f"remove the annotation {key} of {owner}", annotated(key, None), about)


def budget_allows(budget: str) -> Freeing:
    """A budget no longer keeps a node."""
    text = f"PodDisruptionBudget {budget} allows a disruption (more replicas, or another limit)"
    allowing = partial(structs.replace, disruptions_allowed=1)
    return Freeing(
        text, partial(changed_field, path="status", change=allowing), (PodDisruptionBudget, budget)
    )


def moved_or_ended(pod: str) -> Freeing:
    """A pod no longer keeps its node."""
    return Freeing(f"pod {pod} moves elsewhere, or ends", _gone, (Pod, pod))


def _gone(_: object) -> None:
    """The object goes."""
