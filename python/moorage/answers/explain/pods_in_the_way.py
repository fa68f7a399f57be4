"""Pods that are in the way of a pod: the old ones of its own rollout, and those that it would evict with a
higher priority.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster.helpful_changes import HelpfulChange, Kind, without_surge
from moorage.cluster.requirements import (
    POD_TERMS,
    SPREADS,
    changed_term,
    hard_spreads,
    made_for,
    pod_term_text,
    pod_terms,
    spread_text,
)
from moorage.engine.framework.handle import Victims
from moorage.engine.preemption.dry_run import Candidate
from moorage.engine.preemption.eviction_units import priority_of, violations_on
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.kube import DaemonSet, Deployment, Object, Pod, ReplicaSet
from moorage.kube.model.pod import PodAffinityTerm, TopologySpreadConstraint
from moorage.kube.model.workload import PriorityClass
from moorage.kube.read.object_defaults import merge_label_keys
from moorage.kube.workloads.deployment_rollout import find_new_replica_set, max_surge, max_unavailable
from moorage.kube.workloads.ownership import HASH_LABEL, Workload, is_active
from moorage.lazy import NamedTuple
from moorage.store import NotFoundError, ObjectClient

from .examine_preemption import examine_preemption
from .probe import Probe

# ---- old pods of its own rollout ---------------------------------------------------------------------------

MOST_OLD_PODS = 32
"""Maximum number of old pods that are tried; where there are more, nothing is said of a rollout."""
ANTI_AFFINITY = "pod-anti-affinity"
Term = TypeVar("Term", PodAffinityTerm, TopologySpreadConstraint)


class OldPods(NamedTuple):
    """The pods that a rollout replaces, but not before a new one has a node.

    Attributes
    ----------
    pods : tuple of Pod
        Those of its old revisions.
    has_hash : bool
        Whether its pods carry `HASH_LABEL`.
    """

    workload: str
    pods: tuple[Pod, ...]
    has_hash: bool
    surge: str


def find_old_pods(probe: Probe) -> OldPods | None:
    """Find the old pods of a new pod's workload, if none of them is to end before a new one is available.

    Returns
    -------
    OldPods or None
        None without a rollout of this kind.
    """
    owner = probe.pod.metadata.controller()
    client, namespace = cast(ObjectClient, probe.engine.handle.client), probe.pod.namespace
    own = None
    with suppress(NotFoundError):
        if owner is not None and owner.kind == ReplicaSet.__name__:
            own = _of_deployment(client, client.get(ReplicaSet, owner.name, namespace))
        elif owner is not None and owner.kind == DaemonSet.__name__:
            own = _of_daemon_set(client, client.get(DaemonSet, owner.name, namespace), probe.pod.name)
    if own is None:
        return None
    cached = _on_nodes(probe, own.pods)
    here = made_for(probe.pod)
    pods = cached if here is None else tuple(pod for pod in cached if pod.spec.node_name == here.about)
    return own._replace(pods=pods) if 0 < len(pods) <= MOST_OLD_PODS else None


def _on_nodes(probe: Probe, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return those of pods of the store that are on nodes; the cache has also those that it has not bound."""
    state = probe.engine.cache.state
    return tuple(state.get_pod(pod) for pod in pods if is_active(pod) and state.has_pod(pod))


def running_pods(probe: Probe, controllers: Sequence[Object]) -> tuple[Pod, ...]:
    """Return the pods of controllers in a namespace that are on nodes."""
    client, uids = cast(ObjectClient, probe.engine.handle.client), [each.metadata.uid for each in controllers]
    return _on_nodes(probe, pods_of(client, controllers[0].namespace, uids) if controllers else ())


def own_controllers(client: ObjectClient, pod: Pod) -> set[str]:
    """Return the UIDs of a pod's controller and, if that is a ReplicaSet, of its Deployment's others."""
    owner = pod.metadata.controller()
    if owner is None:
        return set()
    deployment = None
    if owner.kind == ReplicaSet.__name__:
        with suppress(NotFoundError):
            deployment = client.get(ReplicaSet, owner.name, pod.namespace).metadata.controller()
    sets = [] if deployment is None else sets_of(client, pod.namespace, deployment.uid)
    return {owner.uid, *(replica_set.metadata.uid for replica_set in sets)}


def sets_of(client: ObjectClient, namespace: str, uid: str) -> list[ReplicaSet]:
    """Return the ReplicaSets of a Deployment."""
    return [
        replica_set
        for replica_set in client.list(ReplicaSet, namespace)[0]
        if replica_set.metadata.is_controlled_by(uid)
    ]


