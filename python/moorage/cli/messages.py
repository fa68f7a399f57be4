"""Messages of one line and a progress bar on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Self

from moorage.errors import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def print_message(kind: str, message: str) -> None:
    """Print an error or a warning on stderr in one line.

    Parameters
    ----------
    kind : str
        ``error`` or ``warning``.
    message : str
        The message.
    """
    print(f"{kind}:", printable(" ".join(message.split())), file=sys.stderr)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on stderr, one line each."""
    for warning in warnings:
        print_message("warning", warning)


class Stages:
    """A progress bar on stderr, which is shown on a terminal only.

    Parameters
    ----------
    *names : str
        Names of the stages; the first one begins when the context is entered.
    """

    def __init__(self, *names: str) -> None:
        self._names = iter(names)
        self._progress: Progress | None = None
        self._task: TaskID
        self._poll: Callable[[], int] | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._progress = _progress(self._refresh)
            self._task = self._progress.add_task(next(self._names), total=None)
            self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self) -> None:
        """Begin the next stage."""
        self._poll = None
        if self._progress is not None:
            self._progress.reset(self._task, total=None, description=next(self._names))

    def count(self, total: int, poll: Callable[[], int]) -> None:
        """Show how much of the stage is done, and how long the rest takes.

        Parameters
        ----------
        poll : callable
            Returns the number of what is done; it is called from another thread.
        """
        self._poll = poll
        if self._progress is not None:
            self._progress.update(self._task, total=total)

    def _refresh(self) -> None:
        """Read the number of what is done, before the bar is drawn."""
        if self._poll is not None and self._progress is not None:
            self._progress.tasks[0].completed = self._poll()


def _progress(refresh: Callable[[], None]) -> Progress:
    """Return a bar that calls a function before it is drawn."""
    from rich import progress
    from rich.console import Console, RenderableType

    class Polling(progress.Progress):
        def get_renderables(self) -> Iterable[RenderableType]:
            refresh()
            return super().get_renderables()

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    return Polling(*columns, console=Console(stderr=True), transient=True)
