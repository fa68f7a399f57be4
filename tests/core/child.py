"""Running what may crash in a process of its own."""

from __future__ import annotations

import os
import resource
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

LIMIT = 240  # seconds: sanitizers on a busy machine need more than 60


def outcome_of(function: Callable[[], object], limit: int = LIMIT) -> int:
    """What becomes of a function in a copy of this process.

    Returns
    -------
    int
        0 if it returns, 1 if it raises, and less than 0 for the signal that ends it: SIGSEGV for a crash,
        SIGALRM after `limit` seconds.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(limit)
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def limited(room: int) -> None:
    """Let this process take so many bytes of address space beyond what it has."""
    soft = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (soft, soft))