def _of_deployment(client: ObjectClient, own: ReplicaSet) -> OldPods | None:
    owner = own.metadata.controller()
    if owner is None or owner.kind != Deployment.__name__:
        return None
    deployment = client.get(Deployment, owner.name, own.namespace)
    sets = sets_of(client, own.namespace, deployment.metadata.uid)
    new = find_new_replica_set(deployment, sets)
    rolling, is_new = deployment.spec.strategy.rolling_update, new is not None and new.name == own.name
    if not is_new or rolling is None or not max_surge(deployment) or max_unavailable(deployment):
        return None
    others = [replica_set.metadata.uid for replica_set in sets if replica_set.name != own.name]
    pods = pods_of(client, own.namespace, others)
    workload = Workload(own.namespace, "Deployment", owner.name).text
    return OldPods(workload, pods, True, str(rolling.max_surge))


def _of_daemon_set(client: ObjectClient, own: DaemonSet, new: str) -> OldPods | None:
    """Return the other pods of a DaemonSet with a surge: on the node of the new one there is an old one."""
    rolling = own.spec.update_strategy.rolling_update
    if rolling is None or not rolling.max_surge:
        return None
    pods = tuple(pod for pod in pods_of(client, own.namespace, [own.metadata.uid]) if pod.name != new)
    return OldPods(Workload(own.namespace, "DaemonSet", own.name).text, pods, False, str(rolling.max_surge))


def pods_of(client: ObjectClient, namespace: str, uids: Collection[str]) -> tuple[Pod, ...]:
    """Return the pods of controllers."""
    pods = client.list(Pod, namespace)[0] if uids else ()
    return tuple(pod for pod in pods if any(map(pod.metadata.is_controlled_by, uids)))


def blocking_pods(probe: Probe, old: OldPods) -> dict[str, int]:
    """Return the old pods without any one of which the new pod fits, with the number of its nodes then.

    Returns
    -------
    dict of str to int
        By ``namespace/name``.
    """
    by_workload = {}
    for pod in old.pods:
        with with_others(probe, [pod], []):
            feasible = probe.count_feasible(probe.pod)
        if feasible:
            by_workload[pod.key] = feasible
    return by_workload


def rollout_changes(probe: Probe, old: OldPods, blocking: dict[str, int]) -> Iterator[HelpfulChange]:
    """Yield changes with which the rollout goes on: old pods end first, or do not count for new ones.

    The first is offered where the new pod fits without any old pod, as the controller chooses which one ends.

    Parameters
    ----------
    blocking : dict of str to int
        See `blocking_pods`.
    """
    if len(blocking) == len(old.pods):
        yield replace(without_surge(old.workload, old.surge), feasible_nodes=min(blocking.values()))
    for where, edit in _label_key_edits(probe.pod) if old.has_hash else ():
        text = f"set matchLabelKeys: [{HASH_LABEL}] in {where}"
        changed = _merged(edit(probe.pod))
        feasible = probe.count_feasible(changed)
        if not feasible:
            with with_others(probe, old.pods, [_merged(edit(pod)) for pod in old.pods]):
                feasible = probe.count_feasible(changed)
            text += ", which helps once the old pods have it, too"
        if feasible:
            values = {"workload": old.workload, "field": "matchLabelKeys", "from": "", "to": HASH_LABEL}
            yield HelpfulChange(Kind.ROLLOUT, text, values=values, feasible_nodes=feasible, pod=changed)


def _merged(pod: Pod) -> Pod:
    """Return a pod with its matchLabelKeys in its selectors, as the API server stores it."""
    return replace(pod, spec=merge_label_keys(pod.spec, pod.metadata.labels))


def _label_key_edits(pod: Pod) -> Iterator[tuple[str, Callable[[Pod], Pod]]]:
    """Yield the constraints on other pods that could tell revisions apart, with what makes them do so."""
    for term in pod_terms(pod.spec, POD_TERMS[ANTI_AFFINITY]):
        if HASH_LABEL not in term.match_label_keys and term.label_selector is not None:
            edit = partial(changed_term, path=POD_TERMS[ANTI_AFFINITY], term=term, changed=_with_hash(term))
            yield f"{ANTI_AFFINITY} {pod_term_text(term)}", edit
    for spread in hard_spreads(pod.spec):
        if HASH_LABEL not in spread.match_label_keys:
            edit = partial(changed_term, path=SPREADS, term=spread, changed=_with_hash(spread))
            yield f"topology-spread {spread_text(spread)}", edit


def _with_hash(term: Term) -> Term:
    return replace(term, match_label_keys=(*term.match_label_keys, HASH_LABEL))


@contextmanager
def with_others(probe: Probe, pods: Iterable[Pod], others: Iterable[Pod]) -> Iterator[None]:
    """Have other pods in the place of some on nodes, inside the context."""
    cache = probe.engine.cache
    with cache.transaction():
        for pod in pods:
            cache.discard_pod(pod)
        for pod in others:
            cache.add_pod(pod)
        yield


