"""Regular expressions of CEL, which are those of RE2: they take linear time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..cel_errors import EvaluationError

_CODES = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""Codes of errors that RE2 names otherwise than Go's package regexp."""


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """Return a compiled pattern.

    Raises
    ------
    EvaluationError
        The pattern is malformed.
    """
    import re2  # takes long to import, and few selectors match texts

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0]
        shown = text.decode(errors="replace") if isinstance(text, bytes) else text
        raise EvaluationError(f"error parsing regexp: {_as_go(shown)}") from None


def _as_go(text: str) -> str:
    """An error of RE2 in the words of Go's package regexp."""
    code, _, expression = text.partition(": ")
    return f"{_CODES.get(code, code)}: `{expression}`"


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern matches somewhere in a text."""
    return compiled(pattern).search(text) is not None


def _of_evaluation(pattern: str) -> Any:
    try:
        return compiled(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def find(text: str, pattern: str) -> str:
    """Return the first match of a pattern in a text; "" if there is none."""
    match = _of_evaluation(pattern).search(text)
    return "" if match is None else str(match[0])


def find_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    """Return the first matches of a pattern in a text; all if the limit is negative."""
    found: list[str] = []
    if limit == 0:
        return ()
    for match in _of_evaluation(pattern).finditer(text):
        found.append(match[0])
        if len(found) == limit:
            break
    return tuple(found)
