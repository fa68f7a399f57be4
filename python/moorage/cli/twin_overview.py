"""TwinOverview: what the page of a twin shows first, read once for all pages, and its numbers over time."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from moorage.errors import InputError, MoorageError
from moorage.lazy import NamedTuple

if TYPE_CHECKING:
    from moorage.live.followed_cluster import Moment
    from moorage.live.twin_server import Output

logger = logging.getLogger("moorage.serve")

SECONDS, SHARE = 15.0, 0.025
"""How long a reading is kept at least, and which part of the time reading may take."""
MOST_POINTS = 500
SHARES = "cpu", "memory"
Changes = tuple[int, *tuple[tuple[str, int, int], ...]]
"""What differs once a cluster or a file has changed: how often the cluster has, and the stamps of files."""


class TwinAnswer(NamedTuple):
    """An answer.

    Attributes
    ----------
    moment : Moment or None
        How far the cluster was followed; None for files.
    command : str
        That repeats the answer, over a dump of that moment.
    """

    output: Output
    moment: Moment | None
    command: str


class Reading(NamedTuple):
    """What a cluster was when it was read.

    Attributes
    ----------
    nodes, waiting : TwinAnswer
        To ``nodes`` and to ``check``.
    changes : object
        Differs once the cluster has changed.
    """

    number: int
    nodes: TwinAnswer
    waiting: TwinAnswer
    changes: Changes
    ended: float
    took: float


class TwinOverview:
    """Reads nodes and waiting pods when they have changed, and keeps the numbers. Thread-safe.

    Parameters
    ----------
    ask : callable
        Answers a command without options, about a state that is at most so many seconds old.
    changes : callable
        Returns what differs once the cluster has changed.
    """

    def __init__(
        self,
        ask: Callable[[str, float | None], TwinAnswer],
        changes: Callable[[], Changes],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._changes, self._clock = ask, changes, clock
        self._lock = Lock()
        self._began = clock()
        self._now: Reading | None = None
        self._points: list[dict[str, float]] = []

    def keep_reading(self, stop: Event) -> None:
        """Read again and again until an event is set, so that the numbers are those since the twin runs."""
        while not stop.is_set():
            try:
                self.get()
            except Exception as error:  # the thread reads again
                defect = None if isinstance(error, MoorageError) else error  # another one is a defect
                if not stop.is_set():
                    logger.warning("the overview was not read: error=%s", error, exc_info=defect)
            stop.wait(SECONDS)

    def get(self, max_age: float | None = None) -> Reading:
        """Return a reading, a new one if one is due.

        Parameters
        ----------
        max_age : float, optional
            How many seconds old it may be if the cluster has changed; by default so many that readings take
            no more than their share of the time.

        Raises
        ------
        InputError, TwinRefusalError
            There is no answer.
        """
        with self._lock:
            if self._is_due(max_age):
                self._now = self._read(max_age)
            assert self._now is not None
            return self._now

    def _is_due(self, max_age: float | None) -> bool:
        now = self._now
        if now is None:
            return True
        most = max(SECONDS, now.took / SHARE) if max_age is None else max_age
        return self._clock() - now.ended >= most and now.changes != self._changes()

    def _read(self, max_age: float | None) -> Reading:
        began, changes = self._clock(), self._changes()
        answers = self._ask("nodes", max_age), self._ask("check", max_age)
        for answer in answers:
            if answer.output.code not in (0, 1):
                raise InputError(answer.output.stderr.strip().removeprefix("error: "))
        number, ended = self._now.number + 1 if self._now else 1, self._clock()
        nodes, waiting = (json.loads(answer.output.stdout) for answer in answers)
        self._points.append({"seconds": round(ended - self._began, 3), **totals(nodes, waiting)})
        if len(self._points) > MOST_POINTS:
            del self._points[1:-1:2]
        return Reading(number, *answers, changes, ended, ended - began)

    def about(self) -> dict[str, Any]:
        """Return which reading there is, how old it is, and whether a new one is due, as JSON."""
        now = self._now
        age = (
            {} if now is None else {"reading": now.number, "readSeconds": round(self._clock() - now.ended, 3)}
        )
        return {**age, "isDue": self._is_due(None)}

    def document(self, reading: Reading) -> bytes:
        """Return a reading as JSON: the documents of the commands as they are, and the numbers over time."""
        about = {
            "reading": reading.number,
            "seconds": round(self._clock() - self._began, 3),
            "command": reading.waiting.command,
            "history": [*self._points],
        }
        documents = [reading.nodes.output.stdout, reading.waiting.output.stdout]
        return b'%s, "nodes": %s, "check": %s}\n' % (json.dumps(about).encode()[:-1], *documents)


def totals(nodes: Mapping[str, Any], waiting: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a cluster, of the documents of ``nodes`` and ``check``: requested shares, in per
    cent; pods that are bound and that wait; the price per hour, where one is known."""
    items = nodes["items"]
    room, used = (
        {name: sum(item[kind].get(name, 0) for item in items) for name in (*SHARES, "pods")}
        for kind in ("allocatable", "requested")
    )
    numbers = {name: round(100 * used[name] / room[name], 2) for name in SHARES if room[name]}
    numbers |= {"bound": used["pods"], "waiting": sum(len(each["names"]) for each in waiting["findings"])}
    price = sum(item.get("price", 0) for item in items)
    return numbers | ({"price": price} if price else {})
