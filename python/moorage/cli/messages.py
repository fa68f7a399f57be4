"""What goes to stderr: messages of one line, and a progress bar if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moorage.errors import printable


def print_message(kind: str, message: str) -> None:
    """Print an error or a warning on stderr, in one line."""
    print(f"{kind}:", printable(" ".join(message.split())), file=sys.stderr)


@contextmanager
def stages(*names: str) -> Iterator[Callable[[], None]]:
    """Show the current stage; yields a function that begins the next stage.

    The bar goes when the last stage ends. Nothing is shown, and nothing loaded, without a terminal.
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
