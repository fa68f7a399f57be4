"""Writes that no decision waits for."""

from __future__ import annotations

import logging
from collections.abc import Callable

from moorage.errors import MoorageError
from moorage.kube import Object

logger = logging.getLogger("moorage.scheduler")


Then = Callable[[Exception | None], object]
"""Takes the error of a write that has ended; None without one."""


class Writes:
    """Carries out writes at once. A live scheduler has threads for them (`moorage.live.serve.Writer`).

    Attributes
    ----------
    is_beside : bool
        Whether they may end after `submit`.
    """

    is_beside = False

    def submit(
        self, what: str, about: Object, action: Callable[[], object], then: Then | None = None
    ) -> None:
        """Carry out a write after the earlier ones of the same object.

        Parameters
        ----------
        what : str
            The kind of write: as upstream names its asynchronous calls, where it has one.
        action : callable
            Writes. If it has a method `after`, and an earlier write of the same kind and object still waits,
            ``action.after(earlier)`` takes the place of both.
        then : callable, optional
            Is called at the end, by the thread that schedules. Without it a refusal is only logged.
        """
        error = None
        try:
            action()
        except MoorageError as refusal:
            error = refusal
        if then is not None:
            then(error)
        elif error is not None:
            log_failure(what, about, error)


def log_failure(what: str, about: Object, error: MoorageError) -> None:
    """Log that a write was refused."""
    logger.error("write has failed: what=%s object=%s error=%s", what, about.key, error)


AT_ONCE = Writes()
