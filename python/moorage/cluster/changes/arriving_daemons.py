"""The pods that DaemonSets put on a node once it is new or changed, before any other pod."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property

from msgspec.structs import replace

from moorage.controllers.store_control import admission_of
from moorage.engine.preemption.eviction_units import priority_of
from moorage.kube import Node, Pod
from moorage.kube.apiserver.admission import Admission, RefusedError
from moorage.kube.model.workload import DaemonSet
from moorage.kube.workloads.daemon_pods import pinned_spec, should_run
from moorage.kube.workloads.missing_pods import daemon_spec, new_pod
from moorage.store import ObjectClient


class ArrivingDaemons:
    """Makes the pods of DaemonSets for a node, as their controller does.

    Parameters
    ----------
    client : ObjectClient
        Has the DaemonSets, and what the admission of their pods depends on.
    """

    def __init__(self, client: ObjectClient) -> None:
        self._client = client

    @cached_property
    def _sets(self) -> list[DaemonSet]:
        listed: list[DaemonSet] = self._client.list(DaemonSet)[0]
        return [one for one in listed if one.metadata.deletion_timestamp is None]

    @cached_property
    def _admission(self) -> Admission:
        return admission_of(self._client)

    def pods_for(self, node: Node, before: Node | None) -> list[Pod]:
        """Return the pods that DaemonSets make for a node, in the order in which they are placed.

        Parameters
        ----------
        before : Node or None
            The node before its change; None for a new node.

        Returns
        -------
        list of Pod
            By descending priority, without those that the API server refuses.
        """
        return sorted(self._made(node, before), key=lambda pod: -priority_of(pod))

    def _made(self, node: Node, before: Node | None) -> Iterator[Pod]:
        for one in self._sets:
            spec = daemon_spec(one)
            if not should_run(spec, node) or (before is not None and should_run(spec, before)):
                continue
            pod = new_pod(
                one, one.spec.template, name=f"{one.name}-{node.name}", spec=pinned_spec(spec, node.name)
            )
            with suppress(RefusedError):
                pod = self._admission.admit(pod)
                yield replace(pod, metadata=replace(pod.metadata, uid=f"pod/{pod.key}"))
