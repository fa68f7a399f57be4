"""Which calls of a function an operation makes, without anything put in its place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def calls_of(function: Any, act: Callable[..., T], *arguments: object) -> tuple[T, list[dict[str, Any]]]:
    """Run an operation; return its result, and the arguments of each call of a function by name."""
    calls: list[dict[str, Any]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is function.__code__:
            calls.append(dict(frame.f_locals))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        return act(*arguments), calls
    finally:
        sys.setprofile(before)
