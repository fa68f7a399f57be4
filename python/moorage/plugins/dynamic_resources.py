"""DynamicResources: devices for resource claims, which this version does not implement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from moorage import framework as fwk
from moorage._core.state.pod_class import Shape
from moorage.framework.plugin import events
from moorage.framework.plugin.events import ActionType, is_same_pod, on, queue_if
from moorage.framework.plugin.signing import UNSIGNED
from moorage.framework.profiles.in_core import CorePostFilter, UnbuiltPlugin
from moorage.objects import Pod
from moorage.objects.model.resource_claims import ResourceClaim

NO_CLAIMS = "no new claims to deallocate"
NOT_FOUND = "not found"
FREES_NOTHING = fwk.Status(fwk.Code.UNSCHEDULABLE, (NO_CLAIMS,), "DynamicResources")


class DynamicResources(
    UnbuiltPlugin, fwk.PreEnqueuePlugin, CorePostFilter, fwk.ScorePlugin, fwk.ReservePlugin, fwk.PreBindPlugin
):
    """A placeholder with the queueing hints of kube-scheduler v1.36, dynamicresources/.

    It filters no node and scores 0 for pods without resource claims. Pods with claims are refused when they
    are read.
    """

    name = "DynamicResources"
    default_weight = 2
    feature_gate = "DynamicResourceAllocation"
    default_args = {"filterTimeout": "10s", "bindingTimeout": "10m0s"}

    def post_filter(
        self, state: fwk.CycleState, pod: Pod, statuses: Mapping[str, fwk.Status]
    ) -> tuple[fwk.PostFilterResult | None, fwk.Status | None]:
        return None, self.failure(state) or FREES_NOTHING

    def failure(self, state: fwk.CycleState) -> fwk.Status | None:
        """Return the Error of a cycle whose PreFilter ended before this plugin wrote its state.

        Parameters
        ----------
        state : CycleState
            State of the scheduling cycle.

        Returns
        -------
        Status or None
        """
        if self.name in state.skip_filter_plugins:
            return None
        return fwk.Status(fwk.Code.ERROR, (NOT_FOUND,), self.name)

    def may_preempt(self, shape: Shape, potential: int) -> bool:
        return False

    def futile_message(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        return NO_CLAIMS, False

    def sign_pod(self, pod: Pod) -> fwk.Status | None:
        return UNSIGNED if pod.spec.resource_claims else None

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        changes = ActionType.ADD | ActionType.UPDATE
        return [
            on(events.NODE, nodes),
            on(events.RESOURCE_CLAIM, changes, self.after_claim_change),
            on(events.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self.after_pod_change),
            on(events.DEVICE_CLASS, changes),
            on(events.RESOURCE_SLICE, changes),
        ]

    def after_claim_change(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim) -> fwk.QueueingHint:
        """Queue if all claims of the pod exist and one of them changed, or any claim was deallocated.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : ResourceClaim or None
            The object before the event; None if it was added.
        new : ResourceClaim
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        claims = self._claims(pod)
        if claims is None:
            return fwk.QUEUE_SKIP
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return fwk.QUEUE
        if all(claim.metadata.uid != new.metadata.uid for claim in claims):
            return fwk.QUEUE_SKIP
        return queue_if(old is None or old.status != new.status)

    def after_pod_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the event is about the pod and all its claims exist.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Pod
            The object before the event.
        new : Pod
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        return queue_if(is_same_pod(pod, new) and self._claims(new) is not None)

    def _claims(self, pod: Pod) -> list[ResourceClaim] | None:
        """The claims of a pod; None if one is missing, being deleted, or owned by another pod."""
        indexer = self.required_handle().informers.informer(ResourceClaim).indexer
        claims = []
        for name, is_generated in _claim_names(pod):
            claim: ResourceClaim | None = None if name is None else indexer.get(f"{pod.namespace}/{name}")
            if claim is None or claim.metadata.deletion_timestamp:
                return None
            if is_generated and not claim.metadata.is_controlled_by(pod.metadata.uid):
                return None
            claims.append(claim)
        return claims


def _claim_names(pod: Pod) -> Iterator[tuple[str | None, bool]]:
    """The claim names of a pod, and whether each is generated for the pod.

    The name of a generated claim that has none yet is None.
    """
    statuses = {status.name: status for status in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        if use.resource_claim_name is not None:
            yield use.resource_claim_name, False
        elif use.name not in statuses:
            yield None, True
        elif (name := statuses[use.name].resource_claim_name) is not None:
            yield name, True
