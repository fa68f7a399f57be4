"""The log of commands that do not end, on stderr."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"
"""Time in UTC, level, text; the text ends with what it is about, as ``key=value``."""
LOST = 1
"""The exit code after the Lease was lost."""


def verbosity_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with ``-v``."""
    return click.option("-v", "verbose", count=True, help="Also log each pod that is bound.")(command)


@contextmanager
def logging_to_stderr(verbose: int) -> Iterator[None]:
    """Write the log of a live scheduler to stderr during the block. After it, threads that still end have
    nowhere to write to, as stderr may be closed.

    Parameters
    ----------
    verbose : int
        0 for start, end, Lease and failures; 1 for pods as well.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(FORMAT, "%Y-%m-%dT%H:%M:%S"))
    handler.formatter.converter = time.gmtime  # type: ignore[union-attr]
    logger = logging.getLogger("moorage")
    before = logger.handlers, logger.level
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    finally:
        logger.handlers, level = before
        logger.setLevel(level)


def end_at_once() -> None:
    """End the process: another scheduler may lead now, so nothing is sent or waited for any more."""
    click.echo("error: leaderelection lost", err=True)
    os._exit(LOST)
