from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from moorage._core.decide.search import Search
from moorage.objects.model.pod import Pod

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
    def tell(self, pod_class: int, pods: Iterable[Pod], row: int, adds: bool) -> None: ...
