"""Events: what a cluster told of its objects."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.document import Count, Document

from .meta import Object, Struct

KINDS = frozenset({"Event", "Event.events.k8s.io"})
FAILED_CREATE = "FailedCreate"
"""Reason of those about pods that a controller could not create."""


class Regarding(Struct, frozen=True):
    """The object of an event."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class Series(Struct, frozen=True):
    """How often an event was seen."""

    count: int = 0
    last_observed_time: str | None = None


class Event(Object, frozen=True):
    """An event, with the fields of v1 and of events.k8s.io/v1."""

    kind: str = "Event"
    api_version: str = "v1"
    involved_object: Regarding = Regarding()
    regarding: Regarding = Regarding()
    type: str = ""
    reason: str = ""
    message: str = ""
    note: str = ""
    count: int | None = None
    deprecated_count: int | None = None
    series: Series | None = None
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None

    @property
    def about(self) -> Regarding:
        """The object that it is about."""
        return self.involved_object if self.involved_object.name else self.regarding

    @property
    def last(self) -> str:
        """When it was last seen; "" where that is not known."""
        seen = None if self.series is None else self.series.last_observed_time
        times = (seen, self.last_timestamp, self.deprecated_last_timestamp, self.event_time)
        return next(filter(None, (*times, self.first_timestamp)), "")

    @property
    def times(self) -> int:
        """How often it was seen."""
        return self.count or (self.series and self.series.count) or self.deprecated_count or 1


class NodeEvent(Document, frozen=True):
    """An event of a node, as documents have it."""

    last: str
    """When it was last seen."""
    type: str
    """Normal or Warning."""
    reason: str
    times: Count
    """How often it was seen."""
    message: str

    @classmethod
    def of_node(cls, events: Iterable[Event], name: str) -> tuple[NodeEvent, ...]:
        """Return the events of a node, the newest first."""
        documents = [
            cls(event.last, event.type, event.reason, event.times, event.message or event.note)
            for event in events
            if (event.about.kind, event.about.name) == ("Node", name)
        ]
        return tuple(sorted(documents, key=lambda event: event.last, reverse=True))
