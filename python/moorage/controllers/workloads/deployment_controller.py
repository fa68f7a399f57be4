"""Rolls out Deployments in a store, step by step as pods become available."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import Deployment, ReplicaSet
from moorage.objects.workloads.deployment_rollout import find_new_replica_set, is_complete, next_step
from moorage.objects.workloads.ownership import FINISHED, is_active, is_healthy
from moorage.store import Indexer

from .owner_index import OWNER, by_owner, values_of
from .store_control import StoreControl


class Rollout(Struct, frozen=True):
    """The rollout of a Deployment that is not complete.

    Attributes
    ----------
    deployment : str
        ``namespace/name``.
    replicas : int
        The number of pods that it should have.
    updated, available : int
        The number of pods with its template, and of all pods that are available.
    without_node : tuple of str
        The pods with its template that have no node, each ``namespace/name``.
    """

    deployment: str
    replicas: int
    updated: int
    available: int
    without_node: tuple[str, ...]


class DeploymentController:
    """Creates and scales the ReplicaSets of Deployments.

    A pod is available `minReadySeconds` after it is ready; without a kubelet it is ready when it is bound.

    Parameters
    ----------
    control : StoreControl
    sets : Indexer
        The informer's copy of the ReplicaSets; gets the index of owners.
    now : callable
        Returns seconds.

    Attributes
    ----------
    rolling : dict of str to float
        The Deployments with a step to come, by ``namespace/name``, to the time at which their next pod
        becomes available; infinite where no pod waits for its time.
    """

    def __init__(self, control: StoreControl, sets: Indexer[ReplicaSet], now: Callable[[], float]) -> None:
        self.rolling: dict[str, float] = {}
        self._control = control
        self._sets = sets
        self._now = now
        self._ready: dict[str, float] = {}  # when a pod was first seen to be ready, by UID
        sets.add_index(OWNER, by_owner, is_lasting=True)

    def save(self) -> object:
        """Return the state, for `undo`."""
        return self.rolling.copy(), self._ready.copy()

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        rolling, ready = saved
        self.rolling, self._ready = rolling.copy(), ready.copy()

    def sets_of(self, deployment: Deployment) -> list[ReplicaSet]:
        """Return the ReplicaSets that a Deployment controls.

        Parameters
        ----------
        deployment : Deployment

        Returns
        -------
        list of ReplicaSet
        """
        return [one for value in values_of(deployment) for one in self._sets.by_index(OWNER, value)]

    def reconcile(self, deployment: Deployment) -> None:
        """Take the next step of a Deployment, if there is one.

        Parameters
        ----------
        deployment : Deployment
        """
        sets, key = self.sets_of(deployment), deployment.key
        self.rolling.pop(key, None)
        if deployment.metadata.deletion_timestamp is not None or deployment.spec.replicas is None:
            return
        new = find_new_replica_set(deployment, sets)
        old = [one for one in sets if one is not new]
        is_done = new is not None and new.spec.replicas == deployment.spec.replicas
        if is_done and not any(one.spec.replicas for one in old):
            return
        available, due = self._available(deployment, sets)
        old_pods = any(pod.status.phase not in FINISHED for one in old for pod in self._control.owned(one))
        for step in next_step(deployment, sets, available, old_pods):
            if step.metadata.uid:
                meta = replace(step.metadata, resource_version="")
                self._control.client.update(replace(step, metadata=meta))
            else:
                self._control.client.create(step)
        self.rolling[key] = due

    def _available(self, deployment: Deployment, sets: list[ReplicaSet]) -> tuple[dict[str, int], float]:
        """Return the number of available pods by ReplicaSet, and the time at which the next one is."""
        period, now, due = deployment.spec.min_ready_seconds, self._now(), inf
        available = {}
        for one in sets:
            healthy = [pod for pod in self._control.owned(one) if is_healthy(pod)]
            if period:
                times = [self._ready.setdefault(pod.metadata.uid, now) + period for pod in healthy]
                due = min([due, *(time for time in times if time > now)])
                available[one.name] = sum(time <= now for time in times)
            else:
                available[one.name] = len(healthy)
        return available, due

    def rollout(self, deployment: Deployment) -> Rollout | None:
        """Return the rollout of a Deployment; None if it is complete.

        Parameters
        ----------
        deployment : Deployment

        Returns
        -------
        Rollout or None
        """
        sets = self.sets_of(deployment)
        available, _ = self._available(deployment, sets)
        if is_complete(deployment, sets, available):
            return None
        new = find_new_replica_set(deployment, sets)
        pods: list[Pod] = [] if new is None else list(filter(is_active, self._control.owned(new)))
        return Rollout(
            deployment=deployment.key,
            replicas=deployment.spec.replicas or 0,
            updated=len(pods),
            available=sum(available.values()),
            without_node=tuple(pod.key for pod in pods if not pod.spec.node_name),
        )
