"""Sets of mutants as text."""

from __future__ import annotations

import base64
import zlib


def packed(bits: int) -> str:
    """Bits as a short text: of the mutants, a test reaches few files."""
    return base64.b85encode(zlib.compress(f"{bits:x}".encode())).decode()


def unpacked(text: str) -> int:
    """The bits of a text of `packed`."""
    return int(zlib.decompress(base64.b85decode(text)), 16)
