"""How a DaemonSet replaces its pods after a change of its template (kubernetes v1.36, daemon/update.go)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from moorage.objects.model.field_rules import percent
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import DaemonSet, RollingUpdateDaemonSet

from .daemon_pods import node_of, should_run
from .missing_pods import daemon_spec
from .ownership import FINISHED, is_healthy
from .revisions import is_updated


class DaemonStep(NamedTuple):
    """What a rolling update of a DaemonSet does next.

    Attributes
    ----------
    nodes : list of str
        The nodes that get a new pod besides the old one.
    deleted : list of Pod
        The pods that it deletes.
    is_complete : bool
        Whether nothing is left to do, now or later.
    """

    nodes: list[str]
    deleted: list[Pod]
    is_complete: bool


def next_step(
    obj: DaemonSet,
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    mark: str,
    is_available: Callable[[Pod], bool],
) -> DaemonStep:
    """Return what a rolling update does next.

    Without `maxSurge` old pods are deleted, those that are not available at once, others as far as no more
    than `maxUnavailable` pods are not available. With `maxSurge` nodes get a new pod besides the old one,
    which is deleted when the new one is available. Percentages are of the nodes that should run a pod,
    rounded up.

    Parameters
    ----------
    obj : DaemonSet
        With defaults.
    nodes : sequence of Node
        All nodes.
    pods : iterable of Pod
        Its pods, in any state.
    mark : str
        The label of pods with its template; see `mark_of`.
    is_available : callable
        Whether a pod is available.

    Returns
    -------
    DaemonStep
    """
    placed: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.status.phase not in FINISHED and pod.metadata.deletion_timestamp is None:
            placed[node_of(pod.spec)].append(pod)
    is_old = {name for name, here in placed.items() if not all(is_updated(pod, mark) for pod in here)}
    if obj.spec.update_strategy.type == "OnDelete" or not is_old:
        return DaemonStep([], [], True)
    spec = daemon_spec(obj)
    wanted = [node.name for node in nodes if should_run(spec, node)]
    by_node = {node.name: placed[node.name] for node in nodes if node.name in placed}
    surge = _number(_rolling(obj).max_surge or 0, len(wanted))
    if surge:
        return _surge(by_node, set(wanted), mark, is_available, surge)
    unavailable = _rolling(obj).max_unavailable
    maximum = _number(1 if unavailable is None else unavailable, len(wanted))
    return DaemonStep([], _replace(by_node, mark, is_available, max(1, maximum)), False)


def _replace(
    by_node: Mapping[str, list[Pod]], mark: str, is_available: Callable[[Pod], bool], maximum: int
) -> list[Pod]:
    """Return the old pods to delete, as far as no more than a number of pods is not available."""
    unavailable, at_once, candidates = 0, [], []
    for pods in by_node.values():
        if len(pods) > 1:  # since there was a surge; the oldest pod stays
            unavailable += 1
            at_once += sorted(pods, key=_by_age)[1:]
        elif not is_available(pods[0]):
            unavailable += 1
            at_once += [pods[0]] if not is_updated(pods[0], mark) else []
        elif not is_updated(pods[0], mark):
            candidates.append(pods[0])
    return at_once + candidates[: max(0, maximum - unavailable)]


def _surge(
    by_node: Mapping[str, list[Pod]],
    wanted: set[str],
    mark: str,
    is_available: Callable[[Pod], bool],
    maximum: int,
) -> DaemonStep:
    """Return the nodes that get a second pod, and the old pods whose successor is available."""
    surging, at_once, candidates, deleted = 0, [], [], []
    for node, pods in by_node.items():
        old = [pod for pod in pods if not is_updated(pod, mark)]
        new = [pod for pod in pods if is_updated(pod, mark)]
        if not old:
            continue
        if new:
            if is_available(new[0]) or not is_healthy(old[0]):
                deleted += old
            else:
                surging += 1
        elif not is_available(old[0]):
            if node in wanted:
                at_once.append(node)
            else:
                deleted += old
        elif node in wanted:
            candidates.append(node)
    return DaemonStep(at_once + candidates[: max(0, maximum - surging)], deleted, False)


def _rolling(obj: DaemonSet) -> RollingUpdateDaemonSet:
    return obj.spec.update_strategy.rolling_update or RollingUpdateDaemonSet()


def _number(value: int | str, nodes: int) -> int:
    return value if isinstance(value, int) else -(-percent(value) * nodes // 100)


def _by_age(pod: Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.name
