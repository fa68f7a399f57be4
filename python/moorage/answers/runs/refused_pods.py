"""What would help pods that the API server refuses: another quota, limit range or request; each is tried by
admission and by a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from moorage.cluster.helpful_changes import (
    HelpfulChange,
    Kind,
    ObjectEdit,
    cost,
    lowered,
    of_pod,
    tried,
    tried_text,
    without_surge,
)
from moorage.cluster.played_changes import make
from moorage.cluster.requirements import changed_field, with_containers
from moorage.controllers.api_server import admission_of
from moorage.controllers.store_control import workloads_of
from moorage.errors import InputError
from moorage.kube import Container, Deployment, LimitRange, Pod, Quantity, ResourceQuota
from moorage.kube.admission.pod_requests import violations, with_defaults
from moorage.kube.admission.request import RefusedError
from moorage.kube.model.meta import whole
from moorage.kube.model.policy import LimitRangeItem
from moorage.kube.model.workload import DeploymentStrategy, RollingUpdateDeployment
from moorage.kube.workloads.deployment_rollout import max_surge
from moorage.kube.workloads.ownership import Workload, is_active
from moorage.store import find_object, kind_named

from ..scheduler import Scheduler
from .simulation import REFUSED, PodsAlike

_EXCEEDED = re.compile(r"exceeded quota: (\S+), requested: (.*), used: (.*), limited: (.*)$")
_UNSPECIFIED = re.compile(r"failed quota: (\S+): must specify (.*)$")
_OUT_OF_BOUNDS = re.compile(r"(maximum|minimum) (\S+) usage per Container is (\S+), but (\w+) is (\S+?)\.?$")


def refused_lines(scheduler: Scheduler, group: PodsAlike) -> Iterator[str]:
    """Yield what would help pods that are refused, a line each, with how many get a node then; nothing for
    pods with another outcome.

    Parameters
    ----------
    scheduler : Scheduler
        After the run.
    """
    if group.status != REFUSED or not group.outcomes:
        return
    refused = _RefusedPods(
        scheduler, group.workload, [outcome.pod for outcome in group.outcomes], group.reason
    )
    yield from (f"  refused by LimitRange {key}" for key in refused.limit_ranges())
    changes = sorted(refused.changes(), key=partial(cost, waiting=refused.count))
    yield from (
        f"  would help: {change.text} (places {change.placed} of {refused.count})" for change in changes
    )
    if refused.kinds and not changes:
        yield f"  no single change helps{tried_text(refused.kinds)}"


class _RefusedPods:
    """Pods of one workload that are refused, in the cluster after a run."""

    def __init__(self, scheduler: Scheduler, workload: Workload, pods: Sequence[Pod], message: str) -> None:
        self._scheduler, self._pods, self._message = scheduler, pods, message
        self._workload, self.count, self.kinds = workload, len(pods), set[Kind]()
        self._namespace, self._gates = pods[0].namespace, scheduler.cache.state.classes.gates
        self._owner = next(self._owners(), None)

    def _owners(self) -> Iterator[Any]:
        """Yield the workload, and the controller of its pods, as far as they are known."""
        controller = self._pods[0].metadata.controller()
        for owner in (self._workload, *((controller,) if controller is not None else ())):
            with suppress(InputError):  # a kind that the store does not have
                kind = kind_named(owner.kind)
                obj = find_object(self._scheduler.client, kind, owner.name, self._namespace)
                if obj is not None and kind is not Pod:
                    yield obj

    @contextmanager
    def changed(self, edits: Sequence[ObjectEdit]) -> Iterator[int]:
        """Return how many more pods of the workload have a node after changes, which its template has, or a
        single pod itself."""
        scheduler, owner = self._scheduler, self._owner
        change = HelpfulChange(Kind.LOWER, "", tuple(edits))
        with scheduler.transaction():
            with suppress(InputError, RefusedError):
                make(change, owner, scheduler)
                if owner is None:
                    scheduler.client.create(admission_of(scheduler.client).admit(change.of(self._pods[0])))
                scheduler.run()
            yield max(0, self.count - self._left())

    def _left(self) -> int:
        """Return how many pods of the workload are refused, or have no node."""
        scheduler, workloads = self._scheduler, workloads_of(self._scheduler.client)
        refused = [each.pod for each in scheduler.ask.refused_pods()]
        stored: list[Pod] = scheduler.client.list(Pod, self._namespace)[0]
        if self._owner is None:
            return int(not any(pod.key == self._pods[0].key and pod.spec.node_name for pod in stored))
        waiting = (pod for pod in stored if not pod.spec.node_name and is_active(pod))
        return sum(workloads.of(pod) == self._workload for pod in (*refused, *waiting))

    def _tried(self, kind: Kind, text: str, *edits: ObjectEdit) -> Iterator[HelpfulChange]:
        yield from self._try(HelpfulChange(kind, text, edits))

    def _try(self, change: HelpfulChange) -> Iterator[HelpfulChange]:
        yield from tried(self, change, lambda placed: {"placed": placed} if placed else {})

    def limit_ranges(self) -> Iterator[str]:
        """Yield the limit range that the message is of, as ``namespace/name``."""
        ranges: list[LimitRange] = self._scheduler.client.list(LimitRange, self._namespace)[0]
        pod = with_defaults(self._pods[0], ranges)
        is_exact = self._scheduler.handle.release.limits_are_exact
        for limit_range in ranges:
            if any(text in self._message for text in violations(pod, limit_range, is_exact)):
                yield limit_range.key
                return  # it is the first that the server asks

    def changes(self) -> Iterator[HelpfulChange]:
        """Yield the changes that help."""
        if match := _EXCEEDED.search(self._message):
            yield from self._of_quota(match[1], *map(_amounts, match.groups()[1:]))
        elif match := _UNSPECIFIED.search(self._message):
            yield from self._unspecified(match[1], match[2])
        elif match := _OUT_OF_BOUNDS.search(self._message):
            yield from self._of_range(*match.groups())

    # ---- quotas --------------------------------------------------------------------------------------------

    def _quota(self, name: str, change: Any) -> ObjectEdit:
        return ObjectEdit(
            ResourceQuota,
            f"{self._namespace}/{name}",
            partial(changed_field, path="spec.hard", change=change),
        )

    def _of_quota(
        self,
        quota: str,
        requested: Mapping[str, Quantity],
        used: Mapping[str, Quantity],
        limited: Mapping[str, Quantity],
    ) -> Iterator[HelpfulChange]:
        count = Quantity(len(self._pods))
        needed = {name: str(used[name] + requested[name] * count) for name in limited}
        owner = self._owner
        if isinstance(owner, Deployment) and (own := owner.spec.strategy.rolling_update) and max_surge(owner):
            rolling = RollingUpdateDeployment(max_unavailable=1, max_surge=0)
            strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=rolling)
            edit_strategy = partial(changed_field, path="spec.strategy", change=lambda _: strategy)
            edit = ObjectEdit(Deployment, owner.key, edit_strategy)
            yield from self._try(without_surge(self._workload.text, str(own.max_surge), edit))
        text = ", ".join(f"{name} from {limited[name]} to {amount}" for name, amount in needed.items())
        raised = self._quota(quota, needed.__ror__)
        yield from self._tried(Kind.QUOTA, f"raise {text} in ResourceQuota {quota}", raised)
        for name in limited:
            resource = name.removeprefix("requests.")
            room = whole(resource, limited[name]) - whole(resource, used[name])
            for change in lowered(self._pods[0], resource, room // len(self._pods), self._gates):
                yield from self._try(change)

    def _unspecified(self, quota: str, names: str) -> Iterator[HelpfulChange]:
        """Try the quota without what pods do not specify."""
        resources = [part.partition(" for: ")[0] for part in names.split("; ")]

        def rest(hard: dict[str, str]) -> dict[str, str]:
            return {name: amount for name, amount in hard.items() if name not in resources}

        text = f"drop {', '.join(resources)} from ResourceQuota {quota}"
        yield from self._tried(Kind.QUOTA, text, self._quota(quota, rest))

    # ---- limit ranges --------------------------------------------------------------------------------------

    def _of_range(
        self, which: str, resource: str, bound: str, field: str, amount: str
    ) -> Iterator[HelpfulChange]:
        """Try a container's amount at the bound, and the bound at the amount."""
        for pod in self._pods[:1]:
            for container in (*pod.spec.init_containers, *pod.spec.containers):
                own = getattr(container.resources, f"{field}s").get(resource)
                if own is not None and Quantity(own) == Quantity(amount):
                    text = (
                        f"set the {resource} {field} of container {container.name} to {bound} (now {amount})"
                    )
                    edit = of_pod(partial(_with_amount, name=container.name, resource=resource, to=bound))
                    yield from self._tried(Kind.REQUEST, text, edit)
        side = "max" if which == "maximum" else "min"
        ranges: list[LimitRange] = self._scheduler.client.list(LimitRange, self._namespace)[0]
        for limit_range in ranges:
            bounds = [getattr(item, side).get(resource) for item in limit_range.spec.limits]
            if not any(own is not None and Quantity(own) == Quantity(bound) for own in bounds):
                continue
            text = f"set {side} {resource} per Container of LimitRange {limit_range.name} to {amount}"
            change = partial(_with_bound, side=side, resource=resource, to=amount)
            edit = ObjectEdit(
                LimitRange, limit_range.key, partial(changed_field, path="spec.limits", change=change)
            )
            yield from self._tried(Kind.LIMIT_RANGE, f"{text} (now {bound})", edit)


def _amounts(text: str) -> dict[str, Quantity]:
    """Return amounts of a message by name, such as ``pods=1,requests.cpu=500m``."""
    pairs = (part.partition("=") for part in text.split(","))
    return {name: Quantity(amount) for name, _, amount in pairs}


def _with_amount(pod: Pod, name: str, resource: str, to: str) -> Pod:
    """Return a pod with the request and the limit of a container at an amount, as far as it has them."""

    def changed(container: Container) -> Container:
        if container.name != name:
            return container
        requests, limits = (
            each | ({resource: to} if resource in each else {})
            for each in (container.resources.requests, container.resources.limits)
        )
        return replace(container, resources=replace(container.resources, requests=requests, limits=limits))

    return replace(pod, spec=with_containers(pod.spec, changed))


def _with_bound(
    items: tuple[LimitRangeItem, ...], side: str, resource: str, to: str
) -> tuple[LimitRangeItem, ...]:
    return tuple(
        replace(item, **{side: getattr(item, side) | {resource: to}})
        if item.type == "Container" and resource in getattr(item, side)
        else item
        for item in items
    )
