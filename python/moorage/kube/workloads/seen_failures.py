"""Why controllers of the cluster could not create pods, as the conditions of their workloads say."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.lazy import NamedTuple

from ..model.event import FAILED_CREATE, Event, Regarding
from ..model.meta import Condition, Object, ObjectMeta, with_condition
from ..model.node import Namespace
from ..model.pod import Pod
from ..model.policy import LimitRange, ResourceQuota
from ..model.workload import Deployment, PodTemplateSpec
from ..read.object_defaults import default_namespace
from .missing_pods import BY_CONTROLLERS, MAKERS

# ---- past causes -------------------------------------------------------------------------------------------
#
# Whether the input still has the cause for which the cluster refused pods: a bound may be another one since,
# and the controller has not tried again.

_EXCEEDED = r"exceeded quota: (\S+), requested: .*, limited: (\S+)$"
_MUST_SPECIFY = r"failed quota: (\S+): must specify (.*)$"
_BOUND = r"(maximum|minimum) (\S+) usage per (\w+) is ([^,\s]+?)[,.]"
_LEVEL = r'violates PodSecurity "(\w+):'
_ENFORCE = "pod-security.kubernetes.io/enforce"


def past_cause(message: str, namespace: str, near: Collection[Object]) -> str:
    """Return what the input has in place of the cause of a refusal; "" if the cause is there, or not known.

    moorage judges quotas, limit ranges and Pod Security itself, so pods are judged anew then.

    Parameters
    ----------
    message : str
        That of the API server.
    near : collection of Object
        What the namespace has, and the Namespace.
    """
    quotas = {obj.name: obj for obj in near if isinstance(obj, ResourceQuota)}
    if (match := re.search(_EXCEEDED, message)) and (quota := quotas.get(match[1])) is not None:
        limits = dict(part.split("=", 1) for part in match[2].split(","))
        hard = {name: quota.spec.hard.get(name) for name in limits}
        if all(now is None or Quantity(now) > Quantity(limits[name]) for name, now in hard.items()):
            shown = ",".join([f"{name}={now or 'any'}" for name, now in hard.items()])
            return f"quota {quota.name} is limited to {shown} now"
    if (match := re.search(_MUST_SPECIFY, message)) and (quota := quotas.get(match[1])) is not None:
        names = [part.split(" for: ")[0] for part in match[2].split("; ")]
        if quota.spec.hard.keys().isdisjoint(names):
            return f"quota {quota.name} does not limit {', '.join(names)} now"
    ranges = [obj for obj in near if isinstance(obj, LimitRange)]
    if (match := re.search(_BOUND, message)) and ranges:
        which, name, type_, bound = match.groups()
        items = [item for obj in ranges for item in obj.spec.limits if item.type == type_]
        bounds = [(item.max if which == "maximum" else item.min).get(name) for item in items]
        if all(now is None or Quantity(now) != Quantity(bound) for now in bounds):
            return f"no limit range has the {which} {name} {bound} per {type_} now"
    if match := re.search(_LEVEL, message):
        for obj in near:
            if isinstance(obj, Namespace) and obj.metadata.uid:
                level = obj.metadata.labels.get(_ENFORCE, "privileged")
                return f"namespace {namespace} enforces {level} now" if level != match[1] else ""
    return ""


# ---- seen failures -----------------------------------------------------------------------------------------

REPLICA_FAILURE = "ReplicaFailure"
"""Type of the condition (kubernetes v1.36, pkg/controller/replicaset/replica_set_utils.go), whose reason is
`FAILED_CREATE`."""
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
_HELD = (ResourceQuota, LimitRange, Pod)
_BY_QUOTA = ("exceeded quota: ", "failed quota: ")
_OF_NAMESPACE = frozenset({"LimitRange", "ResourceQuota", "ServiceAccount"})
_OF_ALL = frozenset({"PriorityClass", "RuntimeClass", "SecurityContextConstraints"})
_GROUPS_OF_ALL = ("admissionregistration.k8s.io", "kyverno.io", "gatekeeper.sh")
"""API groups of webhooks and policies that may refuse pods of every namespace."""


class Touched(NamedTuple):
    """An object that a change brings."""

    kind: str
    group: str
    namespace: str
    name: str

    @property
    def may_admit(self) -> bool:
        """Whether the API server may admit pods after it that it refused before."""
        return self.kind in (*_OF_NAMESPACE, *_OF_ALL, "Namespace", "Service") or self._is_of_all

    @property
    def _is_of_all(self) -> bool:
        return self.kind in _OF_ALL or self.group.endswith(_GROUPS_OF_ALL)


class CreateFailure(NamedTuple):
    """Why a controller could not create a pod of a template.

    Attributes
    ----------
    message : str
        That of the API server.
    since : str
        When it was first refused; "" where that is not known.
    held : frozenset of str
        What the namespace had then that could be its cause (`_held`): quotas and limit ranges, and for a
        refusal by a quota the pods.
    """

    namespace: str
    template: PodTemplateSpec
    message: str
    since: str
    held: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The message, and since when."""
        since = f" since {self.since}" if self.since else ""
        return f"refused in the cluster{since}: {self.message or FAILED_CREATE}"

    def is_touched(self, by: Touched) -> bool:
        """Whether a new or changed object may be its cause: a policy, class or account of the namespace or of
        the cluster, the namespace, or the Service that the message names."""
        if by.kind == "Service":
            return f'service "{by.name}"' in self.message
        place = by.name if by.kind == "Namespace" else by.namespace
        return by.may_admit and (by._is_of_all or place == self.namespace)


