"""A command that serves until it is stopped: it runs in this process, and is used from another thread."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import redirect_stderr
from io import StringIO
from threading import Thread
from typing import Any

from moorage.cli import main

Begin = Callable[[re.Match[str]], None]


class Stderr(StringIO):
    """Calls a function when its text matches for the first time."""

    def __init__(self, pattern: str, begin: Begin) -> None:
        super().__init__()
        self.pattern = pattern
        self.begin: Begin | None = begin

    def write(self, text: str) -> int:
        size = super().write(text)
        if self.begin is not None and (match := re.search(self.pattern, self.getvalue())):
            begin, self.begin = self.begin, None
            begin(match)
        return size


def served(arguments: list[Any], pattern: str, use: Callable[[re.Match[str]], Any]) -> tuple[int, str, Any]:
    """Run a command until its stderr matches and a function has been called with the match.

    Returns
    -------
    code : int
        The exit code.
    err : str
        What stderr has.
    used
        What the function has returned.
    """
    used = Future[Any]()

    def begin(match: re.Match[str]) -> None:
        Thread(target=use_and_stop, args=(match,)).start()

    def use_and_stop(match: re.Match[str]) -> None:
        try:
            used.set_result(use(match))
        except BaseException as error:
            used.set_exception(error)
        os.kill(os.getpid(), signal.SIGTERM)

    stderr = Stderr(pattern, begin)
    with redirect_stderr(stderr):
        code = main([str(one) for one in arguments])
    assert used.done(), stderr.getvalue()
    return code, stderr.getvalue(), used.result()
