"""What pools and node groups would refuse: the one way to ask it, for explanations and answers alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from msgspec import structs

from moorage.cluster import PodScheduler
from moorage.kube import NodePool, Pod

from .autoscaler_protocol import AutoscalerSettings
from .group_refusals import NodeGroupTrial
from .node_class_changes import NodeClassChanges
from .pool_refusals import NodePoolTrial
from .pool_scaler import PassQuestion, PoolScaler
from .trial import Refusal, Trial


class Judge:
    """Says of a pod (``namespace/name``), as if it had no node, what each NodePool and each node group would
    refuse. It reads the cluster once: after a change there is a new judge.

    Parameters
    ----------
    scheduler : Scheduler
        After a run.
    """

    def __init__(self, scheduler: PodScheduler, autoscaling: AutoscalerSettings) -> None:
        self._scheduler, self._autoscaling = scheduler, autoscaling

    @cached_property
    def question(self) -> PassQuestion:
        """What a pass of Karpenter would be asked about no pod."""
        return PoolScaler(self._scheduler, self._autoscaling).question([])

    def _waiting(self, key: str) -> Pod:
        (pod,) = (stored for stored in self._scheduler.client.list(Pod)[0] if stored.key == key)
        return structs.replace(pod, spec=structs.replace(pod.spec, node_name=""))

    def pools(self, key: str) -> Sequence[NodePoolTrial]:
        """Return the trials of the pools, in the order in which Karpenter asks them."""
        scheduler, pod = self._scheduler, self._waiting(key)
        if not scheduler.client.list(NodePool)[0]:
            return ()
        gates = scheduler.cache.state.classes.gates
        classes = NodeClassChanges(self._autoscaling.types, scheduler.client, pod, gates)
        return [NodePoolTrial(self.question, pod, pool, classes) for pool in self.question.pools]

    def groups(self, key: str) -> Iterator[NodeGroupTrial]:
        """Yield the trials of the node groups, in their order."""
        pod, settings = self._waiting(key), self._autoscaling.groups
        if settings is not None:
            for group in settings.node_groups:
                yield NodeGroupTrial(self._scheduler, self._autoscaling, settings, group, pod)

    def _trials(self, key: str) -> Iterator[Trial[Any]]:
        return chain(self.pools(key), self.groups(key))

    def refusals(self, pod: str) -> Iterator[Refusal]:
        """Yield who makes no node for the pod, and which changes would help, each tried: the pools in the
        order in which Karpenter asks them, then the groups in theirs."""
        return filter(None, (trial.refusal() for trial in self._trials(pod)))

    def reasons(self, pod: str) -> dict[str, str]:
        """Return the reasons alone, by kind and name; "" for who makes a node for the pod without another."""
        return {f"{trial.kind} {trial.name}": trial.reason() for trial in self._trials(pod)}
