"""Measures of capacity: what is in use, what is free and of no use, and the largest pod that fits."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage._core.base.quantity import parse
from moorage.errors import InputError, located
from moorage.grouped import most_of
from moorage.kube.model.meta import whole
from moorage.table import Table

from ..gpu_policies import POPULARITY
from ..replay import History
from ..replay.history import requests_of
from ..replay.usage_over_time import Levels, changes_of, levels, over_time, percent
from .measurement import measure

Array = npt.NDArray[Any]
Shape = dict[str, int]


@measure("utilization")
def utilization(history: History, resources: Sequence[str] = ("cpu", "memory")) -> Table:
    """Measure the requested part of the allocatable amount.

    Returns
    -------
    Table
        Columns time, and ``RESOURCE_utilization`` in per cent of all nodes together.
    """
    _, time, _, requested, room = history.usage_levels(list(resources))
    columns = {f"{name}_utilization": percent(requested[at], room[at]) for at, name in enumerate(resources)}
    return Table({"time": time} | columns)


@measure("fragmentation")
def fragmentation(
    history: History,
    resources: Sequence[str] = ("cpu", "memory"),
    pods: Sequence[Mapping[str, Any]] | None = None,
) -> Table:
    """Measure the free capacity that typical pods cannot use.

    With the share w of each typical pod p, the free amount F of a resource r on node n, and the requests p:

    - fragmented: the sum over p and n of w(p) F(n, r) where p does not fit on n (the measure of Weng et al.,
      USENIX ATC 2023, section 4.2, for resources that are not divided into devices);
    - stranded: the part of it where r itself suffices for p and another resource does not.

    A pod does not fit where it requests more than is free of any resource, on a node that has as many pods as
    it may, or on a cordoned node; other constraints have no part in it.

    Parameters
    ----------
    resources : sequence of str, optional
        Of which the free amount is added up.
    pods : sequence of mapping, optional
        Typical pods: ``requests``, quantities by resource, and ``share``. By default the most frequent
        requests of the pods of the history, until 95 % of the pods are covered.

    Returns
    -------
    Table
        Columns time, and ``fragmented_RESOURCE`` and ``stranded_RESOURCE`` in per cent of the allocatable
        amount of the nodes that are there.
    """
    typical = _frequent(history) if pods is None else list(_checked(pods))
    names = list(dict.fromkeys([*resources, *(name for shape, _ in typical for name in shape), "pods"]))
    time, node, free, room, is_open = _by_node(history, names)
    parts = {f"{kind}_{name}": np.zeros(len(time)) for kind in _KINDS for name in resources}
    for shape, share in typical:
        needs = [shape.get(name, 0) for name in names]
        suffices = [free[at] >= need for at, need in enumerate(needs)]
        does_not_fit = ~(np.logical_and.reduce(suffices) & is_open)
        for at, name in enumerate(resources):
            fragmented = share * free[at] * does_not_fit
            parts[f"fragmented_{name}"] += fragmented
            if needs[at]:
                parts[f"stranded_{name}"] += fragmented * (suffices[at] & is_open)
    rooms = dict(zip(names, room, strict=True))
    columns: dict[str, Any] = {}
    for column, part in parts.items():
        whole = rooms[column.partition("_")[2]]
        sums = over_time(sum_over_nodes(time, node, part), sum_over_nodes(time, node, whole))
        columns |= {"time": sums[0], column: percent(sums[2], sums[3])}
    return Table(columns)


_KINDS = ("fragmented", "stranded")


@measure("largest_pod")
def largest_pod(history: History, shape: Mapping[str, Any] | None = None) -> Table:
    """Measure the largest pod of a shape that fits on a node.

    Parameters
    ----------
    shape : mapping of str to quantity, optional
        Proportion of the requests; by default one cpu to 4Gi of memory.

    Returns
    -------
    Table
        Columns time, and ``largest_pod``: the greatest multiple of the shape, a real number, that is free on
        one node that is not cordoned and has fewer pods than it may. Other constraints have no part in it.

    Raises
    ------
    InputError
        The shape requests nothing, or has something else where a quantity belongs.
    """
    given = _shape({"cpu": 1, "memory": "4Gi"} if shape is None else shape)
    needs = {name: amount for name, amount in given.items() if amount}
    if not needs:
        raise InputError("must request something", path="shape")
    names = [*needs, "pods"]
    time, node, free, _, is_open = _by_node(history, names)
    ratios = [free[at] / need for at, need in enumerate(needs.values())]
    size = np.where(is_open & (free[-1] > 0), np.minimum.reduce(ratios), 0.0)
    last = np.append(np.diff(time) > 0, True)[: len(time)]
    return Table({"time": time[last], "largest_pod": _running_maximum(node, size)[last]})


def _running_maximum(node: Array, value: Array) -> Array:
    """Return the greatest of the latest values of all nodes, at each row."""
    now: dict[int, float] = {}
    heap: list[tuple[float, int]] = []
    out = np.empty(len(node))
    for at, (number, size) in enumerate(zip(node.tolist(), value.tolist(), strict=True)):
        now[number] = size
        heapq.heappush(heap, (-size, number))
        while now[heap[0][1]] != -heap[0][0]:
            heapq.heappop(heap)
        out[at] = -heap[0][0]
    return out


# ---- levels ------------------------------------------------------------------------------------------------


def _by_node(history: History, names: list[str]) -> tuple[Array, Array, list[Array], list[Array], Array]:
    """Return a row for each change of a node: time, node, what is free and what is allocatable of each
    resource, and whether the node is there and not cordoned."""
    _, time, node, requested, room = history.usage_levels(names, "node")
    _, is_open = history.node_levels(lambda obj: not obj.spec.unschedulable, "node")
    joined = over_time(_levels_of(time, node, requested[0]), is_open)
    free = [np.maximum(total - used, 0) for total, used in zip(room, requested, strict=True)]
    return time, node, free, room, joined[-1] > 0


def _levels_of(time: Array, node: Array, value: Array) -> Levels:
    """Return rows in the order of nodes and then of times, as `levels` does."""
    order = np.lexsort((time, node))
    return time[order], node[order], value[order]


def sum_over_nodes(time: Array, node: Array, value: Array) -> Levels:
    """Return the sum over nodes of a value that each row gives to its node from its time on.

    Parameters
    ----------
    time : (n,) float64 array
    node : (n,) int array
    value : (n,) array

    Returns
    -------
    Levels
        Of group 0.
    """
    times, nodes, values = _levels_of(time, node, value)
    return levels(times, np.zeros(len(times), np.int64), changes_of(nodes, values))


# ---- typical pods ------------------------------------------------------------------------------------------


def _frequent(history: History) -> list[tuple[Shape, float]]:
    """Return the most frequent requests of pods that cover a part of them, with their shares."""
    numbers = np.bincount(history.pod_columns["template"], minlength=len(history.templates)).tolist()
    names = sorted({name for pod in history.templates for name in requests_of(pod)})
    counts: Counter[tuple[int, ...]] = Counter()
    for pod, number in zip(history.templates, numbers, strict=True):
        requests = requests_of(pod)
        counts[tuple([requests.get(name, 0) for name in names])] += number
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    typical = most_of(ordered, POPULARITY)
    return [(dict(zip(names, shape, strict=True)) | {"pods": 1}, share) for shape, share in typical]


def _checked(pods: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Shape, float]]:
    for at, pod in enumerate(pods):
        with located(path=f"pods[{at}]"):
            if set(pod) != {"requests", "share"} or not pod["share"] >= 0:
                raise InputError("must have requests, and a share of at least 0")
            yield _shape(pod["requests"]) | {"pods": 1}, float(pod["share"])


def _shape(requests: Mapping[str, Any]) -> Shape:
    """Return quantities in millicores, or in units of other resources."""
    out = {}
    for name, quantity in requests.items():
        with located(path=name):
            try:
                out[name] = whole(name, parse(str(quantity)))
            except ValueError as error:
                raise InputError(str(error)) from None
    return out
