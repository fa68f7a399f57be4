"""Keeps the status of disruption budgets (kubernetes v1.36, pkg/controller/disruption)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from moorage.kube import LabelSelectorMatcher
from moorage.kube.model.meta import by_label, selected_labels
from moorage.kube.model.pod import Pod
from moorage.kube.model.policy import NO_STATUS, PodDisruptionBudget, PodDisruptionBudgetStatus
from moorage.kube.workloads.disruption import SCALABLE, Scalable, status_of
from moorage.kube.workloads.ownership import is_healthy
from moorage.saved_fields import SavedFields
from moorage.store import Indexer, InformerFactory, NotFoundError, ObjectClient
from moorage.store.protocol import overwrite

LABEL = "label"


class DisruptionController(SavedFields):
    """Computes the status of a budget anew after a change of its pods, of their workloads or of itself.

    A status that a cluster was read with stays until then. Where the workload of a pod is not known, the
    desired number of healthy pods stays, and those that are healthy are counted.

    Parameters
    ----------
    pods : Indexer
        The informer's copy of the pods; gets an index of labels.

    Attributes
    ----------
    changed : dict of str to None
        The keys of the budgets to look at in the next round.
    """

    fields = ("changed", "_noted", "_has_started")

    def __init__(self, client: ObjectClient, informers: InformerFactory, pods: Indexer[Pod]) -> None:
        self._client = client
        self._pods = pods
        self._budgets: Indexer[PodDisruptionBudget] = informers.informer(PodDisruptionBudget).indexer
        self._workloads: dict[str, Indexer[Any]] = {
            kind.__name__: informers.informer(kind).indexer for kind in SCALABLE
        }
        self.changed: dict[str, None] = {}
        self._noted = set[tuple[str, ...]]()  # of pods whose budgets all are in `changed`, by `by_label`
        self._has_started = False
        pods.add_index(LABEL, by_label, is_lasting=True)
        self._budgets.add_index(LABEL, lambda budget: selected_labels(budget.namespace, budget.spec.selector))

    @property
    def has_budgets(self) -> bool:
        """Whether there are budgets whose status is kept."""
        return self._has_started and bool(len(self._budgets))

    def start(self) -> None:
        """Leave the statuses as they were read, and keep them from now on."""
        self.changed.clear()
        self._noted.clear()
        self._has_started = True

    def on_add(self, obj: PodDisruptionBudget, is_in_initial_list: bool) -> None:
        """Give a new budget a status, unless it has one."""
        self._noted.clear()
        if obj.status == NO_STATUS:
            self.changed[obj.key] = None

    def on_update(self, old: PodDisruptionBudget, new: PodDisruptionBudget) -> None:
        """Compute the status of a budget that was changed."""
        self._noted.clear()
        if old.spec != new.spec:
            self.changed[new.key] = None

    def on_delete(self, obj: object) -> None:
        """Do nothing: a budget without an object has no status."""

    def note(self, *pods: Pod) -> None:
        """Note that pods have changed, or what their workloads ask for."""
        for pod in pods if self.has_budgets else ():
            labels = by_label(pod)
            if labels in self._noted:
                continue
            self._noted.add(labels)
            for label in labels:
                for key, budget in self._budgets.items_by_index(LABEL, label).items():
                    if key in self.changed:
                        continue
                    if LabelSelectorMatcher(budget.spec.selector).matches(pod.metadata.labels):
                        self.changed[key] = None

    def look_ahead(self) -> None:
        """Build the index of the pods, before transactions that are undone: it would be undone with each."""
        if self.has_budgets:
            self._pods.by_index(LABEL, "")

    def work(self) -> None:
        """Write the statuses that have changed."""
        changed, self.changed = self.changed, {}
        self._noted.clear()
        for key in changed:
            budget = self._budgets.get(key)
            if budget is not None:
                status = self._status(budget)
                if status != budget.status:
                    with suppress(NotFoundError):
                        overwrite(self._client, replace(budget, status=status))

    def _status(self, budget: PodDisruptionBudget) -> PodDisruptionBudgetStatus:
        pods = self._pods.selected(LABEL, budget.namespace, budget.spec.selector)
        status = status_of(budget, pods, self._find)
        if status is None:
            old, healthy = budget.status, sum(map(is_healthy, pods))
            allowed = max(0, healthy - old.desired_healthy) if old.expected_pods else 0
            status = replace(old, current_healthy=healthy, disruptions_allowed=allowed)
        return status

    def _find(self, kind: str, namespace: str, name: str) -> Scalable | None:
        indexer = self._workloads.get(kind)
        return None if indexer is None else indexer.get(f"{namespace}/{name}")
