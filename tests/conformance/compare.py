"""One strict comparison of two results in the vectors' own format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def differences(expected: Any, got: Any, path: str = "") -> Iterator[str]:
    """Every place where two JSON values differ, types included, as one line each."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in sorted({*expected, *got}):
            at = f"{path}.{key}" if path else key
            if key not in got:
                yield f"{at}: expected {short(expected[key])}, got nothing"
            elif key not in expected:
                yield f"{at}: expected nothing, got {short(got[key])}"
            else:
                yield from differences(expected[key], got[key], at)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif type(expected) is not type(got) or expected != got:
        yield f"{path}: expected {short(expected)}, got {short(got)}"


def short(value: Any, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
