"""What metrics.k8s.io says of the use of pods and nodes."""

from __future__ import annotations

from moorage.errors import InputError

from ..admission.validate_object import validate
from ..apiserver.decode import Document, decode
from ..model.meta import Object, Resources, Struct

GROUP_VERSION = "metrics.k8s.io/v1beta1"


class ContainerMetrics(Struct, frozen=True):
    """What a container uses."""

    name: str = ""
    usage: Resources | None = None


class PodMetrics(Object, frozen=True):
    """What the containers of a pod use, of which it has the name."""

    kind: str = "PodMetrics"
    api_version: str = GROUP_VERSION
    timestamp: str | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] = ()


class NodeMetrics(Object, frozen=True):
    """What a node uses, of which it has the name."""

    kind: str = "NodeMetrics"
    api_version: str = GROUP_VERSION
    timestamp: str | None = None
    window: str = ""
    usage: Resources | None = None


KINDS: dict[str, type[PodMetrics | NodeMetrics]] = {"PodMetrics": PodMetrics, "NodeMetrics": NodeMetrics}


def read_metrics(document: Document, kind: str) -> PodMetrics | NodeMetrics:
    """Decode the metrics of a pod or a node.

    Parameters
    ----------
    kind : str
        One of `KINDS`; items of a list do not tell it.

    Raises
    ------
    InputError
        A field has a wrong type, an amount is no quantity, or the use is not there.
    """
    metrics = decode(document, KINDS[kind])
    validate(metrics)
    measured = _measured(metrics)
    # A metrics server may have measured nothing yet, and say so; a field of another name says nothing.
    missing = [path for path, usage in measured.items() if usage is None]
    if missing or not measured:
        raise InputError("required", obj=metrics.full_name, path=missing[0] if missing else "containers")
    return metrics


def usages_of(metrics: Object) -> list[Resources]:
    """Return the amounts that the containers of a pod, or a node, use."""
    return [usage for usage in _measured(metrics).values() if usage]


def _measured(metrics: Object) -> dict[str, Resources | None]:
    """By the path of its field, what is used."""
    if isinstance(metrics, PodMetrics):
        return {f"containers[{at}].usage": each.usage for at, each in enumerate(metrics.containers)}
    return {"usage": metrics.usage} if isinstance(metrics, NodeMetrics) else {}
