"""A store whose watches drop, repeat and reorder events until one begins anew."""

from __future__ import annotations

from random import Random
from typing import Any

from moorage.store import ObjectStore, Replacement, WatchEvent


class LossyClient:
    """A store whose watches cannot be trusted until they begin anew, at the next poll after `expire`."""

    def __init__(self, store: ObjectStore, random: Random) -> None:
        self.store, self.random = store, random
        self.watches: list[LossyWatch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def follow(self, *arguments: Any, **options: Any) -> LossyWatch:
        def follow() -> Any:
            return self.store.follow(*arguments, **options)

        self.watches.append(LossyWatch(follow, self.random))
        return self.watches[-1]

    def expire(self) -> None:
        for watch in self.watches:
            watch.expired = True


class LossyWatch:
    def __init__(self, follow: Any, random: Random) -> None:
        self.follow, self.random = follow, random
        self.late: list[WatchEvent[Any]] = []
        self.expired = True

    def poll(self) -> list[WatchEvent[Any]] | Replacement[Any]:
        if self.expired:
            self.watch, self.late, self.expired = self.follow(), [], False
        events = self.watch.poll()
        if isinstance(events, Replacement):
            return events
        events = self.late + events
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