# ---- the smallest priority with which it would get a node --------------------------------------------------

HIGHEST = 1_000_000_000
"""The highest priority that users may give (scheduling/v1, HighestUserDefinablePriority)."""


class RaisedPriority(Struct, frozen=True):
    """The smallest priority with which a pod would get a node.

    Attributes
    ----------
    class_name, class_value : str, int
        The PriorityClass of the cluster with the smallest value that is enough; "" and 0 if there is none.
    victims : tuple of Pod
        Whom it would evict there, without pods that leave already; none if only nominated pods keep the room.
    budgets : tuple of str
        The PodDisruptionBudgets that the evictions violate, as ``namespace/name``.
    default_class : str
        The global default PriorityClass, where the priority of the pod is that of this class; else "".
    """

    priority: int
    class_name: str
    class_value: int
    node: str
    victims: tuple[Pod, ...]
    budgets: tuple[str, ...]
    default_class: str = ""

    @property
    def text(self) -> str:
        """The priority and its effect in words."""
        victims = ", ".join(f"{pod.key} ({priority_of(pod)})" for pod in self.victims)
        effect = f"evict {victims} on {self.node}" if victims else f"fit {self.node}"
        of = f" (PriorityClass {self.class_name} has {self.class_value})" if self.class_name else ""
        violates = f"; violates {', '.join(self.budgets)}" if self.budgets else ""
        default = f"; its own is that of {self.default_class}, the global default class"
        origin = default if self.default_class else ""
        return f"with priority {self.priority}{of} it would {effect}{violates}{origin}"


def find_raised_priority(probe: Probe, classes: Sequence[PriorityClass]) -> RaisedPriority | None:
    """Find the smallest priority with which a pod would get a node.

    Parameters
    ----------
    probe : Probe
        Of a pod that fits nowhere and evicts nobody.

    Returns
    -------
    RaisedPriority or None
        None if no priority helps, or helps against pods of its own workload or pods that leave anyway
        alone, or the pod may not preempt.
    """
    engine, pod = probe.engine, probe.pod
    if pod.spec.preemption_policy == "Never":
        return None
    own = priority_of(pod)
    # A superset of the priorities that matter, of few values. More priority can help less: a pod that the pod
    # has to be near is then evicted, too.
    there = {shape.priority for shape in engine.cache.state.classes.shapes}
    priorities = sorted(priority + 1 for priority in there if own <= priority < HIGHEST)

    def candidate_with(priority: int) -> Candidate | None:
        raised = replace(pod, spec=replace(pod.spec, priority=priority))
        rows = probe.feasible(raised)
        if len(rows):
            return Candidate(probe.nodes(rows[:1])[0].name, Victims(()))
        choice = examine_preemption(engine, raised, everywhere=False).choice
        return None if choice is None else choice.candidate

    tried = ((priority, candidate_with(priority)) for priority in priorities)
    priority, candidate = next((each for each in tried if each[1] is not None), (0, None))
    if candidate is None:
        return None
    own_uids = own_controllers(cast(ObjectClient, engine.handle.client), pod)
    owners = (victim.metadata.controller() for victim in candidate.victims.pods)
    if any(owner is not None and owner.uid in own_uids for owner in owners):
        return None  # it would evict pods of its own workload, which would have the priority, too
    victims = tuple(pod for pod in candidate.victims.pods if not pod.metadata.deletion_timestamp)
    if candidate.victims.pods and not victims:
        return None  # all of them leave already
    enough = [
        (pod_class.value, pod_class.name)
        for pod_class in classes
        if priority <= pod_class.value <= HIGHEST and pod_class.preemption_policy != "Never"
    ]
    helps = (each for each in sorted(enough) if candidate_with(each[0]) is not None)
    value, name = next(helps, (0, ""))
    budgets = budgets_of(engine, candidate, priority)
    of_class = pod.spec.priority_class_name
    default = any(each.name == of_class and each.global_default for each in classes)
    return RaisedPriority(
        priority, name, value, candidate.name, victims, budgets, of_class if default else ""
    )


def budgets_of(engine: Engine, candidate: Candidate, priority: int) -> tuple[str, ...]:
    """Return the budgets that evictions violate, as ``namespace/name``.

    Parameters
    ----------
    candidate : Candidate
        The node and the victims.
    priority : int
        Of the pod that evicts them.
    """
    if not candidate.victims.num_pdb_violations:
        return ()
    violated = violations_on(engine.handle, candidate.name, priority, candidate.victims.pods)
    return tuple(sorted({budget for some in violated.values() for budget in some}))


def priority_classes(client: ObjectClient) -> list[PriorityClass]:
    """Return the priority classes of a cluster."""
    return list(client.list(PriorityClass)[0])
