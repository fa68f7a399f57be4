"""What metrics.k8s.io says of the use of pods and nodes."""

from __future__ import annotations

from moorage.errors import InputError

from ..admission.validate_object import validate
from ..model.meta import Object, Resources, Struct
from .decode import Document, decode

GROUP_VERSION = "metrics.k8s.io/v1beta1"


class ContainerMetrics(Struct, frozen=True):
    """What a container uses."""

    name: str = ""
    usage: Resources = {}


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
    usage: Resources = {}


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
    usages = usages_of(metrics)
    if not usages or not all(usages):
        path = f"containers[{usages.index({})}].usage" if usages else "containers"
        path = "usage" if kind == "NodeMetrics" else path
        raise InputError("required", obj=metrics.full_name, path=path)
    return metrics


def usages_of(metrics: Object) -> list[Resources]:
    """Return the amounts that the containers of a pod, or a node, use."""
    if isinstance(metrics, PodMetrics):
        return [container.usage for container in metrics.containers]
    return [metrics.usage] if isinstance(metrics, NodeMetrics) else []
