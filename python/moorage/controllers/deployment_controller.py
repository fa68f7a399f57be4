"""Rolls out Deployments in a store, step by step as pods become available."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import Deployment, ReplicaSet
from moorage.kube.workloads.deployment_rollout import (
    by_age,
    find_new_replica_set,
    is_complete,
    next_step,
    revision_of,
)
from moorage.kube.workloads.ownership import FINISHED, is_active, is_healthy
from moorage.kube.workloads.revisions import HISTORY_LIMIT
from moorage.store import Indexer

from .availability import Availability, Rollout, rollout_of
from .store_control import OWNER, StoreControl, values_of


class DeploymentController:
    """Creates and scales the ReplicaSets of Deployments.

    Parameters
    ----------
    sets : Indexer
        The informer's copy of the ReplicaSets, with the index of owners.
    """

    def __init__(self, control: StoreControl, sets: Indexer[ReplicaSet], availability: Availability) -> None:
        self._control = control
        self._sets = sets
        self._availability = availability

    def sets_of(self, deployment: Deployment) -> list[ReplicaSet]:
        """Return the ReplicaSets that a Deployment controls."""
        return [
            replica_set
            for value in values_of(deployment)
            for replica_set in self._sets.by_index(OWNER, value)
        ]

    def reconcile(self, deployment: Deployment) -> None:
        """Take the next step of a Deployment, if there is one.

        Raises
        ------
        RefusedError
            The API server refuses a ReplicaSet.
        """
        sets = self.sets_of(deployment)
        self._availability.wait(deployment, True, inf)
        if deployment.metadata.deletion_timestamp is not None or deployment.spec.replicas is None:
            return
        new = find_new_replica_set(deployment, sets)
        old = [replica_set for replica_set in sets if replica_set is not new]
        is_done = new is not None and new.spec.replicas == deployment.spec.replicas
        if is_done and not any(replica_set.spec.replicas for replica_set in old):
            self._forget_oldest(deployment, sets, old)
            return
        available, due = self._available(deployment, sets)
        old_pods = any(
            pod.status.phase not in FINISHED
            for replica_set in old
            for pod in self._control.owned(replica_set)
        )
        for step in next_step(deployment, sets, available, old_pods):
            self._control.write(next((old for old in sets if old.name == step.name), None), step)
        self._availability.wait(deployment, False, due)

    def _forget_oldest(
        self, deployment: Deployment, sets: list[ReplicaSet], old: Sequence[ReplicaSet]
    ) -> None:
        """Delete the oldest ReplicaSets beyond the limit of the history, once the rollout is complete
        (kubernetes v1.36, deployment/sync.go cleanupDeployment).
        """
        limit = deployment.spec.revision_history_limit
        surplus = len(old) - (HISTORY_LIMIT if limit is None else limit)
        if surplus <= 0:
            return
        available, due = self._available(deployment, sets)
        has_ended = not any(is_active(pod) for each in old for pod in self._control.owned(each))
        if not has_ended or not is_complete(deployment, sets, available):
            self._availability.wait(deployment, False, due)
            return
        for each in sorted(old, key=lambda each: (revision_of(each), by_age(each)))[:surplus]:
            self._control.delete(each)

    def _available(self, deployment: Deployment, sets: list[ReplicaSet]) -> tuple[dict[str, int], float]:
        """Return the number of available pods by ReplicaSet, and the time at which the next one is."""
        is_available = self._availability.of(deployment.spec.min_ready_seconds)
        available = {
            replica_set.name: sum(map(is_available, self._control.owned(replica_set))) for replica_set in sets
        }
        return available, is_available.due

    def awaited_pods(self, deployment: Deployment) -> list[Pod]:
        """Return, for each pod that a Deployment with the strategy Recreate lacks until its old pods have
        ended, one of those that are being deleted.
        """
        recreates = deployment.spec.strategy.type == "Recreate" and not deployment.spec.paused
        if not recreates or deployment.metadata.deletion_timestamp is not None:
            return []
        sets = self.sets_of(deployment)
        new = find_new_replica_set(deployment, sets)
        old = (
            pod for replica_set in sets if replica_set is not new for pod in self._control.owned(replica_set)
        )
        going = [pod for pod in old if pod.status.phase not in FINISHED and not is_active(pod)]
        lacking = (deployment.spec.replicas or 0) - ((new.spec.replicas or 0) if new else 0)
        return (going * lacking)[:lacking] if lacking > 0 else []

    def rollout(self, deployment: Deployment) -> Rollout | None:
        """Return the rollout of a Deployment; None if it is complete."""
        sets = self.sets_of(deployment)
        available = {
            replica_set.name: sum(map(is_healthy, self._control.owned(replica_set))) for replica_set in sets
        }
        if is_complete(deployment, sets, available):
            return None
        new = find_new_replica_set(deployment, sets)
        updated: list[Pod] = [] if new is None else list(filter(is_active, self._control.owned(new)))
        return rollout_of(deployment, deployment.spec.replicas or 0, updated, sum(available.values()))
