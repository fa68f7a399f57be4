"""Escapes control characters of input before it is printed on a terminal."""

from __future__ import annotations

import re
import sys

# C0 and C1, line separators, and what changes the direction of writing.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Escape control characters and unpaired surrogates."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def print_message(kind: str, message: str) -> None:
    """Print an error or a warning on stderr, in one line."""
    print(f"{kind}:", printable(" ".join(message.split())), file=sys.stderr)
