"""What pods and nodes use, as metrics.k8s.io says, beside what they request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, UnsetType

from moorage._core.base.quantity import parse
from moorage._core.base.resources import ZERO
from moorage.cluster import PodScheduler
from moorage.document import Count, Document
from moorage.errors import examples
from moorage.kube import Node, Object, Pod
from moorage.kube.model.meta import whole
from moorage.store import ObjectStore

_EXAMPLES, _FEW = 3, 0.1
"""Names in a note; the share of metrics without an object up to which it is not worth one: pods come and go
while a cluster is read."""


class MeasuredUse(Document, frozen=True):
    """How much of a resource was used when the cluster was read; cpu in millicores."""

    used: Count
    """By those of the pods, or nodes, of which there are metrics."""
    requested: Count
    """By the same."""


Usage = Mapping[str, Mapping[str, int]]


def usage_by_name(scheduler: PodScheduler) -> Usage:
    """Return what pods and nodes use by resource, as far as there are metrics, by ``Kind namespace/name``."""
    usage: dict[str, dict[str, int]] = {}
    for of, metrics in _metrics(scheduler):
        from moorage.kube.read.usage_metrics import usages_of  # few inputs have metrics

        parts = usages_of(metrics)
        names = {name for part in parts for name in part}
        amounts = {name: sum((parse(part.get(name, 0)) for part in parts), ZERO) for name in names}
        usage[of] = {name: whole(name, amount) for name, amount in sorted(amounts.items())}
    return usage


def _metrics(scheduler: PodScheduler) -> Iterator[tuple[str, Object]]:
    """Yield the metrics by ``Kind namespace/name`` of the pod or node."""
    store = scheduler.client
    for metrics in store.metrics if isinstance(store, ObjectStore) else ():
        yield f"{metrics.kind.removesuffix('Metrics')} {metrics.key}", metrics


def measured_use(
    usage: Usage, requests: Iterable[tuple[str, Mapping[str, int]]]
) -> dict[str, MeasuredUse] | UnsetType:
    """Return the use of pods or nodes by resource; unset where there are no metrics of any.

    Parameters
    ----------
    requests : iterable of (str, mapping)
        By ``Kind namespace/name``, what each requests by resource.
    """
    used, requested = Counter[str](), Counter[str]()
    for name, needs in requests:
        amounts = usage.get(name, {})
        used.update(amounts)
        requested.update({resource: needs.get(resource, 0) for resource in amounts})
    return {name: MeasuredUse(amount, requested[name]) for name, amount in used.items()} or UNSET


def stray_metrics(scheduler: PodScheduler) -> str:
    """Return a note about metrics of pods and nodes that are not there; "" if they are few."""
    names = dict(_metrics(scheduler))
    there = {obj.full_name for kind in (Pod, Node) for obj in scheduler.client.list(kind)[0]} if names else ()
    stray = [name for name in names if name not in there]
    if len(stray) <= _FEW * len(names):
        return ""
    shown = examples(stray, _EXAMPLES)
    return (
        f"{len(stray)} of {len(names)} metrics are of pods or nodes that are not in the input, and do not "
        f"count: {shown}."
    )


def forget_metrics(scheduler: PodScheduler) -> None:
    """Forget the use of pods and nodes, which is not that of the cluster any more once it has changed."""
    if isinstance(scheduler.client, ObjectStore):
        scheduler.client.metrics = ()
