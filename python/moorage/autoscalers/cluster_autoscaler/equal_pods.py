"""Which pods cluster-autoscaler takes for equal: those of one controller with equal labels and specs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.state.pod_spec import encode
from moorage.kube import Pod

from .node_snapshot import NodeSnapshot, Plain

T = TypeVar("T")
MOST_KINDS = 10
"""Different pods of a controller that are told apart."""


class PodClass(Struct):
    """Pods that are placed alike: equal ones of a controller, or equal ones without, each of which is a class
    of its own upstream.

    Attributes
    ----------
    are_single : bool
        Whether they have no controller.
    rejected : dict of str to list of str
        Groups whose new node does not take the first pod: the plugin and its reasons, sorted.
    takers : list of str
        Groups whose new node takes it.
    """

    pods: list[Pod]
    are_single: bool = False
    rejected: dict[str, list[str]] = msgspec.field(default_factory=dict)
    takers: list[str] = msgspec.field(default_factory=list)


def _kind_of(pod: Pod) -> bytes:
    """Return a value that equal pods of a controller share."""
    spec = pod.spec
    volumes = tuple(one for one in spec.volumes if getattr(one, "projected", None) is None)
    return encode((sorted(pod.metadata.labels.items()), replace(spec, volumes=volumes)))


class KnownKinds(Generic[T]):
    """What is known of equal pods of controllers, up to some kinds for each controller."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[bytes, T]] = {}

    def find(self, pod: Pod) -> T | None:
        """Return what was added of a pod that equals this one."""
        owner = pod.metadata.controller()
        return None if owner is None else self._by_kind.get(owner.uid, {}).get(_kind_of(pod))

    def add(self, pod: Pod, value: T) -> None:
        """Add what is known of a pod, if it has a controller with not too many kinds."""
        owner = pod.metadata.controller()
        if owner is not None and len(kinds := self._by_kind.setdefault(owner.uid, {})) < MOST_KINDS:
            kinds[_kind_of(pod)] = value


def pod_classes(snapshot: NodeSnapshot, pods: Iterable[Pod]) -> list[PodClass]:
    """Return the classes of pods, by their first pods."""
    out, kinds, singles = list[PodClass](), KnownKinds[PodClass](), dict[Plain, PodClass]()
    for pod in pods:
        plain = snapshot.plain(pod) if pod.metadata.controller() is None else None
        known = kinds.find(pod) if plain is None else singles.get(plain)
        if known is not None:
            known.pods.append(pod)
            continue
        out.append(PodClass([pod], pod.metadata.controller() is None))
        if plain is None:
            kinds.add(pod, out[-1])
        else:
            singles[plain] = out[-1]
    return out
