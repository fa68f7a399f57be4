"""Explains a pod group: how many of its pods fit at once, what stops the next one, and changes with which the
group would be placed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec.structs import replace

from moorage._core.state.pod_spec import bound
from moorage.cluster.helpful_changes import HelpfulChange, Kind, cost, lowered, tried
from moorage.cluster.requirements import effective_request
from moorage.engine.plugins.node_resources import resource_of
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.engine.scheduler.group_attempt import Attempt
from moorage.engine.scheduler.group_members import places_by_topology
from moorage.engine.scheduler.place_group import place_group, try_group
from moorage.engine.scheduler.scheduler_state import SchedulerState
from moorage.engine.scheduler.valid_groups import SAME_PRIORITY, why_invalid
from moorage.errors import no_label
from moorage.kube import Node, Pod, PodGroup, PodSpec, group_of
from moorage.kube.model.pod_group import (
    GangSchedulingPolicy,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    unit_name,
)
from moorage.lazy import NamedTuple

from .explain_document import Explanation
from .explain_pod import explain
from .explanation import AlikeNodes, ExplainedGroup, GroupEvictions
from .more_nodes import fewest, more_nodes
from .pods_in_the_way import HIGHEST
from .probe import Probe, largest

# ---- whom a group would evict, and with which priority it would get nodes that way -------------------------


def find_evictions(
    context: SchedulerState, engine: Engine, group: PodGroup, pods: Sequence[Pod], scheduled: Sequence[Pod]
) -> GroupEvictions | None:
    """Find whom a group evicts that fits nowhere: with its priority, or else with the smallest higher one of
    group and pods that helps. All is undone.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    pods, scheduled : sequence of Pod
        Pending members, not in the cache, and those that have a node.

    Returns
    -------
    GroupEvictions or None
        None if no priority helps, or evictions cannot be undone: the client is no ObjectStore.
    """
    if context.store is None:
        return None
    own = group.spec.priority or 0
    # Nobody can raise the priority of pods that have a node. More priority can help less: a pod that the
    # group has to be near is then evicted, too.
    there = set() if scheduled else {shape.priority for shape in context.cache.state.classes.shapes}
    for priority in (own, *sorted(priority + 1 for priority in there if own <= priority < HIGHEST)):
        raised = replace(group, spec=replace(group.spec, priority=priority))
        same = [replace(pod, spec=replace(pod.spec, priority=priority)) for pod in pods]
        evictions = (
            None
            if why_invalid(context, raised, same)
            else _evictions(context, engine, raised, same, scheduled)
        )
        if evictions is not None:
            return GroupEvictions(priority, priority == own, *evictions)
    return None


def _evictions(
    context: SchedulerState, engine: Engine, group: PodGroup, pods: Sequence[Pod], scheduled: Sequence[Pod]
) -> tuple[tuple[Pod, ...], int] | None:
    """Return whom a group evicts with its priority, and how many of its pods get a node; None for nobody."""
    victims, handle = list[Pod](), engine.handle

    def note(evicted: Sequence[Pod], node: str, preemptor: object) -> None:
        victims.extend(evicted)

    callbacks = handle.on_eviction[:]
    with context.cache.transaction():
        context.enlist()
        handle.on_eviction[:] = [note]
        try:
            result = place_group(context, engine, group, pods, scheduled, evicts=True)
        finally:
            handle.on_eviction[:] = callbacks
    if not victims:
        return None
    nominated = [failure.nominating for failure in result.failures.values()]
    placed = sum(bool(nomination and nomination.nominated_node_name) for nomination in nominated)
    return tuple(victims), placed


# ---- how many fit, and what stops the next one -------------------------------------------------------------

MISSING = "its pods wait until it is created: add the PodGroup, or remove spec.schedulingGroup from the pods"
STEPS = {"memory": 1 << 20, "ephemeral-storage": 1 << 20}
"""Requests are lowered to whole multiples of these: a number that people can read."""


def explain_group(context: SchedulerState, pod: Pod) -> ExplainedGroup | None:
    """Explain the group of a pod in the cluster as it is, without evictions. Trials are undone.

    Returns
    -------
    ExplainedGroup or None
        None where the pod has no group, or all pods of its group have a node.
    """
    return _look_at_group(context, pod, _explain)


def fit_of_group(context: SchedulerState, pod: Pod, known: dict[Hashable, Fit]) -> ExplainedGroup | None:
    """Find how many pods of a group fit at once and what stops the next one, as `explain_group` does, without
    the nodes and the changes.

    Parameters
    ----------
    known : dict of hashable to Fit
        What other groups have found in the cluster as it is, by `GroupTrial.kind`; is added to.

    Returns
    -------
    ExplainedGroup or None
        As of `explain_group`.
    """

    def explained(trial: GroupTrial, tree: str) -> ExplainedGroup:
        kind = trial.kind()
        fit = _fit(trial) if kind is None or kind not in known else known[kind]
        if kind is not None:
            known[kind] = fit
        return _explained_group(trial, tree, **fit.facts(trial))

    return _look_at_group(context, pod, explained)


def _look_at_group(
    context: SchedulerState, pod: Pod, look: Callable[[GroupTrial, str], ExplainedGroup]
) -> ExplainedGroup | None:
    """Return what is found out about the group of a pod if its pods can form one, or else why not."""
    unit = group_of(pod)
    if unit is None:
        return None
    group, pods = context.groups.get(unit), context.groups.pending(unit)
    if group is None and not pod.spec.node_name:
        return ExplainedGroup("/".join(unit), "", 0, max(len(pods), 1), 0, message=MISSING)
    if not pods or not isinstance(group, PodGroup):
        return None
    trial = GroupTrial(context, group, pods, context.groups.scheduled(unit)[0])
    above = context.groups.ancestors(unit)
    tree = unit_name(above[-1]) if above else ""
    with context.cache.lock:
        if error := why_invalid(context, group, (*pods, *trial.scheduled)):
            return _explain_invalid(trial, tree, error)
        return look(trial, tree)


class GroupTrial:
    """Places the pending pods of a group, and undoes it.

    Parameters
    ----------
    pods, scheduled : sequence of Pod
        The pending members, not in the cache, and those that have a node.
    """

    def __init__(
        self, context: SchedulerState, group: PodGroup, pods: Sequence[Pod], scheduled: Sequence[Pod]
    ) -> None:
        self.context, self.group, self.pods, self.scheduled = context, group, pods, scheduled
        self.engine = context.engine_of(pods[0])

    def other(self, group: PodGroup, pods: Sequence[Pod] | None = None) -> GroupTrial:
        """Return the trial of another group, and of other pending pods if some are given."""
        return GroupTrial(self.context, group, pods or self.pods, self.scheduled)

    def kind(self) -> Hashable | None:
        """Return what is equal for groups that fit alike; None where their pods have to be tried."""
        batch, placer = self.context.batch_of(self.pods), self.engine.placer
        if self.scheduled or not places_by_topology(self.engine):
            return None
        if not placer.reads_rows_alone(batch, 0, len(batch)):
            return None
        return self.engine, self.group.topology_keys, batch.key(0, len(batch))

    @property
    def is_bound(self) -> bool:
        """Whether the group is placed in one domain of a topology."""
        return bool(self.group.topology_keys) and self.context.handle.places_groups

    def attempt(self, minimum: int) -> Attempt:
        """Try the group with another minimum."""
        policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=minimum))
        spec = replace(self.group.spec, scheduling_policy=policy, min_member=None)
        group = replace(self.group, spec=spec)
        return try_group(self.context, self.engine, group, self.pods, self.scheduled)

    def placed(self, attempt: Attempt) -> int:
        """Return how many members have a node after an attempt."""
        return len(self.scheduled) + int((attempt.rows >= 0).sum())

    def most(self) -> Attempt:
        """Return the attempt that places the most pods, whatever the minimum; of several domains, the one
        that takes most."""
        attempt = self.attempt(len(self.scheduled) + 1)
        while self.is_bound and self.placed(attempt) < len(self.scheduled) + len(self.pods):
            more = self.attempt(self.placed(attempt) + 1)
            if not more.succeeded or self.placed(more) <= self.placed(attempt):
                break
            attempt = more
        return attempt

    def places(self) -> int:
        """Return how many members have a node if the group, with its own minimum, is placed; else 0."""
        attempt = self.attempt(max(1, self.group.min_count))
        return self.placed(attempt) if attempt.succeeded else 0


def _explained_group(trial: GroupTrial, tree: str, **facts: object) -> ExplainedGroup:
    """Return the explanation of a group with what was found."""
    group, count = trial.group, len(trial.pods) + len(trial.scheduled)
    numbers = max(1, group.min_count), count, len(trial.scheduled)
    return ExplainedGroup(group.key, tree, *numbers, **facts)  # type: ignore[arg-type]


def _explain_invalid(trial: GroupTrial, tree: str, error: str) -> ExplainedGroup:
    """Explain a group whose pods cannot form one. Where priorities differ, try one priority for all."""
    own = trial.group.spec.priority or 0
    others = [
        priority for pod in (*trial.pods, *trial.scheduled) if (priority := pod.spec.priority or 0) != own
    ]
    if SAME_PRIORITY not in error or not others:
        return _explained_group(trial, tree, message=error)
    changes = list(_one_priority(trial, others[0]))
    return _explained_group(
        trial, tree, message=f"{error}; the priority of the PodGroup is {own}", changes=changes
    )


def _one_priority(trial: GroupTrial, other: int) -> Iterator[HelpfulChange]:
    """Yield the changes with which all have one priority, each if it places the group: the group gets that of
    its pods, or the pending pods get that of their group."""
    its, theirs = trial.group.spec, trial.pods[0].spec
    like_pods = trial.other(_with_priority(trial.group, theirs))
    like_group = trial.other(trial.group, [_with_priority(pod, its) for pod in trial.pods])
    for kind, who, whose, same, before, after in (
        (Kind.PRIORITY, "the PodGroup", "its pods", like_pods, its.priority, theirs),
        (Kind.POD_PRIORITY, "each pod", "the PodGroup", like_group, other, its),
    ):
        if why_invalid(trial.context, same.group, (*same.pods, *trial.scheduled)) or not (
            placed := same.places()
        ):
            continue
        values = {"from": str(before or 0), "to": str(after.priority or 0)}
        text = f"give {who} the priority of {whose}: {values['to']}, not {values['from']}"
        if after.priority_class_name:
            text = f"set priorityClassName {after.priority_class_name} in {who} (priority {values['to']})"
        yield HelpfulChange(kind, text, values=values, placed=placed)


def _with_priority(obj: Any, spec: PodSpec | PodGroupSpec) -> Any:
    same = {"priority": spec.priority, "priority_class_name": spec.priority_class_name}
    return replace(obj, spec=replace(obj.spec, **same))


class Fit(NamedTuple):
    """The attempt that places the most pods of a group, how many it places, the index of the first pod that
    it does not place (-1 for none), in which domain, and why not."""

    attempt: Attempt
    fits: int
    stopped: int
    domain: str = ""
    message: str = ""

    def facts(self, trial: GroupTrial) -> dict[str, Any]:
        """Return what an explanation says of a group that fits like this."""
        known = {"fits": self.fits, "domain": self.domain, "message": self.message}
        return known | (
            {"next": trial.pods[self.stopped].key} if self.stopped in self.attempt.failures else {}
        )


def _fit(trial: GroupTrial) -> Fit:
    """Find how many pods fit at once, and what stops the next one."""
    attempt = trial.most()
    fits = int((attempt.rows >= 0).sum())
    stopped = next((at for at, row in enumerate(attempt.rows.tolist()) if row < 0), -1)
    failure = attempt.failures.get(stopped)
    if failure is not None:
        return Fit(attempt, fits, stopped, _domain(trial, attempt)[0], failure.search_message)
    return Fit(attempt, fits, stopped, message=_untried(trial, attempt) if stopped >= 0 else "")


def _explain(trial: GroupTrial, tree: str) -> ExplainedGroup:
    """Explain a group whose pods can form one."""
    fit = _fit(trial)
    attempt, fits, stopped, *_ = fit
    known = partial(_explained_group, trial, tree, **fit.facts(trial))
    if stopped < 0:
        missing = trial.group.min_count - fits - len(trial.scheduled)
        return known(changes=[_smaller(trial, fits)] if fits and missing > 0 else [])
    if stopped not in attempt.failures:
        return known(changes=list(_unbound(trial)))
    domain, names = _domain(trial, attempt)
    with _assumed(trial, attempt):
        seen = explain(trial.engine, trial.pods[stopped], "")
    changes, evictions = list[HelpfulChange](), None
    if fits + len(trial.scheduled) < trial.group.min_count or not fits:
        evictions = find_evictions(trial.context, trial.engine, trial.group, trial.pods, trial.scheduled)
        template = next((int(row) for row in attempt.rows.tolist() if row >= 0), -1) if domain else -1
        changes = sorted(_changes(trial, fits, seen, template), key=cost)
    return known(nodes=_groups_of(seen, names), changes=changes, evictions=evictions)


@contextmanager
def _assumed(trial: GroupTrial, attempt: Attempt) -> Iterator[None]:
    """Have the pods that an attempt has placed on their nodes inside the context."""
    cache = trial.context.cache
    with cache.transaction():
        for pod, row in zip(trial.pods, attempt.rows.tolist(), strict=True):
            if row >= 0:
                cache.state.assume_pod(bound(pod, cache.state.table.row_name(row)))
        yield


def _untried(trial: GroupTrial, attempt: Attempt) -> str:
    """Return why an attempt has not tried a pod: its status, or which label no node has."""
    objects, rows = trial.context.cache.state.table.objects, trial.context.view_rows().tolist()
    labels = {label for row in rows for label in objects[row].metadata.labels}
    if trial.is_bound and labels.isdisjoint(trial.group.topology_keys):
        return no_label(trial.group.topology_keys, labels)
    return "" if attempt.status is None else attempt.status.message()


def _domain(trial: GroupTrial, attempt: Attempt) -> tuple[str, frozenset[str] | None]:
    """Return the domain in which an attempt has placed pods, as LABEL=VALUE, and its nodes; "" and None where
    all nodes count."""
    table = trial.context.cache.state.table
    rows = [row for row in attempt.rows.tolist() if row >= 0]
    if not trial.is_bound or not rows:
        return "", None
    (key,) = trial.group.topology_keys
    value = table.objects[rows[0]].metadata.labels.get(key, "")
    nodes = trial.context.view_rows().tolist()
    names = [node.name for row in nodes if (node := table.objects[row]).metadata.labels.get(key) == value]
    return f"{key}={value}", frozenset(names)


def _groups_of(seen: Explanation, names: frozenset[str] | None) -> list[AlikeNodes]:
    """Return the rejected nodes of an explanation, of some nodes alone where these are given."""
    if names is None:
        return seen.groups
    groups, at = list[AlikeNodes](), {name: at for at, name in enumerate(seen.order)}
    for group in seen.groups:
        nodes = [name for name in group.nodes if name in names]
        if nodes:
            evidence = seen.find_evidence([at[name] for name in nodes], group.verdicts)
            groups.append(AlikeNodes(nodes, group.verdicts, evidence))
    return groups


# ---- changes -----------------------------------------------------------------------------------------------


def _changes(trial: GroupTrial, fits: int, seen: Explanation, template: int) -> Iterator[HelpfulChange]:
    """Yield changes with which the group is placed, each of which was tried.

    Parameters
    ----------
    fits : int
        Number of pending pods that fit as it is.
    seen : Explanation
        Of the first pod that does not.
    template : int
        Row of a node in the domain of a group that is bound to a topology; else -1.
    """
    if fits:
        yield _smaller(trial, fits)
    verdicts = (status for group in seen.groups for status in group.verdicts)
    lacking_resources = {resource_of(reason) for status in verdicts for reason in status.reasons}
    probe = Probe(trial.engine, seen.pod)
    for resource in sorted(lacking_resources - {"", "pods"}):
        yield from _lower(trial, probe, resource)
    lacking = trial.group.min_count - fits - len(trial.scheduled)
    yield from _more_nodes(trial, probe, _like(trial, probe, seen, template), lacking)
    for change in seen.changes:
        yield from _same_for_all(trial, probe, change)


def _unbound(trial: GroupTrial) -> Iterator[HelpfulChange]:
    """Yield the change to a group without a topology, if it places the group."""
    free = trial.other(replace(trial.group, spec=replace(trial.group.spec, scheduling_constraints=None)))
    if trial.is_bound and (placed := free.places()):
        keys = ", ".join(trial.group.topology_keys)
        yield HelpfulChange(
            Kind.DROP, f"remove the topology {keys} from schedulingConstraints", placed=placed
        )


def _smaller(trial: GroupTrial, fits: int) -> HelpfulChange:
    """Return the smaller minimum with which the pods that fit are enough: a cycle places them."""
    after = fits + len(trial.scheduled)
    text = f"lower minCount from {trial.group.min_count} to {after}"
    values = {"from": str(trial.group.min_count), "to": str(after)}
    return HelpfulChange(Kind.MINIMUM, text, values=values, placed=after)


def _lower(trial: GroupTrial, probe: Probe, resource: str) -> Iterator[HelpfulChange]:
    """Yield the largest request of each pod with which the group is placed."""
    gates, step = probe.gates, STEPS.get(resource, 1)
    amounts = [effective_request(pod, resource, gates) for pod in trial.pods]
    most = max(amounts)
    pod = trial.pods[amounts.index(most)]

    def at_most(steps: int) -> list[HelpfulChange]:
        changes = lowered(pod, resource, steps * step, gates)
        return [each for change in changes for each in _in_each_pod(trial, probe, change)]

    if steps := largest((most - 1) // step, lambda steps: bool(at_most(steps))):
        yield from at_most(steps)


def _like(
    trial: GroupTrial, probe: Probe, seen: Explanation, template: int
) -> Iterator[tuple[Node, Mapping[str, str]]]:
    """Yield the nodes whose copies could help, with the labels of these: those that would take the next pod,
    and one of its domain."""
    copied = [change.values for change in seen.changes if change.kind == Kind.NODE]
    like = [(values["like"], values.get("label", {})) for values in copied]
    if template >= 0:
        like.append((trial.context.cache.state.table.row_name(template), {}))
    yield from ((probe.nodes_named([name])[0], labels) for name, labels in like)


def _more_nodes(
    trial: GroupTrial, probe: Probe, like: Iterable[tuple[Node, Mapping[str, str]]], lacking: int
) -> Iterator[HelpfulChange]:
    """Yield how many copies of a node are enough, of the first node that helps: one, or as few as a bisection
    finds, at most one for each pod that is lacking."""
    for node, labels in like:

        def added(
            number: int, node: Node = node, labels: Mapping[str, str] = labels
        ) -> Iterator[HelpfulChange]:
            change = more_nodes(probe, node, number, labels)
            return tried(probe, change, partial(_placed, trial, change))

        number = 1 if any(added(1)) else fewest(lambda number: any(added(number)), max(lacking, 1))
        if number:
            yield from added(number)
            return


def _same_for_all(trial: GroupTrial, probe: Probe, change: HelpfulChange) -> Iterator[HelpfulChange]:
    """Yield a change that places the next pod, if it places the group once each pod has it."""
    if change.kind in (Kind.UNCORDON, Kind.LABEL):
        yield from tried(probe, change, partial(_placed, trial, change))
    elif change.changes_pods and change.kind != Kind.LOWER:  # see `_lower`
        yield from _in_each_pod(trial, probe, change)


def _in_each_pod(trial: GroupTrial, probe: Probe, change: HelpfulChange) -> Iterator[HelpfulChange]:
    """Yield a change of pods, if it places the group once each pod has it."""
    change = replace(change, text=f"in each pod: {change.text}")
    if all(probe.stored(change.of(pod)) for pod in trial.pods):
        yield from tried(probe, change, partial(_placed, trial, change))


def _placed(trial: GroupTrial, change: HelpfulChange, _: Pod) -> dict[str, int]:
    placed = trial.other(trial.group, [*map(change.of, trial.pods)]).places()
    return {"placed": placed} if placed else {}
