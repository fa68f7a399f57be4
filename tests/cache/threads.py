"""Threads of a test: nothing sleeps, and whatever waits has a limit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

LIMIT = 60.0


@contextmanager
def running(*targets: Callable[[], Any]) -> Iterator[None]:
    """Run functions beside the body of the with statement, changing threads as often as possible; all end in
    time. (An exception in a thread is a warning of pytest, and warnings are errors.)"""
    threads = [Thread(target=target, daemon=True) for target in targets]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive()
    finally:
        sys.setswitchinterval(interval)
