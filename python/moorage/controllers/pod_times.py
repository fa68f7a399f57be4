"""How long a pod takes to start, to become ready and to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moorage.arguments import check_fields
from moorage.kube.model.pod import Pod


@dataclass(frozen=True, kw_only=True)
class PodTimes:
    """How long a pod takes for what its kubelet does with it, in whole seconds.

    Attributes
    ----------
    start : int
        From its binding until its containers run.
    ready : int
        From then until it is ready.
    stop : int
        From its deletion until it is gone, unless its grace period ends before.

    Raises
    ------
    TypeError
        One of them is no whole number.
    ValueError
        One of them is negative.
    """

    start: int = 2
    ready: int = 8
    stop: int = 5

    def __post_init__(self) -> None:
        check_fields(self, least=0)


TimesOf = Callable[[Pod], PodTimes]
"""Returns how long a pod takes."""
