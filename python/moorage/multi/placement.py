"""What a scheduler asks of the binder, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass

from moorage.framework.plugin.status import Status
from moorage.objects.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod and the node that a scheduler has chosen for it.

    Attributes
    ----------
    victims : tuple of Pod
        Pods on that node that have to go for it.
    violations : int
        How many of them a PodDisruptionBudget protects, as the scheduler saw it.
    scheduler : str
        Who asks.
    """

    pod: Pod
    node: str
    victims: tuple[Pod, ...] = ()
    violations: int = 0
    scheduler: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a placement: bound, waiting for its victims to be gone, or rejected.

    Attributes
    ----------
    status : Status or None
        Why it was rejected; None for one that was not.
    """

    placement: Placement
    status: Status | None = None
    waiting: bool = False

    @property
    def is_bound(self) -> bool:
        return self.status is None and not self.waiting

    @property
    def reason(self) -> str:
        """The text of the rejection, or ""."""
        return "" if self.status is None else self.status.message()
