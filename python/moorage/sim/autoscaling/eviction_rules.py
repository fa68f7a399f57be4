"""Which pods keep an autoscaler from removing their node."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.changes.drain import NO_CONTROLLER
from moorage.facade import Scheduler
from moorage.objects import Pod, PodDisruptionBudget
from moorage.objects.workloads.disruption import BudgetSelectors
from moorage.sim.timeline.autoscaler_spec import ScaleDown

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
KNOWN_CONTROLLERS = ("ReplicationController", "Job", "ReplicaSet", "StatefulSet")


class Budgets:
    """The disruptions that budgets allow, less those that are planned."""

    def __init__(self, scheduler: Scheduler) -> None:
        budgets = scheduler.client.list(PodDisruptionBudget)[0]
        self._selectors = BudgetSelectors(budgets)
        self._left = {one.key: one.status.disruptions_allowed for one in budgets}

    def of(self, pod: Pod) -> list[str]:
        """Return the keys of the budgets that select a pod."""
        return [one.key for one in self._selectors.of(pod)]

    def reason(self, pods: Sequence[Pod]) -> str:
        """Return why pods cannot be evicted together; "" if they can."""
        needs: dict[str, int] = {}
        for pod in pods:
            keys = self.of(pod)
            if len(keys) > 1:
                return f"{pod.key}: several PodDisruptionBudgets select it"
            for key in keys:
                needs[key] = needs.get(key, 0) + 1
        lacking = [key for key, need in needs.items() if need > self._left[key]]
        return f"PodDisruptionBudget {lacking[0]}: not enough disruptions are allowed" if lacking else ""

    def take(self, pods: Sequence[Pod]) -> None:
        """Count the disruptions of pods that are to be evicted."""
        for pod in pods:
            for key in self.of(pod):
                self._left[key] -= 1


def reason_to_keep(pod: Pod, rules: ScaleDown, budgets: Budgets) -> str:
    """Return why cluster-autoscaler does not remove the node of a pod; "" if the pod can be moved.

    Parameters
    ----------
    pod : Pod
        Neither of a DaemonSet nor static.
    """
    annotation = pod.metadata.annotations.get(SAFE_TO_EVICT)
    if annotation == "true":
        return ""
    owner = pod.metadata.controller()
    if owner is None:
        return NO_CONTROLLER
    if rules.skip_nodes_with_custom_controller_pods and owner.kind not in KNOWN_CONTROLLERS:
        return f"its controller is a {owner.kind}"
    if rules.skip_nodes_with_system_pods and pod.namespace == "kube-system" and not budgets.of(pod):
        return "it is of kube-system and has no PodDisruptionBudget"
    if rules.skip_nodes_with_local_storage:
        safe = pod.metadata.annotations.get(SAFE_VOLUMES, "").split(",")
        if any(volume.empty_dir is not None and volume.name not in safe for volume in pod.spec.volumes):
            return "it has local storage"
    return f"it has the annotation {SAFE_TO_EVICT}: false" if annotation == "false" else ""
