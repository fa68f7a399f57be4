"""``moorage scheduler`` that kills itself with SIGKILL at one of its requests.

``python -m tests.live.kit.killed_scheduler before|after METHOD PATTERN COUNT OPTION...``: at the COUNT-th
request whose method is METHOD and whose path ends with a match of PATTERN; `after` when its answer has come.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from itertools import count
from typing import Any

from moorage.cli import main
from moorage.live.client import Connection


def kill_at(when: str, method: str, pattern: str, number: int) -> None:
    """Replace the sending of requests."""
    send, seen, wanted = Connection.request, count(1), re.compile(f"(?:{pattern})$")

    def request(self: Connection, verb: Any, path: str, *rest: Any) -> bytes:
        is_it = verb == method and bool(wanted.search(path)) and next(seen) == number
        if is_it and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = send(self, verb, path, *rest)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    Connection.request = request  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    kill_at(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
    sys.argv = ["moorage", *sys.argv[5:]]
    sys.exit(main())
