"""CachePodInfo: a pod to be assumed or forgotten by a BinderCache, and the victims of a preemptor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moorage.kube import Pod


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that are evicted for a preemptor.

    Attributes
    ----------
    pods : tuple of Pod
    preemption_state : mapping of str to object
        State that the preemption plugin attaches to its decision.
    """

    pods: tuple[Pod, ...] = ()
    preemption_state: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CachePodInfo:
    """A pod to be assumed or forgotten (Gödel, CachePodInfo).

    Attributes
    ----------
    pod : Pod
        With its node.
    cycle_state : object, optional
        The state of the scheduling cycle; not read.
    victims : Victims, optional
        Not read: events about the victims remove them.
    """

    pod: Pod
    cycle_state: object = None
    victims: Victims | None = None
