"""What plugins answer, and what the engine needs to know of a plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from moorage.objects.meta import Object
from moorage.objects.pod import Pod

if TYPE_CHECKING:
    from moorage._core.pod_class import Shape
    from moorage._core.terms import Terms


class Code(IntEnum):
    """Status codes of kube-scheduler v1.36."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6


@dataclass(frozen=True, slots=True)
class Status:
    """What a plugin answers; ``None`` in its place is Success."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    def message(self) -> str:
        """The reasons, joined as upstream joins them."""
        return ", ".join(self.reasons)


SKIP = Status(Code.SKIP)

PRE_ENQUEUE = "preEnqueue"
QUEUE_SORT = "queueSort"
PRE_FILTER = "preFilter"
FILTER = "filter"
POST_FILTER = "postFilter"
PRE_SCORE = "preScore"
SCORE = "score"
RESERVE = "reserve"
PERMIT = "permit"
PRE_BIND = "preBind"
BIND = "bind"
POST_BIND = "postBind"


class Plugin:
    """An in-tree plugin: its name, the extension points it extends, its default weight and arguments."""

    name: ClassVar[str]
    extension_points: ClassVar[tuple[str, ...]]
    default_weight: ClassVar[int] = 0
    default_args: ClassVar[Mapping[str, Any]] = {}

    def pre_filter(self, pod: Pod, shape: Shape, terms: Terms) -> Status | frozenset[str] | None:
        """SKIP, a rejection, the names of the nodes to search, or None."""
        return None

    def pre_score(self, pod: Pod, shape: Shape, terms: Terms) -> Status | None:
        """SKIP, an error, or None."""
        return None

    def unbuilt_use(self, pod: Pod, workloads: Sequence[Object]) -> str:
        """What of the pod this version cannot decide yet, in a few words; "" where nothing."""
        return ""

    def unbuilt_use_of_bound(self, pod: Pod) -> str:
        """The same of a pod on a node, as far as it concerns other pods."""
        return ""


class NativePlugin(Plugin):
    """A plugin whose verdicts and scores are kernels of the compiled core."""

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        """Upstream's texts for the reason bits of a verdict."""
        raise NotImplementedError


class UnbuiltPlugin(Plugin):
    """A plugin known by name, order, weight and arguments, whose decisions this version leaves out.

    It answers Skip, which is what upstream's answers for a pod that does not use it.
    """

    def pre_filter(self, pod: Pod, shape: Shape, terms: Terms) -> Status | frozenset[str] | None:
        return SKIP

    def pre_score(self, pod: Pod, shape: Shape, terms: Terms) -> Status | None:
        return SKIP
