"""What a command that does not end asks of its process: signals, and room for connections."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

ENDS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
DUMPS = {signal.SIGUSR1: False, signal.SIGQUIT: True}
"""Signals at which the stacks of all threads are written, and whether the process ends then."""
IN_A_HURRY = 1
"""The exit code after a second signal (apiserver v0.36, server/signal.go)."""


@contextmanager
def ending_on_signals(end: Callable[[], object]) -> Iterator[None]:
    """Call a function at the first of `ENDS`, and end the process at the second one, during the block.

    SIGUSR1 writes the stacks of all threads to stderr, and SIGQUIT as well before it ends the process, as
    with programs in Go. SIGUSR2 is ignored. (kube-scheduler handles only SIGTERM and SIGINT; the others end
    it.)
    """
    calls = 0

    def handle(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            os._exit(IN_A_HURRY)
        end()

    handlers = dict.fromkeys(ENDS, handle) | {signal.SIGUSR2: signal.SIG_IGN}
    before = {one: signal.signal(one, handler) for one, handler in handlers.items()}
    if (stderr := sys.__stderr__) is not None:
        for one, chain in DUMPS.items():
            with suppress(OSError, ValueError):  # stderr is closed
                faulthandler.register(one, stderr, all_threads=True, chain=chain)
    try:
        yield
    finally:
        for one in DUMPS:
            faulthandler.unregister(one)
        for one, handler in before.items():
            signal.signal(one, handler)


def allow_many_connections() -> None:
    """Raise the limit of open files as far as the process may, as programs in Go do: a write that hangs keeps
    its connection."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
