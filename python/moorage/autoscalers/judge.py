"""What pools and node groups would refuse: the one way to ask it, for explanations and answers alike."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from moorage.cluster import PodScheduler
from moorage.kube import NodePool

from .autoscaler_protocol import AutoscalerSettings
from .group_refusals import group_trials
from .pool_refusals import pool_trials
from .trial import Refusal, Trial


class Judge:
    """Says of a pod without a node (``namespace/name``) what each NodePool and each node group would refuse.

    Parameters
    ----------
    scheduler : Scheduler
        After a run.
    """

    def __init__(self, scheduler: PodScheduler, autoscaling: AutoscalerSettings) -> None:
        self._scheduler, self._autoscaling = scheduler, autoscaling

    def _trials(self, pod: str) -> Iterator[Trial[Any]]:
        about = self._scheduler, self._autoscaling, pod
        has_pools = bool(self._scheduler.client.list(NodePool)[0])
        return chain(pool_trials(*about) if has_pools else (), group_trials(*about))

    def refusals(self, pod: str) -> Iterator[Refusal]:
        """Yield who makes no node for the pod, and which changes would help, each tried: the pools in the
        order in which Karpenter asks them, then the groups in theirs."""
        return filter(None, (trial.refusal() for trial in self._trials(pod)))

    def reasons(self, pod: str) -> dict[str, str]:
        """Return the reasons alone, by kind and name; "" for who makes a node for the pod without another."""
        return {f"{trial.kind} {trial.name}": trial.reason() for trial in self._trials(pod)}
