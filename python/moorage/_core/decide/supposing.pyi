from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from moorage._core.decide.search import Search
from moorage.objects.model.pod import Pod

class Nominator(Protocol):
    nodes: dict[str, str]
    changes: list[str]
    epoch: int
    def nominated_node(self, pod: Pod) -> str | None: ...
    def nominated_nodes(self) -> list[str]: ...
    def nominated_pods_for_node(self, node_name: str) -> list[Pod]: ...

class Supposing(Search):
    judging: Callable[[int, Sequence[Pod] | None], None] | None
    def verdict_supposing(
        self,
        row: int,
        gone: list[Pod],
        come: list[Pod],
        asked: int,
        ports: AbstractSet[tuple[str, str, int]] | None,
        pod_class: int,
        node_name: int = 0,
        pinned: int = 0,
        away: Iterable[tuple[int, list[Pod]]] = (),
    ) -> int: ...
    def nominate(self, nominations: Iterable[tuple[int, Sequence[Pod]]]) -> None: ...
    def follow_nominator(self, nominator: Nominator, pod: Pod) -> None: ...
    def tell(self, pod_class: int, pods: Iterable[Pod], row: int, adds: bool) -> None: ...
