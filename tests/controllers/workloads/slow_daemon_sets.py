"""A slow twin of DaemonSetController, which looks at all nodes and pods in every round."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.doors.controllers import DaemonSetController
from tests.doors.kube import (
    create_daemons,
    daemon_spec,
    is_healthy,
    is_updated,
    mark_of,
    node_of,
    should_run,
    written_revision,
)

from moorage.kube import DaemonSet, Pod, RollingUpdateDaemonSet


class SlowDaemonSets(DaemonSetController):
    """Remembers nothing from one round to the next."""

    def reconcile(self, obj: DaemonSet) -> None:
        self.forget_rollouts()
        super().reconcile(obj)

    def _roll(self, obj: DaemonSet, rollout: object) -> None:
        mark = mark_of(obj, written_revision(self._control, obj))
        available = self._availability.of(obj.spec.min_ready_seconds)
        created, deleted, is_complete = self._step(obj, mark, available)
        self._availability.wait(obj, is_complete, available.due)
        create_daemons(self._control, obj, created)
        for pod in deleted:
            self._control.delete(pod)

    def _step(self, obj: DaemonSet, mark: str, available: Any) -> tuple[list[str], list[Pod], bool]:
        """The nodes that get another pod, the pods to delete, and whether nothing is left to do."""
        placed: defaultdict[str, list[Pod]] = defaultdict(list)
        leaving = set[str]()
        for pod in self._control.owned(obj):
            if pod.status.phase in ("Succeeded", "Failed"):
                continue
            if pod.metadata.deletion_timestamp is None:
                placed[node_of(pod.spec)].append(pod)
            else:
                leaving.add(node_of(pod.spec))
        old = {name for name, pods in placed.items() if not all(is_updated(pod, mark) for pod in pods)}
        if obj.spec.update_strategy.type == "OnDelete" or not old:
            return [], [], True
        nodes, spec = self._nodes.values(), daemon_spec(obj)
        wanted = [node.name for node in nodes if should_run(spec, node)]
        by_node = {node.name: placed[node.name] for node in nodes if node.name in placed}
        rolling = obj.spec.update_strategy.rolling_update or RollingUpdateDaemonSet()
        surge = number(rolling.max_surge or 0, len(wanted))
        if surge:
            return *surged(by_node, wanted, mark, available, surge), False
        unavailable = 1 if rolling.max_unavailable is None else rolling.max_unavailable
        gone = sum(node.name in leaving and not placed.get(node.name) for node in nodes)
        maximum = max(1, number(unavailable, len(wanted))) - gone
        return [], replaced(by_node, mark, available, maximum), False


def replaced(by_node: dict[str, list[Pod]], mark: str, available: Any, maximum: int) -> list[Pod]:
    gone, at_once, candidates = 0, list[Pod](), list[Pod]()
    for pods in by_node.values():
        if len(pods) > 1:
            gone += 1
            at_once += sorted(pods, key=by_age)[1:]
        elif not available(pods[0]):
            gone += 1
            at_once += [] if is_updated(pods[0], mark) else pods
        elif not is_updated(pods[0], mark):
            candidates += pods
    return at_once + candidates[: max(0, maximum - gone)]


def surged(
    by_node: dict[str, list[Pod]], wanted: list[str], mark: str, available: Any, maximum: int
) -> tuple[list[str], list[Pod]]:
    surging, at_once, candidates, deleted = 0, list[str](), list[str](), list[Pod]()
    for node, pods in by_node.items():
        old = sorted((pod for pod in pods if not is_updated(pod, mark)), key=by_age)
        new = sorted((pod for pod in pods if is_updated(pod, mark)), key=by_age)
        if len(old) > 1 or len(new) > 1:
            surging += 1
            deleted += [*old[1:], *new[1:]]
        elif old and new:
            if available(new[0]) or not is_healthy(old[0]):
                deleted += old
            else:
                surging += 1
        elif old and not available(old[0]):
            if node in wanted:
                at_once.append(node)
            else:
                deleted += old
        elif old and node in wanted:
            candidates.append(node)
    return at_once + candidates[: max(0, maximum - surging)], deleted


def by_age(pod: Pod) -> tuple[bool, str, str]:
    return not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.name


def number(value: int | str, nodes: int) -> int:
    return value if isinstance(value, int) else -(-int(value.removesuffix("%")) * nodes // 100)
