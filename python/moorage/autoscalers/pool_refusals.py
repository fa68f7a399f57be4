"""Why a pool makes no node for a pod, and which single changes would make one. Each is tried by a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial, reduce
from itertools import chain
from typing import Any

from msgspec import structs

from moorage._core.base.resources import PodGates
from moorage.cluster.amounts import asked_by, offered
from moorage.cluster.helpful_changes import (
    HelpfulChange,
    Kind,
    ObjectEdit,
    both,
    changes_for_new_node,
    edited,
    gone,
    lowered,
    of_pod,
    of_settings,
    tried,
)
from moorage.cluster.requirements import changed_field, drop_request
from moorage.kube import DaemonSet, Node, NodePool, Pod, Quantity
from moorage.kube.model.autoscaling import NODE_CLASSES, NodeClaimRequirement
from moorage.kube.model.meta import whole

from .karpenter.claim_template import shortage_of_all, why_idle
from .karpenter.new_nodes_result import NewClaim, Provisioning
from .karpenter.pod_validation import in_short
from .launched_nodes import launched_node
from .node_class_changes import STORAGE, NodeClassChanges
from .pool_scaler import PassQuestion, unlaunched
from .providers.instance_type import POOL, InstanceType, with_shortages
from .scale_up_answer import nodes_price
from .trial import Trial

MOST_AMOUNTS = 3
"""How many amounts of a resource are tried, the largest that a type leaves first."""
_NOTHING = Quantity("0")
MOST_DAEMONS = 10
"""Without how many DaemonSets, each alone, it is tried."""


class NodePoolTrial(Trial[PassQuestion]):
    """Passes of Karpenter about one pod and one pool.

    Parameters
    ----------
    classes : NodeClassChanges
        Those of the pod.
    """

    kind = NodePool.__name__

    def __init__(self, question: PassQuestion, pod: Pod, pool: NodePool, classes: NodeClassChanges) -> None:
        super().__init__(pool.name, pod, classes.gates)
        self._short = question.options.unavailable  # of the types here, so that a change can end it
        self._question = replace(question, options=replace(question.options, unavailable=()))
        self.pool, self.classes = pool, classes
        self._types = self._offered(question.situation.types.get(pool.name, ()))

    def _offered(self, types: Iterable[InstanceType]) -> Sequence[InstanceType]:
        return [with_shortages(kind, self._short) for kind in types]

    @contextmanager
    def changed(self, edits: Sequence[ObjectEdit]) -> Iterator[PassQuestion]:
        """Return the question with changes; those of settings are of the types."""
        types = self._types
        for edit in edits:
            types = edit.change(types) if edit.about is None else types
            if edit.about in NODE_CLASSES:
                types = self._offered(self.classes.types_after(edit, self.pool))
        question = self._question.about(self.pod, self.pool, types)
        yield replace(question, stored=edited(question.stored, edits, self.pod.key))

    def _claim(self, *edits: ObjectEdit) -> NewClaim | None:
        """The claim that is made for the pod after changes."""
        with self.changed(edits) as question:
            return self._made(question)

    def _made(self, question: PassQuestion) -> NewClaim | None:
        return next((claim for claim in question.answer().claims if self.pod.key in claim.pods), None)

    def _gain(self, question: PassQuestion) -> dict[str, str]:
        claim = self._made(question)
        if claim is None or claim.launched is None:
            return {}
        return {"node": f"{claim.launched.named}, {nodes_price([claim.launched])}"}

    def reason(self) -> str:
        """Return why the pool makes no node for the pod without one; "" if it makes one by itself."""
        if idle := why_idle(self.pool):
            return f"it makes no nodes for pods: {idle}"
        if shortage := shortage_of_all(self.pool, self._short):
            return f"nothing can be launched with {shortage}, which its nodes have"
        if not self._types:
            return "it has no instance types"
        answer, key = self._alone, self.pod.key
        for claim in answer.claims:
            if claim.launched is None and key in claim.pods:
                return unlaunched(claim, self._types)
        return answer.errors[key].text if key in answer.errors else in_short(answer.ignored.get(key, ""))

    @cached_property
    def _alone(self) -> Provisioning:
        return self._question.about(self.pod, self.pool, self._types).answer()

    @property
    def gives_up_preferences(self) -> bool:
        """Whether Karpenter gives up preferences of the pod before the pool makes a node or refuses it."""
        return bool(self._alone.relaxed.get(self.pod.key))

    def changes(self) -> Iterator[HelpfulChange]:
        """Yield the changes that help."""
        pool = self.pool
        if why_idle(pool) or not self._types:
            return
        of_class = [each for change in self.classes.of(pool, self._types) for each in self._tried(change)]
        yield from of_class
        yield from self._sizes(has_disk=any(each.kind == Kind.TYPE for each in of_class))
        for change in changes_for_new_node(self.pod, pool.spec.template.spec.taints):
            yield from self._tried(change)
        yield from (fewer := [*self._fewer_values()])
        for at, requirement in enumerate(pool.spec.template.spec.requirements or ()):
            if not (fewer and requirement.min_values):
                yield from self._wider(at, requirement)
        for key, value in (self.pod.spec.node_selector or {}).items():
            label = self._of_pool("spec.template.metadata.labels", {key: value}.__ror__)
            yield from self._try(Kind.POOL, f"add the label {key}={value} to the pool", label)
        yield from self.around_pod()

    def _of_pool(self, path: str, change: Callable[[Any], Any]) -> ObjectEdit:
        return ObjectEdit(NodePool, self.pool.key, partial(changed_field, path=path, change=change))

    def _sizes(self, has_disk: bool) -> Iterator[HelpfulChange]:
        """Try smaller requests: each alone, else all of them; and a larger type, unless a larger disk is all
        that it takes."""
        names = list(asked_by(self.pod, self._gates))
        helped = [each for name in names for each in self._smaller(name)]
        yield from helped
        claim = self._claim(*(of_pod(partial(drop_request, resource=name)) for name in names))
        if claim is None:
            return
        kind, lacking = self._largest(claim, names)
        if not lacking or (has_disk and {*lacking} == {STORAGE}):
            return
        if not helped and len(lacking) > 1:
            yield from self._all_smaller(kind, claim, lacking)
        have = kind.capacity
        capacity = {**have, **{name: have.get(name, _NOTHING) + amount for name, amount in lacking.items()}}
        amounts = ", ".join(f"{name} {offered(name, whole(name, capacity[name]))}" for name in lacking)
        types = [replace(kind, capacity=capacity) if other is kind else other for other in self._types]
        change = HelpfulChange(
            Kind.TYPE, f"a type like {kind.name}, but with {amounts}", (of_settings(lambda _: types),)
        )
        yield from (structs.replace(each, node="") for each in self._tried(change))

    def _smaller(self, name: str) -> Iterator[HelpfulChange]:
        """Try the largest request of a resource that a type leaves room for."""
        claim = self._claim(of_pod(partial(drop_request, resource=name)))
        for room in [] if claim is None else _rooms(name, claim, self._types)[:MOST_AMOUNTS]:
            for change in lowered(self.pod, name, room, self._gates):
                helped = [*self._tried(change)]
                yield from helped
                if helped:
                    return

    def _all_smaller(
        self, kind: InstanceType, claim: NewClaim, lacking: Iterable[str]
    ) -> Iterator[HelpfulChange]:
        """Try requests that all fit the largest type."""
        rooms = {name: whole(name, _room(kind, claim, name)) for name in lacking}
        smaller = [[*lowered(self.pod, name, room, self._gates)] for name, room in rooms.items()]
        if all(smaller):
            yield from self._tried(reduce(both, chain.from_iterable(smaller)))

    def _largest(self, claim: NewClaim, names: Iterable[str]) -> tuple[InstanceType, dict[str, Quantity]]:
        """The type of a claim that lacks least for the pod, and what it lacks."""
        allowed, requests = {kind.name for kind in claim.types}, asked_by(self.pod, self._gates)
        lacks: list[tuple[float, int, InstanceType, dict[str, Quantity]]] = []
        for kind in (kind for kind in self._types if kind.name in allowed):
            lacking = {name: requests[name] - _room(kind, claim, name) for name in names}
            if "memory" in lacking:  # of which pages are taken
                pages = [lacking[name] for name in names if name.startswith("hugepages-")]
                lacking["memory"] = sum((each for each in pages if each.sign() > 0), lacking["memory"])
            lacking = {name: each for name, each in lacking.items() if each.sign() > 0}
            parts = sum(
                whole(name, each) / max(whole(name, requests[name]), 1) for name, each in lacking.items()
            )
            lacks.append((parts, len(lacks), kind, lacking))
        _, _, kind, lacking = min(lacks, key=lambda each: each[:2])
        return kind, lacking

    def _fewer_values(self) -> Iterator[HelpfulChange]:
        """Try smaller minValues: the number of values that the types of a claim without them have."""
        path = "spec.template.spec.requirements"
        free = self._of_pool(path, lambda its: tuple(structs.replace(each, min_values=None) for each in its))
        requirements = self.pool.spec.template.spec.requirements or ()
        claim = self._claim(free) if any(each.min_values for each in requirements) else None
        if claim is None:
            return
        names, lower, texts = {each.name for each in claim.types}, [*requirements], []
        for at, each in enumerate(requirements):
            values = {
                value
                for kind in self._types
                for mine in kind.requirements
                if kind.name in names and mine.key == each.key
                for value in mine.values
            }
            if each.min_values is not None and len(values) < each.min_values:
                lower[at] = structs.replace(each, min_values=len(values))
                texts.append(f"of {each.key} from {each.min_values} to {len(values)}")
        text = f"lower minValues {' and '.join(texts)} in the pool"
        yield from self._try(Kind.POOL, text, self._of_pool(path, lambda _: tuple(lower))) if texts else ()

    def _wider(self, at: int, requirement: NodeClaimRequirement) -> Iterator[HelpfulChange]:
        """Try the pool without a requirement; tell the value that it would have to allow."""
        key = requirement.key

        def gain_of(question: PassQuestion) -> dict[str, str]:
            claim, gain = self._made(question), self._gain(question)
            if claim is not None and claim.launched is not None:
                labels = launched_node("", self.pool, *claim.launched[:2], {}, {}).metadata.labels
                value, operator = labels.get(key), requirement.operator
                is_allowed = operator == "Exists" or (operator == "In" and value in requirement.values)
                if value and not is_allowed:
                    gain["text"] = f"allow {key} {value} in the pool"
            return gain

        edit = self._of_pool("spec.template.spec.requirements", lambda its: its[:at] + its[at + 1 :])
        text = f"drop the requirement on {key} of the pool"
        yield from tried(self, HelpfulChange(Kind.POOL, text, (edit,)), gain_of)

    def higher_limits(self) -> Iterator[HelpfulChange]:
        """Yield the limits with which the pool makes a node."""
        limits, free = self.pool.spec.limits, self._of_pool("spec.limits", lambda its: {})
        claim = self._claim(free) if limits else None
        if claim is None or claim.launched is None:
            return
        nodes = [node for node in self._question.stored[Node] if isinstance(node, Node)]
        capacity = {"nodes": Quantity("1"), **claim.launched.kind.capacity}
        used = limited_amounts(self.pool, nodes).items()
        needed = {name: capacity.get(name, _NOTHING) + amount for name, amount in used}
        raised = {name: str(amount) for name, amount in needed.items() if amount > Quantity(limits[name])}
        text = ", ".join(f"{name} from {limits[name]} to {amount}" for name, amount in raised.items())
        edit = self._of_pool("spec.limits", lambda its: {**its, **raised})
        text = f"raise the limit of {text}, enough for this pod alone"
        helped = [*self._try(Kind.LIMIT, text, edit)] if raised else []
        yield from helped or self._try(Kind.LIMIT, "raise the limits of the pool", free)

    def around_pod(self) -> Iterator[HelpfulChange]:
        """Yield what keeps a node from the pod and is not in Karpenter's words: limits of the pool, the
        DaemonSets without each of which it makes one, with what they take of it that the pod asks for, and
        offerings that are not available."""
        yield from self.higher_limits()
        sets = [each for each in self._question.stored[DaemonSet] if isinstance(each, DaemonSet)]
        for daemon in sets[:MOST_DAEMONS]:
            amounts = taken_by(daemon, self.pod, self._gates).items()
            taken = ", ".join(f"{name} {offered(name, whole(name, each))}" for name, each in amounts)
            text = f"keep DaemonSet {daemon.key} ({taken} of each node) off the nodes"
            yield from self._try(Kind.DAEMONS, text, ObjectEdit(DaemonSet, daemon.key, gone))
        if any(each.may_come and not each.available for kind in self._types for each in kind.offerings):
            every = of_settings(lambda types: [*map(_available, types)])
            yield from self._try(Kind.OFFERINGS, "wait for offerings that are not available", every)


def limited_amounts(pool: NodePool, nodes: Iterable[Node]) -> dict[str, Quantity]:
    """Return how much the nodes of a pool have of what its limits count."""
    own = [node.status.capacity for node in nodes if node.metadata.labels.get(POOL) == pool.name]
    return {
        name: sum((Quantity(1 if name == "nodes" else each.get(name, 0)) for each in own), _NOTHING)
        for name in pool.spec.limits
    }


def taken_by(daemon: DaemonSet, pod: Pod, gates: PodGates) -> dict[str, Quantity]:
    """Return what a DaemonSet takes of a node of that for which a pod asks."""
    requested = asked_by(pod, gates)
    amounts = asked_by(Pod(metadata=daemon.metadata, spec=daemon.spec.template.spec), gates)
    return {name: amount for name, amount in amounts.items() if name in requested}


def _available(kind: InstanceType) -> InstanceType:
    """A type with all offerings available that may come."""
    return replace(kind, offerings=tuple([replace(each, available=each.may_come) for each in kind.offerings]))


def _room(kind: InstanceType, claim: NewClaim, name: str) -> Quantity:
    """How much of a resource a type leaves besides the daemons of a claim."""
    have = kind.allocatable({}).get(name, _NOTHING) - Quantity(claim.requests.get(name, "0"))
    return have if have.sign() > 0 else _NOTHING


def _rooms(name: str, claim: NewClaim, types: Iterable[InstanceType]) -> list[int]:
    """How much of a resource types of a claim leave, each amount once, the most first."""
    allowed = {kind.name for kind in claim.types}
    return sorted(
        {whole(name, _room(kind, claim, name)) for kind in types if kind.name in allowed}, reverse=True
    )
