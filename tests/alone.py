"""Checks in a process of their own, without what other tests have left: threads, and caches that fill."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable


def run_alone(check: Callable[[], None]) -> None:
    """Run a function of a module, which raises if it finds something wrong."""
    code = f"from {check.__module__} import {check.__name__} as check; check()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
