"""Whether all pods of a node find room elsewhere, whatever the scheduler chooses for each."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np
import numpy.typing as npt

from moorage._core.base.selectors import tolerates
from moorage.cluster import PodScheduler
from moorage.engine.plugins.node_affinity_and_taints import UNSCHEDULABLE
from moorage.kube import Pod, group_of

from .asked_pods import FIT, FITS, FIXED, checked_needs, free_amounts, node_verdicts
from .pod_moves import Mover, pods_to_move

Mask = npt.NDArray[np.bool_]


class RoomForAll:
    """Proves that nodes can be drained, without moves.

    A pod finds a node if its filters accept one that has room for all pods of the drained node together:
    wherever the others went, it fits there. That counts for pods whose filters look at the node and at its
    free resources alone, and that no budget selects.

    Parameters
    ----------
    scheduler : Scheduler
        As it is at every question.
    """

    def __init__(self, scheduler: PodScheduler, mover: Mover) -> None:
        self._scheduler, self._mover = scheduler, mover
        self._of_class: dict[int, tuple[Mask, dict[str, int]] | None] = {}
        self._free: dict[str, npt.NDArray[np.int64]] = {}

    def is_for(self, node: str) -> bool:
        """Whether all pods of a node find room on others; False where that is not proved."""
        if not self._decides_alone:
            return False
        masks, needs = dict[int, Mask](), Counter[str]()
        for pod in pods_to_move(self._scheduler, node):
            if self._mover.budgets_of(pod) or self._mover.reason_to_stay(pod):
                return False
            again = self._mover.made_again(pod)
            pod_class = self._scheduler.cache.state.classes.intern(again)
            if pod_class not in self._of_class:
                self._of_class[pod_class] = self._accepted(again)
            if (accepted := self._of_class[pod_class]) is None:
                return False
            masks[pod_class] = accepted[0]
            needs.update(accepted[1])
        room = np.ones(len(self._scheduler.table.objects), dtype=np.bool_)
        room[self._scheduler.table.find_row(node)] = False
        for name, need in needs.items():
            if name not in self._free:
                self._free[name] = free_amounts(self._scheduler, name)
            room &= self._free[name] >= need
        return all((mask & room).any() for mask in masks.values())

    @cached_property
    def _decides_alone(self) -> bool:
        """Whether neither extenders nor nominated pods take part."""
        context = self._scheduler.context
        return not (context.nominator or context.handle.extenders)

    def _accepted(self, pod: Pod) -> tuple[Mask, dict[str, int]] | None:
        """Return the rows that accept a pod, and what it needs; None where more decides than the node and its
        free resources, or it would go to an unschedulable one."""
        scheduler = self._scheduler
        if group_of(pod) is not None or tolerates(pod.spec.tolerations, UNSCHEDULABLE):
            return None
        if not scheduler.context.engine_for(pod).profile.is_in_core:
            return None
        with scheduler.cache.lock:
            verdicts = node_verdicts(scheduler, pod)
        if not {"NodeUnschedulable", FIT} <= verdicts.filters <= FIXED | {FIT}:
            return None
        accepted = np.zeros(len(scheduler.table.objects), dtype=np.bool_)
        accepted[verdicts.rows[verdicts.kinds == FITS]] = True
        return accepted, checked_needs(scheduler, pod)
