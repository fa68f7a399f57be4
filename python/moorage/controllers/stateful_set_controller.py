"""Creates, replaces and deletes the pods of StatefulSets in a store, as pods become available."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from moorage.kube.model.pod import Pod
from moorage.kube.model.storage import PersistentVolumeClaim
from moorage.kube.model.workload import StatefulSet
from moorage.kube.releases import FeatureGates
from moorage.kube.workloads.missing_pods import create_claims, create_ordinals, current_and_update
from moorage.kube.workloads.ownership import is_active, is_healthy
from moorage.kube.workloads.revisions import is_updated, mark_of
from moorage.kube.workloads.stateful_pods import (
    Revisions,
    by_ordinal,
    claim_owners,
    claims_of,
    next_step,
    ordinals,
    revision_for,
)
from moorage.store import Indexer, NotFoundError
from moorage.store.protocol import overwrite

from .availability import Availability, Rollout, rollout_of
from .store_control import StoreControl, dependents


class StatefulSetController:
    """Creates, replaces and deletes the pods of StatefulSets.

    Parameters
    ----------
    claims : Indexer
        The informer's copy of the claims, with the index of owners.
    gates : FeatureGates
        Those of the controllers, with their release.
    """

    def __init__(
        self,
        control: StoreControl,
        claims: Indexer[PersistentVolumeClaim],
        availability: Availability,
        gates: FeatureGates,
    ) -> None:
        self._control = control
        self._claims = claims
        self._availability = availability
        self._gates = gates

    def reconcile(self, obj: StatefulSet) -> None:
        """Take the next step of a StatefulSet, if there is one.

        Raises
        ------
        RefusedError
            The API server refuses a pod.
        """
        if obj.metadata.deletion_timestamp is not None or obj.spec.replicas is None:
            return
        pods = by_ordinal(obj, [*self._control.owned(obj), *self._control.adopt(obj, obj.spec.selector)])
        revisions = current_and_update(self._control, obj)
        is_available = self._availability.of(obj.spec.min_ready_seconds)
        step = next_step(obj, pods, revisions, is_available, self._gates)
        self._write_status(obj, pods, revisions)
        self._availability.wait(obj, step.is_complete, is_available.due)
        for pod in step.first:
            self._control.delete(pod)
        create_ordinals(self._control, obj, step.created, revisions)
        create_claims(self._control, obj, pods)
        self._write_claim_owners(obj, pods)
        for pod in step.deleted:
            self._control.delete(pod)
        self._control.forget_revisions(obj, (revisions.current.name, revisions.update.name))

    def _write_claim_owners(self, obj: StatefulSet, pods: dict[int, Pod]) -> None:
        """Have the claims of pods deleted with what the retention policy says, and not with anything else."""
        policy, wanted = obj.spec.persistent_volume_claim_retention_policy, ordinals(obj)
        deletes = "Delete" in (policy.when_deleted, policy.when_scaled)
        if not obj.spec.volume_claim_templates or not (deletes or dependents(self._claims, obj)):
            return
        for ordinal, pod in pods.items():
            for claim in filter(None, (self._claims.get(claim.key) for claim in claims_of(obj, ordinal))):
                owners = claim_owners(obj, pod, ordinal not in wanted, claim)
                if owners != claim.metadata.owner_references:
                    with suppress(NotFoundError):
                        overwrite(self._control.client, claim, owner_references=owners)

    def _write_status(self, obj: StatefulSet, pods: dict[int, Pod], revisions: Revisions) -> None:
        """Write the names of the revisions; the update is the current one once all pods have it."""
        is_available, completes = self._availability.of(0), self._gates.release.every_update_completes
        completes = completes or obj.spec.update_strategy.type == "RollingUpdate"
        current, update = revisions.current.name, revisions.update.name
        present = [pods.get(ordinal) for ordinal in ordinals(obj)]
        if completes and all(pod and is_updated(pod, update) and is_available(pod) for pod in present):
            current = update
        status = replace(obj.status, current_revision=current, update_revision=update)
        if status != obj.status:
            overwrite(self._control.client, replace(obj, status=status))

    def rollout(self, obj: StatefulSet) -> Rollout | None:
        """Return the rollout of a StatefulSet; None if it is complete."""
        revisions = current_and_update(self._control, obj)
        pods = by_ordinal(obj, filter(is_active, self._control.owned(obj)))
        marks = {at: mark_of(obj, revision_for(obj, at, revisions)) for at in ordinals(obj)}
        updated = [pod for pod in pods.values() if is_updated(pod, revisions.update.name)]
        available = list(filter(is_healthy, pods.values()))
        is_old = [at in pods and not is_updated(pods[at], mark) for at, mark in marks.items()]
        is_done = not any(is_old) or obj.spec.update_strategy.type == "OnDelete"
        if is_done and len(available) == len(marks):
            return None
        return rollout_of(obj, len(marks), updated, len(available))
