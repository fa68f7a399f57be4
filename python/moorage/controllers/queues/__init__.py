"""Kueue among the controllers."""

from __future__ import annotations

from moorage.store import ObjectStore


def has_queues(client: ObjectStore) -> bool:
    """Whether a queue was written that jobs and pods can name."""
    return "LocalQueue" in [kind.__name__ for kind in client.changed_since(0)]
