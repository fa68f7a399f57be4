"""How long a pod takes to start, to become ready and to stop."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from moorage.kube.model.pod import Pod


class PodTimes(Struct, frozen=True, kw_only=True):
    """How long a pod takes for what its kubelet does with it, in whole seconds.

    Attributes
    ----------
    start : int
        From its binding until its containers run.
    ready : int
        From then until it is ready.
    stop : int
        From its deletion until it is gone, unless its grace period ends before.
    """

    start: int = 2
    ready: int = 8
    stop: int = 5


TimesOf = Callable[[Pod], PodTimes]
"""Returns how long a pod takes."""
