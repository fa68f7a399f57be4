"""When the objects of a cluster were created, and which of them is the newest."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from itertools import chain
from operator import attrgetter

from ..model.cluster import Cluster
from ..model.meta import Object

_CREATED = attrgetter("metadata.creation_timestamp")


@lru_cache(1 << 16)
def seconds(timestamp: str) -> float:
    """Parse a timestamp of an object (RFC 3339); return seconds since 1970."""
    return datetime.fromisoformat(timestamp).timestamp()


def newest_timestamp(cluster: Cluster) -> str | None:
    """Return the creation timestamp of the newest object of a cluster; None where no object has one.

    Whatever a change creates is at least as young.
    """
    return newest(chain(cluster.nodes, cluster.pods, cluster.finished, cluster.others))


def now_of(objects: Iterable[Object]) -> float:
    """Return the time of the newest of some objects, which stands for now; 0 where none has one."""
    youngest = newest(objects)
    return seconds(youngest) if youngest else 0.0


def newest(objects: Iterable[Object]) -> str | None:
    """Return the creation timestamp of the newest of some objects; None where none has one."""
    timestamps = dict.fromkeys(map(_CREATED, objects))
    return max(filter(None, timestamps), key=seconds, default=None)
