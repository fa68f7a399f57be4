"""CachePodInfo: a pod on its way to a node, with what was decided about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moorage.objects.model.pod import Pod

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that leave for another one.

    Attributes
    ----------
    pods : tuple of Pod
    preemption_state : mapping
        What the preemption plugin remembers of its choice.
    """

    pods: tuple[Pod, ...] = ()
    preemption_state: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CachePodInfo:
    """A pod to be assumed or forgotten (Gödel, CachePodInfo).

    Attributes
    ----------
    pod : Pod
        With the node that it is meant for.
    cycle_state : object, optional
        The state of the pod's scheduling cycle. The BinderCache does not look at it.
    victims : Victims, optional
        Nor at these: they leave by events of their own.
    """

    pod: Pod
    cycle_state: object = None
    victims: Victims | None = None
