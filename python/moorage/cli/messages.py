"""Messages of one line and a progress bar on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moorage.errors import printable


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


@contextmanager
def stages(*names: str) -> Iterator[Callable[[], None]]:
    """Show a progress bar with the current stage inside the context, on a terminal only.

    Parameters
    ----------
    *names : str
        Names of the stages.

    Yields
    ------
    callable
        Starts the next stage.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(names[0], total=len(names))
        following = iter(names[1:])
        yield lambda: progress.update(task, advance=1, description=next(following))
