"""What a step has led to, of which rewards are made."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from moorage.kube import Pod


class Transition(Struct, frozen=True, gc=False):
    """A decision about a pod, and the time until the next one.

    Attributes
    ----------
    pod : Pod
    node : str
        Where it was placed; "" for a pod that was left pending.
    time : float
        Of the decision, in seconds since the start of the timeline.
    elapsed : float
        Seconds until the next decision, or until the end of the timeline.
    pending : int
        Number of pods that are left pending after the decision.
    """

    pod: Pod
    node: str
    time: float
    elapsed: float
    pending: int


Reward = Callable[[Transition], float]


def placed(transition: Transition) -> float:
    """Return 1 for a pod that was placed, 0 for one that was left pending.

    Returns
    -------
    float
        1 or 0.
    """
    return 1.0 if transition.node else 0.0
