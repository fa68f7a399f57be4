"""A store whose watches drop, repeat and reorder events until one lists again."""

from __future__ import annotations

from random import Random
from typing import Any

from moorage.store import ObjectStore, ResourceExpiredError, WatchEvent


class LossyClient:
    """A store whose watches cannot be trusted until they expire, at the next poll after `expire`."""

    def __init__(self, store: ObjectStore, random: Random) -> None:
        self.store, self.random = store, random
        self.watches: list[LossyWatch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def watch(self, *arguments: Any, **options: Any) -> LossyWatch:
        self.watches.append(LossyWatch(self.store.watch(*arguments, **options), self.random))
        return self.watches[-1]

    def expire(self) -> None:
        for watch in self.watches:
            watch.expired = True
        self.watches.clear()


class LossyWatch:
    def __init__(self, watch: Any, random: Random) -> None:
        self.watch, self.random = watch, random
        self.late: list[WatchEvent[Any]] = []
        self.expired = False

    def poll(self) -> list[WatchEvent[Any]]:
        if self.expired:
            raise ResourceExpiredError("too old resource version")
        events = self.late + self.watch.poll()
        delivered = [event for event in events for _ in range(self.random.choice((0, 1, 1, 1, 2)))]
        if self.random.random() < 0.5:
            self.random.shuffle(delivered)
        keep = self.random.randrange(len(delivered) + 1)
        self.late = delivered[keep:]
        return delivered[:keep]

    def wait(self, timeout: float | None = None) -> bool:
        return True

    def close(self) -> None:
        self.watch.close()
