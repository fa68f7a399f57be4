"""What would help: changes of objects of the input, and of the settings of autoscalers, each of which is
tried before it is offered.

Whoever is asked (filters for a pod, a pass of Karpenter, a loop of cluster-autoscaler, admission) is a world:
it can be had with some edits, and a judge says what they bring there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from fractions import Fraction
from functools import partial, reduce
from typing import Any, Protocol, Self, TypeVar

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from moorage._core.base.resources import PodGates
from moorage._core.base.selectors import tolerates
from moorage.kube import Object, Pod, Taint
from moorage.kube.model.node import REJECTING_EFFECTS, is_of_a_moment
from moorage.lazy import NamedTuple
from moorage.store import ObjectClient, find_object

from .amounts import offered, quantity_text
from .requirements import (
    Constraint,
    effective_request,
    finer_constraints,
    lower,
    term_constraints,
    tolerate,
    toleration_of,
)

OF_ROLES = "node-role.kubernetes.io/"
"""How taints of control planes begin: few pods are to be there."""

W = TypeVar("W", covariant=True)
C = TypeVar("C")


class Kind(StrEnum):
    """The kinds of changes: first smaller requests, then additions, then what others or the pod give up.

    Attributes
    ----------
    rank : int
        Where its changes stand among those that help.
    words : str
        What they are called.
    """

    rank: int
    words: str

    def __new__(cls, value: str, rank: int, words: str) -> Self:
        """Make a member."""
        kind = str.__new__(cls, value)
        kind._value_, kind.rank, kind.words = value, rank, words
        return kind

    LOWER = "lower-request", 0, "lower requests"
    SMALLER_CLAIM = "smaller-claim", 0, "smaller claims"
    FEWER_DEVICES = "fewer-devices", 0, "fewer devices"
    TOLERATE = "add-toleration", 1, "tolerations"
    UNTAINT = "remove-taint", 1, "removed taints"
    OTHER_CLAIM = "other-claim", 1, "claims with similar names"
    CLAIM_CLASS = "claim-class", 1, "other storage classes"
    STORAGE_CLASS = "create-storage-class", 1, "a storage class"
    UNCORDON = "uncordon-node", 1, "uncordoned nodes"
    LABEL = "add-label", 1, "labels of nodes"
    OTHER_LABEL = "other-label", 1, "node selectors with similar values"
    NODE = "add-node", 1, "new nodes"
    DEVICE_CLASS = "device-class", 1, "other device classes"
    TOLERATE_DEVICE = "tolerate-device", 1, "tolerations of device taints"
    ADD_SELECTOR = "add-selector", 1, "selectors of devices"
    SPREAD = "change-spread", 1, "looser spreading"
    REPROVISION = "reprovision-claim", 1, "a new place for a claim"
    ROLLOUT = "change-rollout", 1, "another rollout"
    UNDO = "undo-rollout", 2, "the revision before"
    DELETE = "delete-pod", 1, "deleted pods"
    PRIORITY = "priority", 1, "another priority"
    POD_PRIORITY = "pod-priority", 1, "another priority of pods"
    REQUEST = "change-request", 0, "other requests and limits of containers"
    QUOTA = "change-quota", 1, "quotas"
    LIMIT_RANGE = "change-limit-range", 1, "limit ranges"
    LIMIT = "raise-limit", 1, "higher limits"
    POOL = "change-pool", 1, "another pool"
    SETTING = "autoscaler-setting", 1, "settings of the autoscaler"
    ANNOTATION = "change-annotation", 1, "annotations"
    SCALE = "scale", 1, "more replicas"
    BUDGET = "change-budget", 1, "budgets"
    TYPE = "other-type", 2, "larger types"
    DAEMONS = "fewer-daemons", 2, "fewer DaemonSets"
    OFFERINGS = "wait-for-offerings", 2, "offerings that are not available"
    FREE_CLAIM = "free-claim", 2, "claims that are freed"
    MINIMUM = "min-count", 2, "a smaller minimum"
    FEWER_REPLICAS = "fewer-replicas", 2, "fewer replicas"
    DROP = "drop", 2, "dropped constraints"
    DROP_DEVICE_RULE = "drop-device-rule", 2, "dropped rules of devices"
    MOVE = "move-pod", 2, "pods that move or end"


EASY_REDUCTION, MOST_REDUCTION, LAST = 0.5, 0.75, 3
"""Which reductions come before additions, and which people may accept; larger ones come last."""
NO_REDUCTION = 0.9
"""From which reduction on a change is left out where others help: what is left is another workload."""


class ObjectEdit(NamedTuple):
    """A change of one object.

    Attributes
    ----------
    about : type of Object or None
        Its kind; None for the settings of an autoscaler.
    key : str
        ``namespace/name``; "" for the pods that the question is about.
    change : callable
        Returns the object after the change (None if it goes), given the one before (None if there is none).
    """

    about: type[Object] | None
    key: str
    change: Callable[[Any], Any]


def of_pod(change: Callable[[Pod], Pod]) -> ObjectEdit:
    """Return a change of the pods that the question is about."""
    return ObjectEdit(Pod, "", change)


def of_settings(change: Callable[[Any], Any]) -> ObjectEdit:
    """Return a change of the settings of an autoscaler."""
    return ObjectEdit(None, "", change)


def put(*objects: Object) -> tuple[ObjectEdit, ...]:
    """Return the edits that add objects, or replace those of their names."""
    return tuple([ObjectEdit(type(obj), obj.key, partial(_always, obj)) for obj in objects])


def gone(_: object) -> None:
    """The object goes."""


def _always(obj: Object, _: object) -> Object:
    return obj


class HelpfulChange(Struct, frozen=True):
    """A change that helps, once it was tried; a proposal until then.

    Attributes
    ----------
    amount : float
        Relative reduction of the effective request, of the number of devices or of a claim, 0 to 1; 0 for
        other kinds.
    values : dict of str to object
        What changes, in values of JSON; by kind as in the schema ``explain.moorage.dev/v1``.
    feasible_nodes : int
        Number of feasible nodes for the pod after the change.
    placed : int
        Number of pods that wait like it, or of pods of its group, that have a node then; 0 for a pod that
        waits alone.
    pod : Pod or None
        The pod after the change, where it was tried for one.
    node : str
        The node that an autoscaler makes then; "" if that is not known.
    is_rare : bool
        Whether an operator would hardly make it.
    """

    kind: Kind
    text: str
    edits: tuple[ObjectEdit, ...] = ()
    amount: float = 0.0
    values: dict[str, Any] = {}
    feasible_nodes: int = 0
    placed: int = 0
    pod: Pod | None = None
    node: str = ""
    is_rare: bool = False

    @property
    def line(self) -> str:
        """The change in words, with the node that it brings."""
        return f"{self.text} ({self.node})" if self.node else self.text

    @property
    def rank(self) -> int:
        """That of its kind; a later one for large reductions, and the last for what people do not accept."""
        if self.is_rare or self.amount > MOST_REDUCTION:
            return LAST
        return self.kind.rank if self.amount <= EASY_REDUCTION else max(self.kind.rank, Kind.NODE.rank)

    @property
    def changes_pods(self) -> bool:
        """Whether it changes the pods that the question is about."""
        return any(edit[:2] == (Pod, "") for edit in self.edits)

    def of(self, pod: Pod) -> Pod:
        """Return a pod as the change makes it."""
        return reduce(_edited_pod, self.edits, pod)


def _edited_pod(pod: Pod, edit: ObjectEdit) -> Pod:
    return edit.change(pod) if edit[:2] == (Pod, "") else pod


class WhatIf(Protocol[W]):
    """What can be had with changes, and `kinds`: those of the changes that were tried in it."""

    kinds: set[Kind]

    def changed(self, edits: Sequence[ObjectEdit]) -> AbstractContextManager[W]:
        """Return it with changes, which are undone at the end of the context."""
        ...


def tried(
    world: WhatIf[W], change: HelpfulChange, judge: Callable[[W], Mapping[str, Any]]
) -> Iterator[HelpfulChange]:
    """Make a change, and yield it with what it brings if it helps. All is undone.

    Parameters
    ----------
    judge : callable
        Returns the fields of the change that say what it brings, as the world is then; {} if it does not
        help.
    """
    world.kinds.add(change.kind)
    with world.changed(change.edits) as changed:
        gain = judge(changed)
    if gain:
        yield replace(change, **gain)


def edited(
    objects: Mapping[type[Object], list[Object]], edits: Iterable[ObjectEdit], pod: str = ""
) -> dict[type[Object], list[Object]]:
    """Return objects by kind after changes.

    Parameters
    ----------
    pod : str
        ``namespace/name`` of the pod that the question is about.
    """
    out = dict(objects)
    for about, key, change in edits:
        if about is not None:
            by_key = {obj.key: obj for obj in out.get(about, ())}
            by_key[key or pod] = change(by_key.get(key or pod))
            out[about] = [obj for obj in by_key.values() if obj is not None]
    return out


def write(client: ObjectClient, edits: Iterable[ObjectEdit]) -> None:
    """Write the changes of objects to a client, but for those of the pods that the question is about."""
    for about, key, change in edits:
        if about is None or not key:
            continue
        name, namespace = key.split("/")[-1], key.rpartition("/")[0]
        before = find_object(client, about, name, namespace)
        after = change(before)
        if after is None:
            client.delete(about, name, namespace)
        elif before is None:
            client.create(after)
        else:
            client.update(after)


def cost(change: HelpfulChange, waiting: int = 0) -> tuple[float, ...]:
    """Return where a change stands among others: first those without evictions, of these those that place
    all pods, then those that are commonly made, then those that ask for the least.

    Parameters
    ----------
    waiting : int, optional
        Number of pods that wait.
    """
    is_rare, is_part = change.rank == LAST, change.placed < waiting
    return is_rare, "victims" in change.values, is_part, change.rank, change.amount, -change.feasible_nodes


def sensible(changes: Sequence[C], amount: Callable[[C], float]) -> list[C]:
    """Return changes without reductions to next to nothing, where others help."""
    return [change for change in changes if amount(change) < NO_REDUCTION] or list(changes)


def tried_text(kinds: Container[Kind]) -> str:
    """Return what "nothing helps" adds: the kinds of changes that were tried."""
    words = ", ".join(kind.words for kind in Kind if kind in kinds)
    return f"; tried: {words}" if words else ""


# ---- changes of pods ---------------------------------------------------------------------------------------


def both(first: HelpfulChange, second: HelpfulChange) -> HelpfulChange:
    """Return two changes as one."""
    return replace(first, text=f"{first.text}, and {second.text}", edits=(*first.edits, *second.edits))


def lowered(pod: Pod, resource: str, most: int, gates: PodGates) -> Iterator[HelpfulChange]:
    """Yield the change of a pod's request of a resource to at most an amount; nothing if it is no higher, or
    cannot be lowered that far."""
    before = effective_request(pod, resource, gates)
    after = lower(pod, resource, most, gates) if most < before else None
    if after is None:
        return
    changed, edits = after
    left = effective_request(changed, resource, gates)

    def lower_alike(other: Pod) -> Pod:
        if other is pod or effective_request(other, resource, gates) <= left:
            return changed if other is pod else other
        smaller = lower(other, resource, left, gates)
        return other if smaller is None else smaller[0]

    amount = float(Fraction(before - left, before))
    values = {
        "resource": resource,
        "from": quantity_text(resource, before),
        "to": quantity_text(resource, left),
        "reduction": round(amount, 6),
        "edits": [
            {"path": edit.path, "container": edit.container, "from": edit.before, "to": edit.after}
            for edit in edits
        ],
    }
    if len(edits) > 1:
        amounts = f"from {offered(resource, before)} to {offered(resource, left)}"
        text = f"lower the {resource} request {amounts}, over {len(edits)} places"
    else:
        of = f"container {edits[0].container}" if edits[0].container else "the pod"
        text = f"lower the {resource} request of {of} from {edits[0].before} to {edits[0].after}"
    yield HelpfulChange(Kind.LOWER, text, (of_pod(lower_alike),), amount, values)


def tolerated(taints: Sequence[Taint]) -> HelpfulChange:
    """Return the toleration of taints that share a key."""
    added = toleration_of(taints)
    value = f"={added.value}" if added.value else ""
    text = f"tolerate {added.key}{value}:{added.effect or '*'}"
    edit = of_pod(partial(tolerate, toleration=added))
    values = {"toleration": to_builtins(added)}
    is_rare = added.key.startswith(OF_ROLES) or is_of_a_moment(taints[0])
    return HelpfulChange(Kind.TOLERATE, text, (edit,), values=values, is_rare=is_rare)


def dropped(constraint: Constraint) -> HelpfulChange:
    """Return the change that drops a constraint."""
    edits, values = (of_pod(constraint.drop),), {"constraint": constraint.named}
    return HelpfulChange(Kind.DROP, f"drop {constraint.text}", edits, values=values)


def changes_for_new_node(pod: Pod, taints: Iterable[Taint]) -> Iterator[HelpfulChange]:
    """Yield a pod's tolerations of the taints of a new node, together, and the pod without each of its
    constraints."""
    rejecting = [taint for taint in taints if taint.effect in REJECTING_EFFECTS]
    own = [taint for taint in rejecting if not tolerates(pod.spec.tolerations, taint, True)]
    if own:
        yield reduce(both, [tolerated([taint]) for taint in own])
    for constraint in (*term_constraints(pod), *finer_constraints(pod)):
        yield dropped(constraint)


# ---- rollouts ----------------------------------------------------------------------------------------------

NO_SURGE = "maxSurge: 0 and maxUnavailable: 1"


def without_surge(workload: str, surge: str, *edits: ObjectEdit) -> HelpfulChange:
    """Return the change of a rollout that ends old pods first."""
    text = f"set {NO_SURGE} in the strategy of {workload}: an old pod ends before a new one starts"
    values = {"workload": workload, "field": "maxSurge", "from": surge, "to": "0"}
    return HelpfulChange(Kind.ROLLOUT, text, edits, values=values)