class PastFailure(NamedTuple):
    """What a workload could not do, and what the input has now in place of the cause."""

    owner: Object
    text: str


class SeenFailures(Struct, frozen=True):
    """Knows of which templates the cluster could not create pods when it was read.

    It takes a failure to last while the template is the same, but for a restart, nothing has changed that may
    be its cause (`CreateFailure.is_touched`), and none of `CreateFailure.held` is gone; quotas and limit
    ranges are computed then. So they are where the input itself has the cause no more.

    Attributes
    ----------
    past : tuple of PastFailure
        Failures whose cause the input has no more.
    """

    _failures: tuple[CreateFailure, ...] = ()
    past: tuple[PastFailure, ...] = ()

    @classmethod
    def of(
        cls, objects: Collection[Object], pods: Collection[Pod], before: Mapping[str, Object]
    ) -> SeenFailures:
        """Return what the workloads among the objects and pods of a cluster say.

        Parameters
        ----------
        before : mapping of str to Object
            By ``Kind namespace/name``, objects that a file changes, as they were with their status.
        """
        failures, past = list[CreateFailure](), list[PastFailure]()
        refused = [(obj, condition) for obj in objects if (condition := failed_create(obj)) is not None]
        listed: dict[str, list[Object]] = {obj.namespace: [] for obj, _ in refused}
        for obj in chain[Object](objects, pods) if refused else ():
            namespace = obj.name if isinstance(obj, Namespace) else obj.namespace
            if namespace in listed:
                listed[namespace].append(obj)
        for obj, condition in refused:
            obj, near = before.get(obj.full_name, obj), listed[obj.namespace]
            if now := past_cause(condition.message, obj.namespace, near):
                seen = f"it tells its last refusal: {condition.message}"
                past.append(PastFailure(obj, f"{seen}; {now}, so its pods are judged anew"))
                continue
            is_by_quota = any(text in condition.message for text in _BY_QUOTA)
            held = _held(near if is_by_quota else [other for other in near if not isinstance(other, Pod)])
            when = condition.last_transition_time or ""
            template = _comparable(obj.spec.template)  # type: ignore[attr-defined]
            failures.append(CreateFailure(obj.namespace, template, condition.message, when, held))
        return cls(tuple(failures), tuple(past))

    def without(self, touched: Collection[Touched]) -> SeenFailures:
        """Return them without those whose cause a change touches."""
        left = [failure for failure in self._failures if not any(map(failure.is_touched, touched))]
        places = {by.namespace for by in touched}
        past = [failure for failure in self.past if failure.owner.namespace not in places]
        return SeenFailures(tuple(left), tuple(past))

    def why(self, owner: Object, listed: Callable[[type[Object]], Iterable[Object]]) -> str:
        """Return why the next pod of a workload is refused in the cluster; "" if nothing says so.

        Parameters
        ----------
        listed : callable
            Returns the objects of a kind in the namespace of the workload.
        """
        near = [failure for failure in self._failures if failure.namespace == owner.namespace]
        template = getattr(getattr(owner, "spec", None), "template", None) if near else None
        if template is None:
            return ""
        template = _comparable(template)
        failures = [failure for failure in near if failure.template == template]
        left = _held(obj for kind in _HELD for obj in listed(kind)) if failures else frozenset()
        return next((failure.text for failure in failures if failure.held <= left), "")


