"""Which pods cluster-autoscaler takes for equal: those of one controller with equal labels and specs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from moorage._core.state.pod_spec import encode
from moorage.objects import Pod

from .node_snapshot import NodeSnapshot, Plain

MOST_KINDS = 10
"""Different pods of a controller that are told apart."""


@dataclass
class PodClass:
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
    rejected: dict[str, list[str]] = field(default_factory=dict)
    takers: list[str] = field(default_factory=list)


def controller_uid(pod: Pod) -> str | None:
    """Return the UID of a pod's controller."""
    owner = pod.metadata.controller()
    return None if owner is None else owner.uid


def kind_of(pod: Pod) -> bytes:
    """Return a value that equal pods of a controller share."""
    spec = pod.spec
    volumes = tuple(one for one in spec.volumes if getattr(one, "projected", None) is None)
    return encode((sorted(pod.metadata.labels.items()), replace(spec, volumes=volumes)))


class KnownKinds:
    """Pods of controllers that were seen, up to some kinds for each controller."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[bytes, int]] = {}

    def find(self, uid: str, kind: bytes) -> int | None:
        """Return the number under which a kind was added."""
        return self._kinds.get(uid, {}).get(kind)

    def add(self, uid: str, kind: bytes, number: int) -> None:
        """Add a kind, if its controller has not too many."""
        kinds = self._kinds.setdefault(uid, {})
        if len(kinds) < MOST_KINDS:
            kinds[kind] = number


def pod_classes(snapshot: NodeSnapshot, pods: Iterable[Pod]) -> list[PodClass]:
    """Return the classes of pods, by their first pods."""
    out: list[PodClass] = []
    kinds, singles = KnownKinds(), dict[Plain, PodClass]()
    for pod in pods:
        uid = controller_uid(pod)
        if uid is None:
            plain = snapshot.plain(pod)
            if plain is not None and plain in singles:
                singles[plain].pods.append(pod)
                continue
            out.append(PodClass([pod], True))
            if plain is not None:
                singles[plain] = out[-1]
            continue
        kind = kind_of(pod)
        number = kinds.find(uid, kind)
        if number is None:
            kinds.add(uid, kind, len(out))
            out.append(PodClass([pod]))
        else:
            out[number].pods.append(pod)
    return out
