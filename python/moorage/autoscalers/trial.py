"""An autoscaler that is asked about one pod and one pool or node group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, TypeVar

from moorage._core.base.resources import PodGates
from moorage.cluster.helpful_changes import HelpfulChange, Kind, ObjectEdit, cost, tried, tried_text
from moorage.kube import Pod
from moorage.lazy import NamedTuple

from .karpenter.short_refusals import short_refusal

W = TypeVar("W")


class Refusal(NamedTuple):
    """Why a NodePool or node group gets no node for a pod, in its autoscaler's words, and what would help."""

    kind: str
    name: str
    reason: str
    changes: tuple[HelpfulChange, ...]
    kinds: frozenset[Kind]

    def lines(self) -> Iterator[str]:
        """Yield the reason, and each change that helps, or what was tried."""
        yield f"{self.kind} {self.name}: {short_refusal(self.reason)}"
        for change in self.changes:
            yield f"  would help: {change.line}"
        if not self.changes:
            yield f"  no single change helps{tried_text(self.kinds)}"


class Trial(ABC, Generic[W]):
    """Asks an autoscaler about one pod and one pool or group: would it get a node, as it is and with changes?

    Attributes
    ----------
    kind, name : str
        Of the pool or group.
    pod : Pod
        Without a node.
    kinds : set of Kind
        Of the changes that were tried.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, pod: Pod, gates: PodGates) -> None:
        self.name, self.pod, self._gates, self.kinds = name, pod, gates, set[Kind]()

    @abstractmethod
    def changed(self, edits: Sequence[ObjectEdit]) -> AbstractContextManager[W]:
        """Return what the autoscaler is asked, or decides, with changes, which are undone at the end."""

    @abstractmethod
    def reason(self) -> str:
        """Return why no node comes for the pod alone; "" if one comes."""

    @abstractmethod
    def changes(self) -> Iterator[HelpfulChange]:
        """Yield the changes with which one comes."""

    @abstractmethod
    def _gain(self, world: W) -> Mapping[str, Any]:
        """Return what a change brings: which node comes; {} for none."""

    def _tried(self, change: HelpfulChange) -> Iterator[HelpfulChange]:
        """Yield a change if a node comes with it."""
        yield from tried(self, change, self._gain)

    def _try(self, kind: Kind, text: str, *edits: ObjectEdit) -> Iterator[HelpfulChange]:
        yield from self._tried(HelpfulChange(kind, text, edits))

    def refusal(self) -> Refusal | None:
        """Return why no node comes, and what would help, the cheapest first; None if one comes."""
        if not (why := self.reason()):
            return None
        changes = tuple(sorted(self.changes(), key=cost))
        return Refusal(self.kind, self.name, why, changes, frozenset(self.kinds))