def _held(objects: Iterable[Object]) -> frozenset[str]:
    """Return what tells the pods among objects of a namespace apart, and the policies and what these say."""
    return frozenset(
        f"{obj.kind} {obj.name} {obj.metadata.uid} {'' if isinstance(obj, Pod) else obj.spec}"
        for obj in objects
        if isinstance(obj, _HELD)
    )


def failed_create(obj: Object) -> Condition | None:
    """Return the condition of a workload that says why its pods cannot be created; None without one."""
    if not isinstance(obj, (*MAKERS, Deployment)):
        return None
    conditions: tuple[Condition, ...] = obj.status.conditions  # type: ignore[attr-defined]
    failures = (
        condition
        for condition in conditions
        if condition.type == REPLICA_FAILURE and condition.status == "True"
    )
    return next((condition for condition in failures if condition.reason == FAILED_CREATE), None)


def _comparable(template: PodTemplateSpec) -> PodTemplateSpec:
    """Return a template without what differs between the revisions of a restart."""
    labels, annotations = (
        {key: value for key, value in values.items() if key not in (*BY_CONTROLLERS, RESTARTED_AT)}
        for values in (template.metadata.labels, template.metadata.annotations)
    )
    return replace(template, metadata=ObjectMeta(labels=labels, annotations=annotations))


# ---- failed creates ----------------------------------------------------------------------------------------
#
# Events that say why pods could not be created, as conditions of their workloads.
#
# Of the workloads that Kubernetes has, ReplicaSets and ReplicationControllers alone have such a condition.


def with_failed_creates(objects: Sequence[Object], events: Iterable[Event]) -> Iterator[tuple[int, Object]]:
    """Yield the workloads that get a condition, with their indexes: those that have none. Of several events
    about one workload the last counts."""
    conditions = dict[Regarding, tuple[str, Condition]]()
    for event in events:
        if event.reason != FAILED_CREATE:
            continue
        first = event.first_timestamp or event.event_time or event.last_timestamp
        last, message = event.last_timestamp or first or "", event.message or event.note
        condition = Condition(
            type=REPLICA_FAILURE,
            status="True",
            reason=FAILED_CREATE,
            message=message.removeprefix("Error creating: "),
            last_transition_time=first,
        )
        earlier = conditions.get(event.about, ("", condition))
        conditions[event.about] = max(earlier, (last, condition), key=itemgetter(0))
    for at, obj in enumerate(objects if conditions else ()):
        if isinstance(obj, MAKERS) and failed_create(obj) is None:
            known = conditions.get(Regarding(obj.kind, default_namespace(obj), obj.name))
            if known is not None:
                status: Any = obj.status  # type: ignore[attr-defined]
                status = replace(status, conditions=with_condition(status.conditions, known[1]))
                yield at, replace(obj, status=status)
