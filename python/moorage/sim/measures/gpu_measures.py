"""Measures of GPUs that pods share: how many are allocated, and how fragmented the free ones are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from moorage._core.devices.gpu_shares import BEST_FIT, WHOLE, GpuShares
from moorage.kube import Node
from moorage.table import Table

from ..gpu_policies import MODEL_LABEL, RESOURCE, Allocation, GpuShare, per_gpu, typical_pod, typical_pods
from ..replay import History
from ..replay.history import allocatable_of
from ..replay.usage_over_time import over_time, percent
from .capacity_measures import sum_over_nodes
from .measurement import measure

DEMANDS = range(10, 131, 10)  # per cent of the capacity
CLASSES = ("lack_both", "lack_gpu", "lack_cpu", "no_gpu", "no_gpu_lack_cpu", "no_access")
"""Why free GPUs are of no use for a pod: Q1, Q2, Q4, XL, XR and "no access" of Weng et al., who count GPUs
with too little room beside those that suffice (Q3) to Q2."""


@measure("gpu_allocation")
def gpu_allocation(history: History) -> dict[str, float]:
    """Return the allocated part of all GPUs when a part of their capacity has been asked for, in per cent.

    The demand counts all pods that have arrived, in the order of their arrival; ``gpu_allocation_at_100`` is
    the mean of the allocation over all arrivals at which the demand rounds to 100 % of the capacity (the
    measure of figure 9 of Weng et al., USENIX ATC 2023). Pods must not end before all have arrived.

    Returns
    -------
    dict of str to float
        Per cent of all GPUs, by per cent of demand.
    """
    capacity = np.asarray(history.usage(RESOURCE).columns["allocatable"])[-1]
    if not capacity:
        return {}
    amounts = history.requests(RESOURCE)
    demand = np.rint(100 * np.cumsum(amounts) / capacity).astype(np.int64)
    allocated = 100 * np.cumsum(np.where(history.pod_columns["node"] >= 0, amounts, 0)) / capacity
    means = {at: allocated[demand == at] for at in DEMANDS}
    return {f"gpu_allocation_at_{at}": float(part.mean()) for at, part in means.items() if len(part)}


@measure("gpu_fragmentation")
def gpu_fragmentation(history: History, pods: Sequence[Mapping[str, Any]] | None = None) -> Table:
    """Measure the fragmentation of GPUs (Weng et al., USENIX ATC 2023, section 4.2).

    The fragmentation of a node is the sum, over typical pods with their shares, of the free part of its GPUs
    that the pod cannot use (`GpuShares.fragment_classes`). The GPUs of a pod are those that the plugin
    GpuShare has chosen; the best fit for pods that it has not placed.

    Parameters
    ----------
    pods : sequence of mapping, optional
        Typical pods as of `GpuShare`; by default the most frequent shapes of the history (`typical_pods`).

    Returns
    -------
    Table
        Columns time; ``gpu_fragmentation`` and, for each of `CLASSES`, ``gpu_fragmentation_CLASS`` in per
        cent of the GPUs; ``gpu_fragmentation_of_free`` in per cent of their free part.
    """
    counts = np.bincount(history.pod_columns["template"], minlength=len(history.templates)).tolist()
    shapes = typical_pods(zip(history.templates, counts, strict=True)) if pods is None else pods
    rows = list(_Shares(history, [typical_pod(pod) for pod in shapes]).rows())
    values = np.array(rows or np.zeros((0, 4 + len(CLASSES))))
    time, node = values[:, 0], values[:, 1].astype(np.int64)
    sums = [sum_over_nodes(time, node, values[:, at]) for at in range(2, values.shape[1])]
    moments, _, room, free, *classes = over_time(*sums)
    total = np.add.reduce(classes)
    columns = {"gpu_fragmentation": percent(total, room), "gpu_fragmentation_of_free": percent(total, free)}
    parts = zip(CLASSES, classes, strict=True)
    named = {f"gpu_fragmentation_{name}": percent(part, room) for name, part in parts}
    return Table({"time": moments} | columns | named)


class _Shares:
    """The GPUs of the nodes of a history over time.

    Parameters
    ----------
    typical : list of tuple
        Typical pods as `GpuShares` takes them.
    """

    def __init__(self, history: History, typical: list[tuple[int, int, int, tuple[str, ...], float]]) -> None:
        self._history, self._shares = history, GpuShares(typical)
        self._chosen: dict[str, Allocation] = {}  # of the plugins of all profiles, by the UID of the pod
        for engine in history.scheduler.engines.values():
            for plugin in engine.profile.plugins:
                if isinstance(plugin, GpuShare):
                    self._chosen |= plugin.allocations
        self._cpu, self._milli = history.requests("cpu").tolist(), history.requests(RESOURCE).tolist()
        self._pods: dict[int, dict[int, tuple[int, ...]]] = {}  # GPUs of the pods on each node
        self._nodes: dict[int, Node] = {}

    def rows(self) -> Iterator[tuple[float, ...]]:
        """Yield time, node, thousandths of GPUs, free ones, and the fragmentation by class, for each node
        that changes at a time."""
        changed: dict[int, None] = {}
        now = 0.0
        for time, _, is_node, number, other in self._changes():
            if time != now:
                yield from self._states(now, changed)
                now = time
                changed = {}
            if is_node:
                node = number
                if other >= 0:
                    self._nodes[node] = self._history.node_objects[other]
                else:
                    self._nodes.pop(node, None)
            else:
                node = other
                self._move(number, node)
            changed[node] = None
        yield from self._states(now, changed)

    def _changes(self) -> list[tuple[float, int, bool, int, int]]:
        """Return time, order, and either (True, node, state) or (False, pod, node), in the order of time.

        Of one time, pods that ran before leave before others come; those that come and leave, leave last.
        """
        log, pods = self._history.node_columns, self._history.pod_columns
        given = zip(log["time"].tolist(), log["node"].tolist(), log["state"].tolist(), strict=True)
        out = [(time, 0, True, node, state) for time, node, state in given]
        placed = np.flatnonzero(pods["node"] >= 0)
        columns = (pods[name][placed].tolist() for name in ("node", "bound", "ended"))
        for pod, node, bound, ended in zip(placed.tolist(), *columns, strict=True):
            out.append((bound, 2, False, pod, node))
            if ended < np.inf:
                out.append((ended, 1 if bound < ended else 3, False, pod, node))
        return sorted(out, key=itemgetter(0, 1))

    def _move(self, pod: int, node: int) -> None:
        """Add a pod to a node, or remove it."""
        here = self._pods.setdefault(node, {})
        if pod in here:
            del here[pod]
            return
        here[pod] = ()
        milli, count = per_gpu(self._milli[pod])
        held = self._chosen.get(f"replay-{pod}")
        if held is not None and held[0] == self._history.node_names[node]:
            here[pod] = held[2]
        elif count:
            self._set(node)
            self._shares.ask(0, milli, count)
            here[pod] = self._shares.choose(node, BEST_FIT)

    def _set(self, node: int) -> int:
        """Bring the GPUs of a node up to date; return its number of GPUs."""
        obj, pods = self._nodes.get(node), self._pods.get(node, {})
        gpus = 0
        cpu = -sum(self._cpu[pod] for pod in pods)
        if obj is not None:
            gpus, cpu = allocatable_of(RESOURCE, obj) // WHOLE, cpu + allocatable_of("cpu", obj)
        model = "" if obj is None else obj.metadata.labels.get(MODEL_LABEL, "")
        self._shares.set_node(node, gpus, model, cpu)
        for pod, taken in pods.items():
            if gpus and taken:
                self._shares.take(node, per_gpu(self._milli[pod])[0], taken)
        return gpus

    def _states(self, time: float, nodes: Mapping[int, None]) -> Iterator[tuple[float, ...]]:
        for node in nodes:
            gpus = self._set(node)
            free = sum(self._shares.free(node))
            yield time, node, gpus * WHOLE, free, *self._shares.fragment_classes(node)
